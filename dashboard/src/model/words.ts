// The words for kinds, states and reasons. Each kind has a tone, a sign and a title, so that colour
// is never the only carrier.
import { durationText } from "./text";
import type { Member, WaitEdge } from "./types";

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

const kCalmConfidence: Record<string, string> = {
  confirmed: "confirmed: nothing is missing from what gordian saw",
  suspected: "suspected: gordian has not seen all of it",
};

export function confidenceText(verdict: string, confidence: string): string {
  const texts = kindOf(verdict).tone === "bad" ? kConfidence : kCalmConfidence;
  return texts[confidence] ?? confidence;
}

type Phrase = readonly [before: string, after: string];

// Reasons by which a rank waits for what another has to do.
const kMeetings: Record<string, Phrase> = {
  started_collective: ["waits for", "has not started it"],
  first_use: ["waits for", "has not come to this first use"],
  signal: ["waits for a signal of", "has not sent it"],
  communicator_init: ["waits for", "has not joined in creating the communicator"],
  communicator_call: ["waits for", "has not made this call"],
  not_called: ["waits for", "has not called it"],
  open_group: ["waits for", "called it in a group that it has not ended"],
};

// Reasons by which it waits for something that another holds up.
const kHeldUp: Record<string, string> = {
  communicator_order: "waits for an earlier operation of the same communicator",
  launch_order: "waits until an operation that was called before it has started",
  resources: "waits for a hardware queue or multiprocessors",
  legacy_stream: "waits for work on its device before the legacy default stream may go on",
  graph_order: "waits behind an operation of the same CUDA graph",
  memory_wait: "waits for a value that a stream has yet to write",
  stream_order: "waits behind earlier work on its stream",
  event_wait: "waits for an event that has not happened",
  host_sync: "blocks the host until work on the device is done",
  host_free: "frees memory, which waits for all work on the device",
  host_copy: "copies synchronously, behind work on the device",
  store_key: "waits for a key of the store that no process has set",
  host_operation: "waits for an operation of its process group",
  polling: "polls until work on the device is done",
};

// What stands before the name of the other rank, "waits for", and what that rank has not done.
export function waitPhrase(edge: Pick<WaitEdge, "reason" | "op">): Phrase {
  if (edge.reason === "receive" || edge.reason === "send") {
    return ["waits for", edge.op.includes("ecv") ? "has not sent" : "has not received"];
  }
  const held = kHeldUp[edge.reason];
  if (held !== undefined) return [`${held}, held up by`, ""];
  return kMeetings[edge.reason] ?? ["waits for", ""];
}

const kMemberStates: Record<string, readonly [one: string, many: string]> = {
  not_called: ["has not called it", "have not called it"],
  called: ["is in the call", "are in the call"],
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
