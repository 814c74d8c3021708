// Reads the documents out of JSON that nobody vouches for: each field gets a value of its type, and
// each text is made printable, so that no other module needs to doubt either.
import { printable, printableLines } from "./text";
import type {
  Communicator,
  Evidence,
  Finding,
  FoldedStack,
  History,
  Incident,
  JobList,
  JobRow,
  Member,
  PageDocument,
  PredictedCall,
  Predictions,
  Restarts,
  Source,
  Status,
  StreamHistory,
  StuckOperation,
  Verdict,
  WaitEdge,
} from "./types";

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(from: Json, key: string): string {
  const value = from[key];
  return typeof value === "string" ? printable(value) : "";
}

function number(from: Json, key: string, otherwise = -1): number {
  const value = from[key];
  return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}

function flag(from: Json, key: string): boolean {
  return from[key] === true;
}

function objects(from: Json, key: string): Json[] {
  const value = from[key];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function numbers(from: Json, key: string): number[] {
  const value = from[key];
  if (!Array.isArray(value)) return [];
  return value.filter((item): item is number => typeof item === "number" && Number.isFinite(item));
}

function texts(from: Json, key: string): string[] {
  const value = from[key];
  if (!Array.isArray(value)) return [];
  return value.filter((item): item is string => typeof item === "string").map(printable);
}

function readEdge(from: Json): WaitEdge {
  return {
    rank: number(from, "rank"),
    waits_for_rank: number(from, "waits_for_rank"),
    reason: text(from, "reason"),
    op: text(from, "op"),
    comm: text(from, "comm"),
    comm_name: text(from, "comm_name"),
    seq: number(from, "seq"),
    stream: text(from, "stream"),
    bytes: number(from, "bytes"),
    site: text(from, "site"),
    detail: text(from, "detail"),
  };
}

function readMember(from: Json): Member {
  return {
    rank: number(from, "rank"),
    state: text(from, "state"),
    instead: text(from, "instead"),
    site: text(from, "site"),
  };
}

function readOperation(from: Json): StuckOperation {
  return {
    op: text(from, "op"),
    comm: text(from, "comm"),
    comm_name: text(from, "comm_name"),
    seq: number(from, "seq"),
    bytes: number(from, "bytes"),
    members: objects(from, "members").map(readMember),
  };
}

function readEvidence(value: unknown): Evidence {
  const from = isObject(value) ? value : {};
  return {
    ranks_seen: number(from, "ranks_seen"),
    ranks_expected: number(from, "ranks_expected"),
    records: number(from, "records"),
    records_lost: number(from, "records_lost"),
    nccl_calls: number(from, "nccl_calls"),
    not_visible: texts(from, "not_visible"),
    assumes: texts(from, "assumes"),
  };
}

function readFinding(from: Json): Finding {
  return {
    verdict: text(from, "verdict"),
    check: text(from, "check"),
    confidence: text(from, "confidence"),
    summary: text(from, "summary"),
    advice: text(from, "advice"),
    culprit_ranks: numbers(from, "culprit_ranks"),
    culprit_processes: objects(from, "culprit_processes").map((culprit) => ({
      rank: number(culprit, "rank"),
      pid: number(culprit, "pid"),
      node: text(culprit, "node"),
    })),
    victim_ranks: numbers(from, "victim_ranks"),
    cycle: objects(from, "cycle").map(readEdge),
    operations: objects(from, "operations").map(readOperation),
    communicators: objects(from, "communicators").map((comm) => ({
      comm: text(comm, "comm"),
      name: text(comm, "name"),
      ranks: numbers(comm, "ranks"),
      size: number(comm, "size"),
      made_by_rank: number(comm, "made_by_rank"),
      site: text(comm, "site"),
    })),
    stalled_at_ns: number(from, "stalled_at_ns", 0),
    detected_after_s: number(from, "detected_after_s"),
    evidence: readEvidence(from["evidence"]),
  };
}

function readStack(from: Json): FoldedStack {
  return {
    ranks: numbers(from, "ranks"),
    threads: objects(from, "threads").map((thread) => ({
      rank: number(thread, "rank"),
      pid: number(thread, "pid"),
      tid: number(thread, "tid"),
      name: text(thread, "name"),
    })),
    frames: objects(from, "frames").map((frame) => ({
      function: text(frame, "function"),
      file: text(frame, "file"),
      line: number(frame, "line", 0),
      module: text(frame, "module"),
      python: flag(frame, "python"),
    })),
  };
}

function readRestarts(value: unknown): Restarts | null {
  if (!isObject(value)) return null;
  const because = text(value, "because");
  return { times: number(value, "times"), ranks: numbers(value, "ranks"), because };
}

function readVerdict(value: unknown): Verdict | null {
  if (!isObject(value)) return null;
  return {
    ...readFinding(value),
    findings: objects(value, "findings").map(readFinding),
    disproved: objects(value, "disproved").map(readFinding),
    restarts: readRestarts(value["restarts"]),
    signs: objects(value, "signs").map((sign) => ({
      check: text(sign, "check"),
      ranks: numbers(sign, "ranks"),
      text: text(sign, "text"),
    })),
    stacks: objects(value, "stacks").map(readStack),
    revision: number(value, "revision"),
    written: text(value, "written"),
    closed: flag(value, "closed"),
  };
}

function readCommunicator(from: Json): Communicator {
  const behind = numbers(from, "behind");
  const by = numbers(from, "behind_by");
  return {
    name: text(from, "name"),
    uid: text(from, "uid"),
    size: number(from, "size"),
    ranks: numbers(from, "ranks"),
    ranks_seen: number(from, "ranks_seen"),
    made_by_rank: number(from, "made_by_rank"),
    site: text(from, "site"),
    destroyed: flag(from, "destroyed"),
    sequence_min: number(from, "sequence_min"),
    sequence_max: number(from, "sequence_max"),
    behind,
    behind_by: behind.map((_, i) => Math.max(1, by[i] ?? 1)),
  };
}

function readStatus(value: unknown): Status | null {
  if (!isObject(value)) return null;
  return {
    verdict: text(value, "verdict"),
    confidence: text(value, "confidence"),
    summary: text(value, "summary"),
    culprit_ranks: numbers(value, "culprit_ranks"),
    victim_ranks: numbers(value, "victim_ranks"),
    job_ended: flag(value, "job_ended"),
    since_progress_s: number(value, "since_progress_s"),
    nodes: objects(value, "nodes").map((node) => ({
      name: text(node, "name"),
      number: number(node, "number"),
      away: flag(node, "away"),
      ended: flag(node, "ended"),
    })),
    ranks: objects(value, "ranks").map((rank) => ({
      rank: number(rank, "rank"),
      pid: number(rank, "pid"),
      incarnation: number(rank, "incarnation"),
      node: text(rank, "node"),
      state: text(rank, "state"),
      call: text(rank, "call"),
      operation: text(rank, "operation"),
      ending: text(rank, "ending"),
      since_s: number(rank, "since_s"),
      site: text(rank, "site"),
      nccl_calls: number(rank, "nccl_calls"),
    })),
    communicators: objects(value, "communicators").map(readCommunicator),
    evidence: readEvidence(value["evidence"]),
  };
}

function sourceLines(from: Json): string[] {
  const value = from["lines"];
  if (!Array.isArray(value)) return [];
  return value.filter((line): line is string => typeof line === "string").map(printableLines);
}

function readSource(from: Json): Source {
  return {
    site: text(from, "site"),
    path: text(from, "path"),
    line: number(from, "line", 0),
    first_line: number(from, "first_line", 1),
    lines: sourceLines(from),
  };
}

function readStream(from: Json): StreamHistory {
  return {
    rank: number(from, "rank"),
    stream: text(from, "stream"),
    operations: objects(from, "operations").map((operation) => ({
      op: text(operation, "op"),
      comm_name: text(operation, "comm_name"),
      seq: number(operation, "seq"),
      bytes: number(operation, "bytes"),
      called_ns: number(operation, "called_ns", 0),
      done_ns: number(operation, "done_ns", 0),
      progress: text(operation, "progress"),
      site: text(operation, "site"),
    })),
  };
}

function readHistory(value: unknown): History | null {
  if (!isObject(value)) return null;
  return {
    stalled_at_ns: number(value, "stalled_at_ns", 0),
    notes: texts(value, "notes"),
    streams: objects(value, "streams").map(readStream),
  };
}

function readCall(value: unknown): PredictedCall {
  const from = isObject(value) ? value : {};
  return {
    rank: number(from, "rank"),
    thread: number(from, "thread"),
    call: text(from, "call"),
    communicator: text(from, "communicator"),
    site: text(from, "site"),
  };
}

function readPredictions(value: unknown): Predictions | null {
  if (!isObject(value)) return null;
  const found = objects(value, "found").map((one) => ({
    confidence: text(one, "confidence"),
    doubt: text(one, "doubt"),
    summary: text(one, "summary"),
    cycle: objects(one, "cycle").map(readCall),
    orders: objects(one, "orders").map((order) => ({
      first: readCall(order["first"]),
      then: readCall(order["then"]),
      as_recorded: flag(order, "as_recorded"),
    })),
    alike: number(one, "alike", 0),
  }));
  if (found.length === 0) return null;
  const rests_on = text(value, "rests_on");
  return { found, freedom: text(value, "freedom"), rests_on, advice: text(value, "advice") };
}

// Throws if `value` is no page document that this page can read.
export function readPage(value: unknown): PageDocument {
  if (!isObject(value)) throw new Error("The document is no JSON object.");
  const schema = text(value, "schema");
  if (schema !== "gordian.page.v1") {
    throw new Error(`The document has the schema "${schema}"; this page reads gordian.page.v1.`);
  }
  const raw = value["text"];
  return {
    job: text(value, "job"),
    gordian_version: text(value, "gordian_version"),
    made: text(value, "made"),
    live: flag(value, "live"),
    session: text(value, "session"),
    verdict: readVerdict(value["verdict"]),
    status: readStatus(value["status"]),
    sources: objects(value, "sources").map(readSource),
    text: typeof raw === "string" ? printableLines(raw) : "",
    history: readHistory(value["history"]),
    predictions: readPredictions(value["predictions"]),
  };
}

// Reads one row of the list of jobs; null if it is none. The name stays as it came, since it is
// also the job's address.
export function readJob(value: unknown): JobRow | null {
  if (!isObject(value) || typeof value["job"] !== "string") return null;
  return {
    job: value["job"],
    verdict: text(value, "verdict"),
    confidence: text(value, "confidence"),
    check: text(value, "check"),
    summary: text(value, "summary"),
    revision: number(value, "revision"),
    version: number(value, "version"),
    job_ended: flag(value, "job_ended"),
    live: flag(value, "live"),
    ranks: number(value, "ranks"),
    since_progress_s: number(value, "since_progress_s"),
    started: text(value, "started"),
    nodes: texts(value, "nodes"),
  };
}

export function readJobs(value: unknown): JobList {
  const from = isObject(value) ? value : {};
  return {
    gordian_version: text(from, "gordian_version"),
    last_event: text(from, "last_event"),
    has_incidents: flag(from, "has_incidents"),
    may_acknowledge: flag(from, "may_acknowledge"),
    jobs: objects(from, "jobs")
      .map(readJob)
      .filter((job): job is JobRow => job !== null),
  };
}

function readIncident(from: Json): Incident {
  const session = from["session"];
  return {
    id: text(from, "id"),
    job: text(from, "job"),
    session: typeof session === "string" ? session : "",
    nodes: texts(from, "nodes"),
    open: flag(from, "open"),
    opened: text(from, "opened"),
    ended: text(from, "ended"),
    how_ended: text(from, "how_ended"),
    verdict: text(from, "verdict"),
    confidence: text(from, "confidence"),
    check: text(from, "check"),
    summary: text(from, "summary"),
    advice: text(from, "advice"),
    culprits: objects(from, "culprits").map((culprit) => ({
      rank: number(culprit, "rank"),
      pid: number(culprit, "pid"),
      node: text(culprit, "node"),
    })),
    victims: text(from, "victims"),
    revisions: objects(from, "revisions").map((revision) => ({
      revision: number(revision, "revision"),
      time: text(revision, "time"),
      confidence: text(revision, "confidence"),
      verdict: text(revision, "verdict"),
      summary: text(revision, "summary"),
    })),
    acknowledgements: objects(from, "acknowledgements").map((one) => ({
      time: text(one, "time"),
      who: text(one, "who"),
      note: text(one, "note"),
    })),
    alerts: objects(from, "alerts").map((alert) => ({
      alert: text(alert, "alert"),
      target: text(alert, "target"),
      time: text(alert, "time"),
      state: text(alert, "state"),
    })),
  };
}

// Throws if `value` is no list of incidents.
export function readIncidents(value: unknown): Incident[] {
  if (!isObject(value) || value["schema"] !== "gordian.incidents.v1") {
    throw new Error("The server's list of incidents is not one that this page reads.");
  }
  return objects(value, "incidents").map(readIncident);
}
