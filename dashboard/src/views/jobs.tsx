// The list of jobs of the server.
import { useState } from "preact/hooks";

import { count, printable } from "../model/text";
import type { JobRow } from "../model/types";
import { kindOf, quietText } from "../model/words";
import { KindChip } from "../ui/parts";
import { routeHash } from "../ui/route";

const kMostJobs = 500;
const kOrder = { bad: 0, warn: 1, unknown: 2, calm: 3 };

export function JobsView(props: { jobs: readonly JobRow[] }) {
  const [selected, select] = useState(-1);
  const [filter, setFilter] = useState("");
  const wanted = filter.toLowerCase();
  const jobs = props.jobs
    .filter((job) => `${job.job} ${job.verdict} ${job.summary}`.toLowerCase().includes(wanted))
    .sort(
      (a, b) =>
        Number(a.job_ended) - Number(b.job_ended) ||
        kOrder[kindOf(a.verdict).tone] - kOrder[kindOf(b.verdict).tone] ||
        (a.job < b.job ? -1 : 1),
    )
    .slice(0, kMostJobs);
  const move = (by: number) => {
    const to = Math.max(0, Math.min(jobs.length - 1, selected + by));
    select(to);
    document.getElementById(`job-${to}`)?.focus();
  };
  return (
    <section class="card" aria-labelledby="jobs-title">
      <div class="card-head">
        <h2 id="jobs-title">Jobs</h2>
        <p class="dim">{count(props.jobs.length)} known to this server</p>
      </div>
      <div class="tools">
        <input
          class="filter"
          type="search"
          data-filter=""
          aria-label="Filter: name, verdict"
          placeholder="Filter: name, verdict  ( / )"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      {jobs.length === 0 && (
        <p class="dim">
          {props.jobs.length === 0 ? "No job has come to this server yet." : "No job matches."}
        </p>
      )}
      <ul
        class="jobs"
        data-list=""
        tabIndex={-1}
        aria-label="Jobs"
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "j") move(1);
          else if (event.key === "ArrowUp" || event.key === "k") move(-1);
          else return;
          event.preventDefault();
        }}
      >
        {jobs.map((job, i) => {
          const since = quietText(job.verdict, job.since_progress_s);
          return (
            <li key={job.job}>
              <a id={`job-${i}`} href={routeHash(job.job, "verdict")} onFocus={() => select(i)}>
                <span class="job-name mono">{printable(job.job)}</span>
                <KindChip verdict={job.verdict} confidence={job.confidence} />
                <span class="job-summary">{job.summary}</span>
                <span class="job-facts dim">
                  {job.ranks >= 0 && `${count(job.ranks)} ranks · `}
                  {job.job_ended ? "ended" : job.live ? "running" : "not connected"}
                  {since !== "" && ` · no progress for ${since}`}
                  {job.started !== "" && ` · started ${job.started}`}
                </span>
              </a>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
