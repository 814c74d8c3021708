// Puts the operations of two ranks on their shared communicators side by side, and finds where the
// two part.
import type { History, StreamOperation, StuckOperation } from "./types";
import { memberText } from "./words";

export interface DiffEntry {
  key: string; // the same at both ranks for the same operation
  op: string;
  comm_name: string;
  seq: number;
  bytes: number;
  state: string;
  remark: string; // what the verdict says of this call, as "passes count 512"
  site: string;
  stream: string;
}

export interface DiffRow {
  left: DiffEntry | null;
  right: DiffEntry | null;
  same: boolean;
}

export interface Diff {
  rows: DiffRow[];
  first: number; // the place of the first difference; -1: none
  shared: string[]; // names of the shared communicators
}

const kMostOperations = 600;

function isTransfer(op: string): boolean {
  return /^(Send|Recv)/.test(op);
}

// Both ends of a transfer get one key, and so do collectives of different kinds in one place.
function keyOf(operation: { op: string; comm_name: string; seq: number }): string {
  const kind = isTransfer(operation.op) ? "transfer" : "collective";
  return `${operation.comm_name}#${operation.seq}/${kind}`;
}

const kProgress: Record<string, string> = {
  called: "called, not started",
  started: "started, not done",
  done: "done",
  aborted: "aborted",
};

// What a member does instead of a call that it has not made is no remark about the call.
function remarkOn(stuck: readonly StuckOperation[], key: string, rank: number): string {
  for (const operation of stuck) {
    if (keyOf(operation) !== key) continue;
    const member = operation.members.find((candidate) => candidate.rank === rank);
    if (member?.state === "called" || member?.state === "done") return member.instead;
  }
  return "";
}

function entriesOf(
  history: History,
  stuck: readonly StuckOperation[],
  rank: number,
): (DiffEntry & { called_ns: number })[] {
  const entry = (operation: StreamOperation, stream: string) => ({
    key: keyOf(operation),
    op: operation.op,
    comm_name: operation.comm_name,
    seq: operation.seq,
    bytes: operation.bytes,
    state: kProgress[operation.progress] ?? operation.progress,
    remark: remarkOn(stuck, keyOf(operation), rank),
    site: operation.site,
    stream,
    called_ns: operation.called_ns,
  });
  return history.streams
    .filter((stream) => stream.rank === rank)
    .flatMap((stream) => stream.operations.map((operation) => entry(operation, stream.stream)))
    .sort((a, b) => a.called_ns - b.called_ns);
}

function isSame(a: DiffEntry, b: DiffEntry): boolean {
  const kinds = isTransfer(a.op) || a.op === b.op;
  return kinds && a.bytes === b.bytes && a.remark === b.remark;
}

// The longest common subsequence of the two lists of keys, as rows.
function alignRows(left: DiffEntry[], right: DiffEntry[]): DiffRow[] {
  const width = right.length + 1;
  const longest = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; --i) {
    for (let j = right.length - 1; j >= 0; --j) {
      longest[i * width + j] =
        left[i]!.key === right[j]!.key
          ? longest[(i + 1) * width + j + 1]! + 1
          : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const rows: DiffRow[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    const a = left[i];
    const b = right[j];
    if (a !== undefined && b !== undefined && a.key === b.key) {
      rows.push({ left: a, right: b, same: isSame(a, b) });
      ++i;
      ++j;
    } else if (
      b === undefined ||
      (a !== undefined && longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!)
    ) {
      rows.push({ left: a ?? null, right: null, same: false });
      ++i;
    } else {
      rows.push({ left: null, right: b, same: false });
      ++j;
    }
  }
  return rows;
}

// What one record holds from before the other begins is no difference.
function withoutOlder(left: DiffEntry[], right: DiffEntry[]): [DiffEntry[], DiffEntry[]] {
  const countOf = (entry: DiffEntry) =>
    entry.comm_name + (entry.key.endsWith("/transfer") ? "/transfer" : "");
  const firsts = (entries: DiffEntry[]) => {
    const first = new Map<string, number>();
    for (const entry of entries) {
      const seen = first.get(countOf(entry));
      if (seen === undefined || entry.seq < seen) first.set(countOf(entry), entry.seq);
    }
    return first;
  };
  const ofLeft = firsts(left);
  const ofRight = firsts(right);
  const keep = (floors: Map<string, number>) => (entry: DiffEntry) =>
    entry.seq >= (floors.get(countOf(entry)) ?? entry.seq);
  return [left.filter(keep(ofRight)), right.filter(keep(ofLeft))];
}

function diffOf(left: DiffEntry[], right: DiffEntry[]): Diff {
  const ofRight = new Set(right.map((entry) => entry.comm_name));
  const shared = [...new Set(left.map((e) => e.comm_name))].filter((name) => ofRight.has(name));
  const isShared = new Set(shared);
  const cut = (list: DiffEntry[]) =>
    list.filter((entry) => isShared.has(entry.comm_name)).slice(-kMostOperations);
  const [a, b] = withoutOlder(cut(left), cut(right));
  const rows = alignRows(a, b);
  return { rows, first: rows.findIndex((row) => !row.same), shared: shared.sort() };
}

export function historyDiff(
  history: History,
  stuck: readonly StuckOperation[],
  left: number,
  right: number,
): Diff {
  return diffOf(entriesOf(history, stuck, left), entriesOf(history, stuck, right));
}

// Without a history: only what is stuck, in the order of the verdict; nothing tells the order of
// the calls.
export function stuckDiff(
  operations: readonly StuckOperation[],
  left: number,
  right: number,
): Diff {
  const rows: DiffRow[] = [];
  const shared = new Set<string>();
  for (const operation of operations) {
    const entry = (rank: number): DiffEntry | null => {
      const member = operation.members.find((candidate) => candidate.rank === rank);
      if (member === undefined) return null;
      const { op, comm_name, seq, bytes } = operation;
      const state = memberText(member);
      return {
        key: keyOf(operation),
        op,
        comm_name,
        seq,
        bytes,
        state,
        remark: "",
        site: member.site,
        stream: "",
      };
    };
    const a = entry(left);
    const b = entry(right);
    if (a === null || b === null) continue;
    shared.add(operation.comm_name);
    rows.push({ left: a, right: b, same: a.state === b.state });
  }
  return { rows, first: rows.findIndex((row) => !row.same), shared: [...shared].sort() };
}
