// Reads and writes the address: `#/job/NAME/VIEW?key=value`, or `#/` for the list of jobs.

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

export interface Route {
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
    return { job: null, view: "verdict", params };
  }
  const view = kViews.find((name) => name === parts[2]) ?? "verdict";
  return { job: decoded(parts[1]), view, params };
}

export function routeHash(job: string | null, view: View, params: Record<string, string> = {}) {
  if (job === null) return "#/";
  const query = new URLSearchParams(params).toString();
  return `#/job/${encodeURIComponent(job)}/${view}${query === "" ? "" : "?" + query}`;
}

// Goes there; `replace` leaves no entry in the history, for selections.
export function go(hash: string, replace = false): void {
  if (location.hash === hash) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  // At once, so that the next key already meets the new view.
  dispatchEvent(new HashChangeEvent("hashchange"));
}
