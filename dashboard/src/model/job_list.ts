// Finds and orders jobs of a long list.
import type { JobRow } from "./types";
import { kindOf } from "./words";

export const kSorts = ["urgency", "newest", "name"] as const;
export type JobSort = (typeof kSorts)[number];
export const kSortTitles: Record<JobSort, string> = {
  urgency: "What needs somebody first",
  newest: "The newest first",
  name: "By name",
};

const kOrder = { bad: 0, warn: 1, unknown: 2, calm: 3 };
const kDay = 86_400_000;
const kWeekday = new Intl.DateTimeFormat("en", { weekday: "long", timeZone: "UTC" });
const kMonth = new Intl.DateTimeFormat("en", { month: "long", timeZone: "UTC" });

export function stateText(job: JobRow): string {
  return job.job_ended ? "ended" : job.live ? "running" : "not connected";
}

// "2026-11-28 saturday 28 november 2026", in UTC as the page shows it.
function dateWords(started: string): string {
  const time = Date.parse(started);
  if (!Number.isFinite(time)) return "";
  const date = new Date(time);
  const day = `${date.getUTCDate()} ${kMonth.format(date)} ${date.getUTCFullYear()}`;
  return `${date.toISOString().slice(0, 10)} ${kWeekday.format(date)} ${day}`;
}

// A row that has not changed is the same object, so its words are put together once.
const known = new WeakMap<JobRow, string>();

export function searchText(job: JobRow): string {
  const made = known.get(job);
  if (made !== undefined) return made;
  const { title } = kindOf(job.verdict);
  const words = [job.job, job.verdict, title, job.confidence, job.check, job.summary];
  const text = [...words, ...job.nodes, stateText(job), dateWords(job.started)].join(" ");
  const lower = text.toLowerCase();
  known.set(job, lower);
  return lower;
}

// The jobs that have every word of the filter. "today" and "yesterday" also stand for their dates.
export function foundJobs(jobs: readonly JobRow[], filter: string, now: number): JobRow[] {
  const day = (time: number) => new Date(time).toISOString().slice(0, 10);
  const dates: Record<string, string> = { today: day(now), yesterday: day(now - kDay) };
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return jobs.filter((job) => {
    const text = searchText(job);
    return words.every((word) => text.includes(word) || text.includes(dates[word] ?? word));
  });
}

const kCompare: Record<JobSort, (a: JobRow, b: JobRow) => number> = {
  urgency: (a, b) =>
    Number(a.job_ended) - Number(b.job_ended) ||
    kOrder[kindOf(a.verdict).tone] - kOrder[kindOf(b.verdict).tone] ||
    kCompare.name(a, b),
  newest: (a, b) =>
    a.started === b.started ? kCompare.name(a, b) : a.started < b.started ? 1 : -1,
  name: (a, b) => (a.job < b.job ? -1 : a.job > b.job ? 1 : 0),
};

export function sortOf(text: string): JobSort {
  return kSorts.find((sort) => sort === text) ?? "urgency";
}

export function sortedJobs(jobs: readonly JobRow[], sort: JobSort): JobRow[] {
  return [...jobs].sort(kCompare[sort]);
}

// Ticks a job for a comparison, or takes its tick away; of three the first ticked loses it.
export function ticked(ticks: readonly string[], job: string): string[] {
  if (ticks.includes(job)) return ticks.filter((other) => other !== job);
  return [...ticks, job].slice(-2);
}
