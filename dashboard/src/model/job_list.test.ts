import { expect, test } from "vitest";

import { foundJobs, searchText, sortedJobs, sortOf, ticked } from "./job_list";
import { readJobs } from "./read";

const kNow = Date.parse("2026-11-28T12:00:00Z");

function many(count: number) {
  return readJobs({
    jobs: Array.from({ length: count }, (_, i) => ({
      job: `job-${i}`,
      verdict: i % 100 === 7 ? "host_blocked" : "finished",
      summary: i % 1000 === 7 ? "Rank 3 sleeps." : "The job has ended.",
      job_ended: i !== 3,
      nodes: [`node${i % 50}`],
      started: new Date(kNow - i * 3_600_000).toISOString(),
    })),
  }).jobs;
}

test("of 10,000 jobs the words of a filter find theirs", () => {
  const jobs = many(10_000);
  const counts = (filter: string) => foundJobs(jobs, filter, kNow).length;
  expect(counts("")).toBe(10_000);
  expect(counts("host blocked")).toBe(100);
  expect(counts("HOST_BLOCKED  sleeps")).toBe(10);
  expect(counts("job-77")).toBe(111);
  expect(counts("node7 finished")).toBe(100);
  expect(counts("running")).toBe(0);
  expect(counts("not connected")).toBe(1);
  expect(counts("today")).toBe(13);
  expect(counts("yesterday")).toBe(24);
  expect(counts("2026-11-27")).toBe(24);
  expect(counts("november 2026 friday")).toBe(24 * 4);
  expect(counts("nothing of this")).toBe(0);
});

// However often somebody types, the words of a job are put together once.
test("a search makes the words of each job once", () => {
  const jobs = many(10_000);
  let made = 0;
  const counted = jobs.map((job) =>
    Object.defineProperty({ ...job }, "summary", {
      get: () => {
        ++made;
        return job.summary;
      },
    }),
  );
  for (const filter of ["j", "jo", "job", "job-1", "ended"]) foundJobs(counted, filter, kNow);
  expect(made).toBe(10_000);
  expect(searchText(jobs[7]!)).toContain("rank 3 sleeps.");
});

test("jobs are ordered as somebody asks", () => {
  const names = (sort: string) =>
    sortedJobs(many(12), sortOf(sort))
      .slice(0, 4)
      .map((job) => job.job);
  expect(names("")).toEqual(["job-3", "job-7", "job-0", "job-1"]);
  expect(names("newest")).toEqual(["job-0", "job-1", "job-2", "job-3"]);
  expect(names("name")).toEqual(["job-0", "job-1", "job-10", "job-11"]);
  expect(sortOf("constructor")).toBe("urgency");
});

test("two jobs at most are ticked", () => {
  expect(ticked([], "a")).toEqual(["a"]);
  expect(ticked(["a", "b"], "c")).toEqual(["b", "c"]);
  expect(ticked(["a", "b"], "a")).toEqual(["b"]);
});
