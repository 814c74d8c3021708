// The documents that the page reads (schema gordian.page.v1 and what is in it), after read.ts has
// given every field a value of its type.

export interface WaitEdge {
  rank: number;
  waits_for_rank: number;
  reason: string;
  op: string;
  comm: string;
  comm_name: string;
  seq: number;
  stream: string;
  bytes: number;
  site: string;
  detail: string;
}

export interface Member {
  rank: number;
  state: string;
  instead: string;
  site: string;
}

export interface StuckOperation {
  op: string;
  comm: string;
  comm_name: string;
  seq: number;
  bytes: number;
  members: Member[];
}

export interface CulpritProcess {
  rank: number;
  pid: number;
  node: string;
}

export interface FoundCommunicator {
  comm: string;
  name: string;
  ranks: number[];
  size: number;
  made_by_rank: number;
  site: string;
}

export interface Evidence {
  ranks_seen: number;
  ranks_expected: number;
  records: number;
  records_lost: number;
  nccl_calls: number;
  not_visible: string[];
  assumes: string[];
}

export interface Finding {
  verdict: string;
  check: string;
  confidence: string;
  summary: string;
  advice: string;
  culprit_ranks: number[];
  culprit_processes: CulpritProcess[];
  victim_ranks: number[];
  cycle: WaitEdge[];
  operations: StuckOperation[];
  communicators: FoundCommunicator[];
  stalled_at_ns: number;
  detected_after_s: number;
  evidence: Evidence;
}

export interface Sign {
  check: string;
  ranks: number[];
  text: string;
}

export interface StackThread {
  rank: number;
  pid: number;
  tid: number;
  name: string;
}

export interface Frame {
  function: string;
  file: string;
  line: number;
  module: string;
  python: boolean;
}

export interface FoldedStack {
  ranks: number[];
  threads: StackThread[];
  frames: Frame[];
}

export interface Restarts {
  times: number;
  ranks: number[];
  because: string;
}

export interface Verdict extends Finding {
  findings: Finding[];
  disproved: Finding[];
  restarts: Restarts | null;
  signs: Sign[];
  stacks: FoldedStack[];
  revision: number;
  written: string;
  closed: boolean;
}

export interface RankStatus {
  rank: number;
  pid: number;
  incarnation: number;
  node: string;
  state: string;
  call: string;
  operation: string;
  ending: string;
  since_s: number;
  site: string;
  nccl_calls: number;
}

export interface Communicator {
  name: string;
  uid: string;
  size: number;
  ranks: number[];
  ranks_seen: number;
  made_by_rank: number;
  site: string;
  destroyed: boolean;
  sequence_min: number;
  sequence_max: number;
  behind: number[];
  behind_by: number[];
}

export interface NodeStatus {
  name: string;
  number: number;
  away: boolean;
  ended: boolean;
}

export interface Status {
  verdict: string;
  confidence: string;
  summary: string;
  culprit_ranks: number[];
  victim_ranks: number[];
  job_ended: boolean;
  since_progress_s: number;
  nodes: NodeStatus[];
  ranks: RankStatus[];
  communicators: Communicator[];
  evidence: Evidence;
}

export interface Source {
  site: string;
  path: string;
  line: number;
  first_line: number;
  lines: string[];
}

export interface StreamOperation {
  op: string;
  comm_name: string;
  seq: number;
  bytes: number;
  called_ns: number;
  done_ns: number;
  progress: string;
  site: string;
}

export interface StreamHistory {
  rank: number;
  stream: string;
  operations: StreamOperation[];
}

export interface History {
  stalled_at_ns: number;
  notes: string[];
  streams: StreamHistory[];
}

export interface PredictedCall {
  rank: number;
  thread: number;
  call: string;
  communicator: string;
  site: string;
}

// A rank calls `first` before `then`.
export interface PredictedOrder {
  first: PredictedCall;
  then: PredictedCall;
  as_recorded: boolean;
}

export interface Prediction {
  confidence: string;
  doubt: string; // why it is not confirmed; "": it is
  summary: string;
  cycle: PredictedCall[];
  orders: PredictedOrder[];
  alike: number;
}

export interface Predictions {
  found: Prediction[];
  freedom: string;
  rests_on: string;
  advice: string;
}

export interface PageDocument {
  job: string;
  gordian_version: string;
  made: string;
  live: boolean;
  session: string;
  verdict: Verdict | null;
  status: Status | null;
  sources: Source[];
  text: string;
  history: History | null;
  predictions: Predictions | null; // null: there is none
}

export interface JobRow {
  job: string;
  verdict: string;
  confidence: string;
  check: string;
  summary: string;
  revision: number;
  version: number;
  job_ended: boolean;
  live: boolean;
  ranks: number;
  since_progress_s: number;
  started: string; // "": not known
  nodes: string[]; // of very many the first
}

export interface JobList {
  gordian_version: string;
  last_event: string;
  has_incidents: boolean;
  may_acknowledge: boolean;
  jobs: JobRow[];
}

export interface Incident {
  id: string;
  job: string;
  session: string; // as it came, since `gordian serve` names the job's address so
  nodes: string[];
  open: boolean;
  opened: string;
  ended: string;
  how_ended: string;
  verdict: string;
  confidence: string;
  check: string;
  summary: string;
  advice: string;
  culprits: CulpritProcess[];
  victims: string;
  revisions: IncidentRevision[];
  acknowledgements: Acknowledgement[];
  alerts: SentAlert[];
}

export interface IncidentRevision {
  revision: number;
  time: string;
  confidence: string;
  verdict: string;
  summary: string;
}

export interface Acknowledgement {
  time: string;
  who: string;
  note: string;
}

export interface SentAlert {
  alert: string;
  target: string;
  time: string;
  state: string;
}
