// Places the operations of streams on a time axis, and says who has not come to those that are not
// done.
import { ranksText } from "./text";
import type { Finding, History, StreamHistory, StreamOperation } from "./types";
import { instanceOp } from "./words";

export interface TimeSpan {
  from: number;
  to: number;
}

export function isOpen(operation: StreamOperation): boolean {
  return operation.done_ns <= 0 && operation.progress !== "done";
}

// The whole time of the history, with room on the right for what is not done.
export function wholeSpan(history: History): TimeSpan {
  let from = Infinity;
  let to = history.stalled_at_ns > 0 ? history.stalled_at_ns : 0;
  for (const stream of history.streams) {
    for (const operation of stream.operations) {
      if (operation.called_ns > 0) from = Math.min(from, operation.called_ns);
      to = Math.max(to, operation.called_ns, operation.done_ns);
    }
  }
  if (!Number.isFinite(from) || to <= from) from = to - 1000;
  const length = to - from;
  return { from: from - length * 0.02, to: to + length * 0.26 };
}

// Zooms by `factor` about the time `at`, within `whole`.
export function zoomed(span: TimeSpan, whole: TimeSpan, at: number, factor: number): TimeSpan {
  const least = 50;
  const length = Math.min(whole.to - whole.from, Math.max(least, (span.to - span.from) * factor));
  const share = (at - span.from) / (span.to - span.from);
  return panned({ from: at - share * length, to: at + (1 - share) * length }, whole, 0);
}

export function panned(span: TimeSpan, whole: TimeSpan, by: number): TimeSpan {
  const length = span.to - span.from;
  const from = Math.min(Math.max(span.from + by, whole.from), whole.to - length);
  return { from, to: from + length };
}

// Round times for the axis: 1, 2 or 5 times a power of ten, at most `most` of them.
export function ticks(span: TimeSpan, zero: number, most: number): number[] {
  const raw = (span.to - span.from) / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= raw) ?? power * 10;
  const out: number[] = [];
  for (let n = Math.ceil((span.from - zero) / step); zero + n * step <= span.to; ++n) {
    out.push(zero + n * step);
  }
  return out;
}

// Streams of culprits first, then those with something not done, then by rank.
export function orderedStreams(history: History, culprits: ReadonlySet<number>): StreamHistory[] {
  const open = new Map(history.streams.map((s) => [s, s.operations.some(isOpen)] as const));
  return [...history.streams].sort(
    (a, b) =>
      Number(culprits.has(b.rank)) - Number(culprits.has(a.rank)) ||
      Number(open.get(b)) - Number(open.get(a)) ||
      a.rank - b.rank ||
      (a.stream < b.stream ? -1 : 1),
  );
}

export interface Absent {
  not_called: number[];
  behind: number[]; // called, but behind other work of the stream
}

// The ranks that the operation waits for, by the verdict.
export function absentees(
  finding: Finding | null,
  operation: { comm_name: string; seq: number; op: string },
): Absent {
  const stuck = finding?.operations.find(
    (candidate) =>
      candidate.comm_name === operation.comm_name &&
      candidate.seq === operation.seq &&
      instanceOp(candidate.op) === instanceOp(operation.op),
  );
  const inState = (state: string) =>
    (stuck?.members ?? []).filter((m) => m.state === state).map((member) => member.rank);
  return { not_called: inState("not_called"), behind: inState("enqueued") };
}

// "not called by rank 3; behind other work at rank 2"; "" if nobody is known to be missing.
export function absentText(absent: Absent): string {
  const parts: string[] = [];
  if (absent.not_called.length > 0) parts.push(`not called by ${ranksText(absent.not_called, 6)}`);
  if (absent.behind.length > 0) {
    parts.push(`behind other work of the stream at ${ranksText(absent.behind, 6)}`);
  }
  return parts.join("; ");
}

// How many operations of one stream are open at once, at most `most`: the lanes to draw them in.
export function lanesOf(streams: readonly StreamHistory[], most: number): number {
  let lanes = 1;
  for (const stream of streams) lanes = Math.max(lanes, stream.operations.filter(isOpen).length);
  return Math.min(lanes, most);
}
