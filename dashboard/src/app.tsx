// The frame around the views: the bar on top, the choice of view, the keys, and what it says while
// there is nothing to show.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { LiveState } from "./data/live";
import { printable } from "./model/text";
import type { PageDocument } from "./model/types";
import { quietText } from "./model/words";
import { PageProvider, type PageContext } from "./ui/context";
import { kKeys, useKeys } from "./ui/keys";
import { KindChip } from "./ui/parts";
import {
  go,
  kViews,
  kViewTitles,
  parseRoute,
  placeHash,
  routeHash,
  type Place,
  type Route,
  type View,
} from "./ui/route";
import { CommunicatorsView } from "./views/communicators";
import { CompareView } from "./views/compare";
import { DiffView } from "./views/diff";
import { GraphView } from "./views/graph";
import { HealthView } from "./views/health";
import { IncidentsView } from "./views/incidents";
import { JobsView } from "./views/jobs";
import { RanksView } from "./views/ranks";
import { StacksView } from "./views/stacks";
import { TimelineView } from "./views/timeline";
import { VerdictView } from "./views/verdict";

const kComponents: Record<View, () => ComponentChildren> = {
  verdict: VerdictView,
  ranks: RanksView,
  graph: GraphView,
  timeline: TimelineView,
  diff: DiffView,
  stacks: StacksView,
  communicators: CommunicatorsView,
  health: HealthView,
};

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

// Seconds without progress, counted on from when the document came.
function useSince(page: PageDocument | null, page_at: number, ended = false): number {
  const [now, setNow] = useState(() => performance.now());
  const known = page?.status?.since_progress_s ?? -1;
  const counts = page !== null && page.live && !ended && known >= 0;
  useEffect(() => {
    if (!counts) return undefined;
    setNow(performance.now());
    const timer = setInterval(() => setNow(performance.now()), 1000);
    return () => clearInterval(timer);
  }, [counts, page_at]);
  return counts ? known + Math.max(0, now - page_at) / 1000 : known;
}

function Help(props: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="keys-title" onClose={props.onClose}>
      <h2 id="keys-title">Keys</h2>
      <dl class="facts">
        {kKeys.map(([key, what]) => [
          <dt key={key}>
            <kbd>{key}</kbd>
          </dt>,
          <dd key={what}>{what}</dd>,
        ])}
      </dl>
      <button type="button" class="button" onClick={props.onClose}>
        Close
      </button>
    </dialog>
  );
}

function Tabs(props: { job: string; view: View }) {
  const current = useRef<HTMLAnchorElement>(null);
  useEffect(
    () => current.current?.scrollIntoView({ block: "nearest", inline: "nearest" }),
    [props.view],
  );
  return (
    <nav class="tabs" aria-label="Views">
      {kViews.map((view, i) => (
        <a
          key={view}
          ref={view === props.view ? current : null}
          href={routeHash(props.job, view)}
          aria-current={view === props.view ? "page" : undefined}
        >
          <span class="tab-key" aria-hidden="true">
            {i + 1}
          </span>
          {kViewTitles[view]}
        </a>
      ))}
    </nav>
  );
}

const kPlaceTitles: Record<Place, string> = {
  jobs: "Jobs",
  incidents: "Incidents",
  compare: "Compare",
};

function Places(props: { place: Place }) {
  return (
    <nav class="tabs" aria-label="Lists">
      {(["jobs", "incidents"] as const).map((place) => (
        <a
          key={place}
          href={placeHash(place)}
          aria-current={place === props.place ? "page" : undefined}
        >
          {kPlaceTitles[place]}
        </a>
      ))}
    </nav>
  );
}

interface FrameProps {
  place?: Place;
  has_incidents?: boolean;
  job: string | null;
  view: View;
  page: PageDocument | null;
  since: number;
  ended?: boolean;
  jobs_link: boolean;
  bar?: ComponentChildren;
  children: ComponentChildren;
}

function Frame(props: FrameProps) {
  const [help, setHelp] = useState(false);
  useKeys(props.page === null ? null : props.job, help, setHelp);
  const verdict = props.page?.verdict ?? props.page?.status ?? null;
  const since = quietText(verdict?.verdict ?? "", props.since);
  const title = props.job === null ? kPlaceTitles[props.place ?? "jobs"] : printable(props.job);
  useEffect(() => {
    const kind = verdict === null ? "" : ` · ${verdict.verdict.replace(/_/g, " ")}`;
    document.title = `${title}${kind} · gordian`;
  }, [title, verdict?.verdict]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => skip(event)}>
        Skip to the content
      </a>
      <header class="top">
        <div class="top-row">
          {props.jobs_link ? (
            <a class="brand" href="#/">
              gordian
            </a>
          ) : (
            <span class="brand">gordian</span>
          )}
          <h1 class="mono">{title}</h1>
          {verdict !== null && (
            <KindChip verdict={verdict.verdict} confidence={verdict.confidence} />
          )}
          {props.ended && <span class="top-ended">■ job ended</span>}
          {props.page?.live && props.view !== "verdict" && since !== "" && !props.ended && (
            <span class="top-since dim">
              no progress for <span class="tabular">{since}</span>
            </span>
          )}
          <button
            type="button"
            class="button keys"
            aria-label="Show the keys"
            onClick={() => setHelp(true)}
          >
            ?
          </button>
        </div>
        {props.job !== null && props.page !== null && <Tabs job={props.job} view={props.view} />}
        {props.job === null && props.has_incidents && <Places place={props.place ?? "jobs"} />}
        {props.bar}
      </header>
      <main id="main" tabIndex={-1}>
        {props.children}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

// The address holds the view, so a link to "#main" must not change it.
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Views(props: { context: PageContext }) {
  const Component = kComponents[props.context.view];
  useEffect(() => window.scrollTo(0, 0), [props.context.view]);
  return (
    <PageProvider value={props.context}>
      <Component />
    </PageProvider>
  );
}

export function ReportApp(props: { page: PageDocument; page_at: number }) {
  const { page } = props;
  const route = useRoute();
  const since = useSince(page, props.page_at);
  const job = page.job || "job";
  const context = { page, job, params: route.params, view: route.view, since_progress_s: since };
  return (
    <Frame job={job} view={route.view} page={page} since={since} jobs_link={false}>
      <Views context={context} />
    </Frame>
  );
}

function clock(time: number): string {
  return new Date(time).toTimeString().slice(0, 8);
}

function TokenForm(props: { onToken: (token: string) => void }) {
  const [token, setToken] = useState("");
  const [tried, setTried] = useState(false);
  return (
    <form
      class="card token"
      onSubmit={(event) => {
        event.preventDefault();
        setTried(true);
        props.onToken(token.trim());
      }}
    >
      <h2>This server asks for a token</h2>
      <p>
        gordian printed it when it started, as part of the address.{" "}
        <code>gordian token DIR</code> prints it again; DIR is the session, or the folder of{" "}
        <code>gordian serve --sessions</code>.
      </p>
      {tried && <p role="alert">The server did not take that token.</p>}
      <label class="field">
        Token
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button primary">
        Open
      </button>
    </form>
  );
}

export function LiveApp(props: {
  state: LiveState;
  watch: (job: string | null) => void;
  onToken: (token: string) => void;
}) {
  const { state } = props;
  const route = useRoute();
  const jobs = useMemo(() => [...state.jobs.values()], [state.jobs]);
  useEffect(() => props.watch(route.job), [route.job]);
  // Only the first sight of a single job leads to it, so that its list stays reachable.
  const [led, setLed] = useState(false);
  useEffect(() => {
    if (led || jobs.length === 0) return;
    setLed(true);
    const asks = route.job !== null || route.place !== "jobs";
    if (!asks && jobs.length === 1) go(routeHash(jobs[0]!.job, "verdict"), true);
  }, [jobs, led, route.job, route.place]);
  const page = state.watched === route.job ? state.page : null;
  // The last event may come without its document: a server of one job ends with the job.
  const row = route.job === null ? undefined : state.jobs.get(route.job);
  const ended = row?.job_ended ?? page?.status?.job_ended ?? false;
  const since = useSince(page, state.page_at, ended);
  const away = state.connection === "away" && (
    <p class="away" role="status">
      {`! No answer since ${clock(state.away_since)}; trying again. `}
      {ended && "The job has ended, and its gordian may have ended with it. "}
      {page !== null || jobs.length > 0 ? "What you see is from before." : ""}
    </p>
  );
  const frame = { view: route.view, since, ended, jobs_link: true, bar: away };
  if (state.connection === "denied") {
    return (
      <Frame {...frame} job={route.job} page={null}>
        <TokenForm onToken={props.onToken} />
      </Frame>
    );
  }
  if (route.job === null) {
    const { place, params } = route;
    return (
      <Frame {...frame} place={place} has_incidents={state.has_incidents} job={null} page={null}>
        {state.connection === "connecting" ? (
          <p class="notice">Asking the server…</p>
        ) : place === "incidents" ? (
          <IncidentsView
            filter={params["q"] ?? ""}
            jobs={state.jobs}
            changed_at={state.incidents_at}
            may_acknowledge={state.may_acknowledge}
            onToken={props.onToken}
          />
        ) : place === "compare" ? (
          <CompareView
            key={`${params["a"]}\n${params["b"]}`}
            a={params["a"] ?? ""}
            b={params["b"] ?? ""}
            jobs={state.jobs}
          />
        ) : (
          <JobsView jobs={jobs} params={params} />
        )}
      </Frame>
    );
  }
  const context = page && {
    page,
    job: route.job,
    params: route.params,
    view: route.view,
    since_progress_s: since,
  };
  return (
    <Frame {...frame} job={route.job} page={page}>
      {state.problem !== "" && (
        <p class="notice" role="alert">
          {state.problem}
        </p>
      )}
      {context ? (
        <Views context={context} />
      ) : (
        state.problem === "" && <p class="notice">Asking the server about this job…</p>
      )}
    </Frame>
  );
}
