// The words for kinds, states and reasons. Each kind has a tone, a sign and a title, so that colour
// is never the only carrier.
import { durationText } from "./text";
import type { Member } from "./types";

const kNormalQuiet = 5; // seconds between two steps of a job that runs

export type Tone = "bad" | "warn" | "calm" | "unknown";

interface Kind {
  title: string;
  tone: Tone;
  sign: string;
}

const kKinds: Record<string, Kind> = {
  deadlock: { title: "DEADLOCK", tone: "bad", sign: "✕" },
  mismatch: { title: "MISMATCH", tone: "bad", sign: "≠" },
  rank_not_joined: { title: "RANK NOT JOINED", tone: "bad", sign: "!" },
  host_blocked: { title: "HOST BLOCKED", tone: "bad", sign: "!" },
  rank_exited: { title: "RANK EXITED", tone: "bad", sign: "!" },
  rank_stopped: { title: "RANK STOPPED", tone: "bad", sign: "!" },
  rank_aborted: { title: "RANK ABORTED", tone: "bad", sign: "!" },
  init_hang: { title: "INIT HANG", tone: "bad", sign: "!" },
  stuck_kernel: { title: "STUCK KERNEL", tone: "bad", sign: "!" },
  inconclusive: { title: "INCONCLUSIVE", tone: "unknown", sign: "?" },
  healthy: { title: "NOTHING IS STUCK", tone: "calm", sign: "✓" },
  finished: { title: "FINISHED", tone: "calm", sign: "✓" },
};

export function kindOf(verdict: string): Kind {
  const known = Object.prototype.hasOwnProperty.call(kKinds, verdict) ? kKinds[verdict] : undefined;
  if (known !== undefined) return known;
  const title = verdict.replace(/_/g, " ").toUpperCase() || "NO VERDICT YET";
  return { title, tone: "unknown", sign: "?" };
}

// What is stuck, unless merely suspected or possible, is told as loudly as it deserves.
export function toneOf(verdict: string, confidence: string): Tone {
  const tone = kindOf(verdict).tone;
  return tone === "bad" && confidence !== "confirmed" ? "warn" : tone;
}

// How long there was no progress; "" where that is unknown, or normal for a job that runs.
export function quietText(verdict: string, since_progress_s: number): string {
  const normal = kindOf(verdict).tone === "calm" && since_progress_s < kNormalQuiet;
  return normal ? "" : durationText(since_progress_s);
}

const kConfidence: Record<string, string> = {
  confirmed: "confirmed: stuck in two rounds, nothing missing",
  suspected: "suspected: no progress for a time, or a proof with a hole",
  possible: "possible: did not happen in this run, or follows from another finding",
};

export function confidenceText(confidence: string): string {
  return kConfidence[confidence] ?? confidence;
}

const kReasons: Record<string, string> = {
  started_collective: "has not started it",
  first_use: "has not come to this first use",
  receive: "has not received it",
  send: "has not sent it",
  stream_order: "has earlier work on the stream",
  event_wait: "has not recorded the event's work as done",
  communicator_order: "has an earlier operation on the communicator",
  communicator_init: "has not called this to make the communicator",
  communicator_call: "has not made this call of the communicator",
  not_called: "has not called it",
  open_group: "has not closed its group",
  memory_wait: "has not written the memory",
  signal: "has not signalled",
  store_key: "has not set the key",
};

// "which has not started it"; "" where the detail has to say it.
export function reasonText(reason: string): string {
  const known = kReasons[reason];
  return known === undefined ? "" : `which ${known}`;
}

const kMemberStates: Record<string, readonly [one: string, many: string]> = {
  not_called: ["has not called it", "have not called it"],
  called: ["has called it", "have called it"],
  in_open_group: ["has it in a group left open", "have it in a group left open"],
  enqueued: [
    "has it behind other work of its stream",
    "have it behind other work of their streams",
  ],
  at_head: ["is in it and waits", "are in it and wait"],
  done: ["has done it", "have done it"],
};

// "has not called it: is in cudaMemcpyAsync".
export function memberText(member: Pick<Member, "state" | "instead">, ranks = 1): string {
  const known = kMemberStates[member.state]?.[ranks === 1 ? 0 : 1] ?? member.state;
  if (member.instead === "") return known;
  return ranks === 1 ? `${known}: ${member.instead}` : `${known}; each ${member.instead}`;
}

// One name for both ends of a transfer, since a list of its members does not say which is whose.
export function instanceOp(op: string): string {
  return /^(Send|Recv)$/.test(op) ? "transfer" : op;
}

const kRankStates: Record<string, { sign: string; word: string }> = {
  running: { sign: "▸", word: "running" },
  in_call: { sign: "●", word: "in call" },
  stopped: { sign: "‖", word: "stopped" },
  ended: { sign: "■", word: "ended" },
};

export function rankStateOf(state: string): { sign: string; word: string } {
  return kRankStates[state] ?? { sign: "?", word: state.replace(/_/g, " ") || "unknown" };
}
