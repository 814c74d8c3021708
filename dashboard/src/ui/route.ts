// Reads and writes the address: `#/job/NAME/VIEW?key=value` for a view of a job; `#/` for the list of
// jobs, `#/incidents`, and `#/compare?a=NAME&b=NAME`, which show several jobs.

export const kViews = [
  "verdict",
  "ranks",
  "graph",
  "timeline",
  "diff",
  "stacks",
  "communicators",
  "health",
] as const;
export type View = (typeof kViews)[number];

export const kViewTitles: Record<View, string> = {
  verdict: "Verdict",
  ranks: "Ranks",
  graph: "Wait-for graph",
  timeline: "Timeline",
  diff: "Diff",
  stacks: "Stacks",
  communicators: "Communicators",
  health: "Capture health",
};

// What shows several jobs.
export type Place = "jobs" | "incidents" | "compare";
const kPaths: Record<Place, string> = {
  jobs: "#/",
  incidents: "#/incidents",
  compare: "#/compare",
};

export interface Route {
  place: Place; // where `job` is null
  job: string | null;
  view: View;
  params: Readonly<Record<string, string>>;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const parts = path.split("/");
  const params: Record<string, string> = {};
  new URLSearchParams(query).forEach((value, key) => (params[key] = value));
  if (parts[0] !== "job" || parts[1] === undefined || parts[1] === "") {
    const place = parts[0] === "incidents" || parts[0] === "compare" ? parts[0] : "jobs";
    return { place, job: null, view: "verdict", params };
  }
  const view = kViews.find((name) => name === parts[2]) ?? "verdict";
  return { place: "jobs", job: decoded(parts[1]), view, params };
}

type Params = Readonly<Record<string, string>>;

function withQuery(path: string, params: Params): string {
  const query = new URLSearchParams(params).toString();
  return query === "" ? path : `${path}?${query}`;
}

export function routeHash(job: string | null, view: View, params: Params = {}) {
  if (job === null) return kPaths.jobs;
  return withQuery(`#/job/${encodeURIComponent(job)}/${view}`, params);
}

export function placeHash(place: Place, params: Params = {}): string {
  return withQuery(kPaths[place], params);
}

// Changes a key of the query of the place that is shown; an empty value takes the key away.
export function setPlaceParam(place: Place, key: string, value: string): void {
  const now = parseRoute(location.hash);
  if (now.job !== null || now.place !== place) return;
  const { [key]: _, ...others } = now.params;
  go(placeHash(place, value === "" ? others : { ...others, [key]: value }), true);
}

// Goes there; `replace` leaves no entry in the history, for selections.
export function go(hash: string, replace = false): void {
  if (location.hash === hash) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  // At once, so that the next key already meets the new view.
  dispatchEvent(new HashChangeEvent("hashchange"));
}
