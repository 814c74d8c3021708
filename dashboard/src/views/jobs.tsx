// The list of jobs of the server.
import { useMemo, useState } from "preact/hooks";

import { timeText } from "../model/incidents";
import {
  foundJobs,
  kSorts,
  kSortTitles,
  sortedJobs,
  sortOf,
  stateText,
  ticked,
} from "../model/job_list";
import { count, plural, printable } from "../model/text";
import type { JobRow } from "../model/types";
import { quietText } from "../model/words";
import { moveInList } from "../ui/keys";
import { Filter, KindChip } from "../ui/parts";
import { placeHash, routeHash, setPlaceParam } from "../ui/route";

const kMostShown = 200;

interface RowProps {
  job: JobRow;
  number: number;
  ticked: boolean;
  onTick: () => void;
}

function Row(props: RowProps) {
  const { job } = props;
  const since = quietText(job.verdict, job.since_progress_s);
  const name = printable(job.job);
  return (
    <li>
      <input
        type="checkbox"
        aria-label={`Compare ${name}`}
        checked={props.ticked}
        onChange={props.onTick}
      />
      <a
        id={`job-${props.number}`}
        href={routeHash(job.job, "verdict")}
        onKeyDown={(event) => {
          if (event.key === "x") props.onTick();
        }}
      >
        <span class="job-name mono">{name}</span>
        <KindChip verdict={job.verdict} confidence={job.confidence} />
        <span class="job-summary">{job.summary}</span>
        <span class="job-facts dim">
          {job.ranks >= 0 && `${plural(job.ranks, "rank")} · `}
          {stateText(job)}
          {since !== "" && ` · no progress for ${since}`}
          {job.started !== "" && ` · started ${timeText(job.started)}`}
        </span>
      </a>
    </li>
  );
}

export function JobsView(props: {
  jobs: readonly JobRow[];
  params: Readonly<Record<string, string>>;
}) {
  const [ticks, setTicks] = useState<string[]>([]);
  const filter = props.params["q"] ?? "";
  const sort = sortOf(props.params["sort"] ?? "");
  const jobs = useMemo(
    () => sortedJobs(foundJobs(props.jobs, filter, Date.now()), sort),
    [props.jobs, filter, sort],
  );
  const shown = jobs.slice(0, kMostShown);
  const [a, b] = ticks;
  return (
    <section class="card" aria-labelledby="jobs-title">
      <div class="card-head">
        <h2 id="jobs-title">Jobs</h2>
        <p class="dim" role="status">
          {filter === ""
            ? plural(jobs.length, "job")
            : `${count(jobs.length)} of ${plural(props.jobs.length, "job")}`}
        </p>
      </div>
      <div class="tools">
        <Filter
          label="Filter: name, verdict, node, date"
          value={filter}
          onChange={(value) => setPlaceParam("jobs", "q", value)}
        />
        <label class="field">
          Order
          <select
            value={sort}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              setPlaceParam("jobs", "sort", chosen === kSorts[0] ? "" : chosen);
            }}
          >
            {kSorts.map((one) => (
              <option key={one} value={one}>
                {kSortTitles[one]}
              </option>
            ))}
          </select>
        </label>
        {a !== undefined && b !== undefined && (
          <a class="button primary" href={placeHash("compare", { a, b })}>
            Compare {printable(a)} with {printable(b)}
          </a>
        )}
        {a !== undefined && b === undefined && (
          <p class="dim" role="status">
            Tick another job to compare it with {printable(a)}.
          </p>
        )}
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
        onKeyDown={(event) => moveInList(event, "job-", shown.length)}
      >
        {shown.map((job, i) => (
          <Row
            key={job.job}
            job={job}
            number={i}
            ticked={ticks.includes(job.job)}
            onTick={() => setTicks(ticked(ticks, job.job))}
          />
        ))}
      </ul>
      {jobs.length > shown.length && (
        <p class="dim">
          The first {count(shown.length)} of {count(jobs.length)} are shown; the filter finds the
          others.
        </p>
      )}
    </section>
  );
}
