// Orders and filters incidents, and says in words how long each lasted and who was told.
import { durationText, plural } from "./text";
import type { Incident, SentAlert } from "./types";

// The newest first: those that match every word of the filter.
export function foundIncidents(incidents: readonly Incident[], filter: string): Incident[] {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return incidents
    .filter((incident) => {
      const text = searchText(incident);
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => (a.opened < b.opened ? 1 : a.opened > b.opened ? -1 : 0));
}

// The job that an incident is of, among those of the server; null: it is not there any more. `gordian
// serve` names a job by its session's folder. `gordian run` has one job, and gives a whole path.
export function jobOf(incident: Incident, jobs: ReadonlyMap<string, unknown>): string | null {
  if (!incident.session.startsWith("/")) return jobs.has(incident.session) ? incident.session : null;
  const [only, ...others] = jobs.keys();
  return only !== undefined && others.length === 0 ? only : null;
}

function searchText(incident: Incident): string {
  const { id, job, nodes, verdict, confidence, check, summary, opened, acknowledgements } = incident;
  const state = incident.open ? "open" : incident.how_ended;
  const people = acknowledgements.flatMap((one) => [one.who, one.note]);
  return [id, job, ...nodes, verdict, verdict.replace(/_/g, " "), confidence, check, summary, opened]
    .concat(state, people.length === 0 ? "" : "acknowledged", people)
    .join(" ")
    .toLowerCase();
}

// "2026-11-28 01:16:05 UTC".
export function timeText(time: string): string {
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(time);
  return match === null ? time : `${match[1]} ${match[2]} UTC`;
}

// "open for 12 min 03 s", "lasted 4.20 s: job ended". `now` is Date.now() of this machine, whose clock
// may be behind the server's.
export function lastedText(incident: Incident, now: number): string {
  const until = incident.open ? now : Date.parse(incident.ended);
  const lasted = durationText(Math.max(0, until - Date.parse(incident.opened)) / 1000);
  if (incident.open) return lasted === "" ? "open" : `open for ${lasted}`;
  const how = incident.how_ended === "" ? "" : `: ${incident.how_ended}`;
  return `${lasted === "" ? "ended" : `lasted ${lasted}`}${how}`;
}

const kAlertStates: Record<string, string> = {
  sent: "sent to",
  pending: "waits to be sent to",
  "given up": "could not be delivered to",
};

// "confirmed: sent to https://hooks.slack.com".
export function alertText(alert: SentAlert): string {
  return `${alert.alert}: ${kAlertStates[alert.state] ?? alert.state} ${alert.target}`;
}

// "3 revisions, from suspected to confirmed".
export function revisionsText(incident: Incident): string {
  const first = incident.revisions[0];
  const last = incident.revisions.at(-1);
  const counted = plural(incident.revisions.length, "revision");
  if (first === undefined || last === undefined) return counted;
  const from = `${first.verdict.replace(/_/g, " ")} (${first.confidence})`;
  const to = `${last.verdict.replace(/_/g, " ")} (${last.confidence})`;
  return from === to ? `${counted}, ${from}` : `${counted}, from ${from} to ${to}`;
}
