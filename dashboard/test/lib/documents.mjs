// Makes page documents for the tests: fixtures, very large ones, and ones with hostile names; and
// puts a document into the report's template as the server does.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const dist = process.env.DASHBOARD_OUT || join(root, "dist");

export function fixture(name) {
  return JSON.parse(readFileSync(join(root, "test", "fixtures", `${name}.json`), "utf8"));
}

const kSites = { ag: "train.cc:238 BackwardToPreviousStage()", ar: "train.cc:248 BeginFlush()" };

// A job of `ranks` ranks on `comms` communicators, of which ranks 2 and 3 wait for each other.
export function synthetic(ranks, comms, { history = true } = {}) {
  const page = fixture("hybrid");
  const all = Array.from({ length: ranks }, (_, rank) => rank);
  const { verdict, status } = page;
  const kinds = ["world", "dp", "tp", "pp", "ep", "cp", "embedding", "optimizer"];
  page.job = `synthetic-${ranks}`;
  page.session = `runs/synthetic-${ranks}`;
  verdict.victim_ranks = all.filter((rank) => rank !== 2 && rank !== 3);
  status.ranks = all.map((rank) => ({
    rank,
    pid: 100000 + rank,
    incarnation: 1,
    node: `node${Math.floor(rank / 8)}`,
    state: rank % 97 === 5 ? "running" : "in_call",
    call: rank % 97 === 5 ? "" : "cudaStreamSynchronize",
    operation: rank === 2 ? "AllGather #7 on tp" : "AllReduce #3 on dp",
    ending: "",
    since_s: 12 + (rank % 10) / 10,
    site: kSites.ar,
    nccl_calls: 1000 + rank,
  }));
  status.job_ended = false;
  status.since_progress_s = 184.2;
  status.nodes = Array.from({ length: Math.ceil(ranks / 8) }, (_, number) => ({
    name: `node${number}`,
    number,
    away: number === 3,
    ended: false,
  }));
  status.communicators = Array.from({ length: comms }, (_, i) => {
    const name = `${kinds[i % kinds.length]}${"abcdefgh"[Math.floor(i / kinds.length)] ?? "z"}`;
    const members = i % 4 === 3 ? all.filter((rank) => rank % 2 === (i % 8) >> 2) : all;
    const behind = members.filter((rank) => (rank * 31 + i * 17) % 211 === 0);
    return {
      name,
      uid: (0x9e5332426018000 + i).toString(16).padStart(16, "0"),
      size: members.length,
      ranks: members,
      ranks_seen: members.length,
      made_by_rank: 0,
      site: "train.cc:198 Communicator()",
      destroyed: i === comms - 1,
      sequence_min: 2,
      sequence_max: 7,
      behind,
      behind_by: behind.map((rank) => 1 + (rank % 5)),
    };
  });
  const member = (rank, state, site) => ({ rank, state, instead: "", site });
  verdict.operations = [
    {
      op: "AllReduce",
      comm: "9e5332426018027d",
      comm_name: "dp",
      seq: 3,
      bytes: 1 << 26,
      members: all.map((rank) => member(rank, rank === 2 ? "enqueued" : "at_head", kSites.ar)),
    },
    {
      op: "AllGather",
      comm: "c8c1baf0e7aefc5c",
      comm_name: "tp1",
      seq: 7,
      bytes: 32,
      members: [member(2, "at_head", kSites.ag), member(3, "enqueued", kSites.ag)],
    },
  ];
  const [first] = verdict.stacks;
  verdict.stacks = ["hybrid_training", "loader", "watchdog"].map((name, k) => ({
    ranks: all,
    folded_ranks: `0-${ranks - 1}`,
    threads: all.map((rank) => ({ rank, pid: 100000 + rank, tid: 100000 + rank + k, name })),
    frames:
      k === 1
        ? [
            { function: "poll", file: "", line: 0, module: "/lib/libc.so.6", python: false },
            {
              function: "next_batch",
              file: "/home/u/loader.py",
              line: 88,
              module: "",
              python: true,
            },
            {
              function: "run",
              file: "/usr/lib/python3/threading.py",
              line: 9,
              module: "",
              python: true,
            },
          ]
        : first.frames.slice(k),
  }));
  const evidence = { ranks_seen: ranks, ranks_expected: ranks, records: ranks * 4000 };
  Object.assign(status.evidence, evidence);
  Object.assign(verdict.evidence, evidence);
  page.history = history ? syntheticHistory(all, verdict.stalled_at_ns) : null;
  return page;
}

function syntheticHistory(all, stalled) {
  const streams = all.map((rank) => {
    const operations = [];
    for (let i = 0; i < 12; ++i) {
      const called_ns = stalled - 12e6 + i * 1e6 + (rank % 64) * 3e3;
      const open = i === 11;
      operations.push({
        op: i % 3 === 2 ? "AllReduce" : "AllGather",
        comm_name: i % 3 === 2 ? "dp" : `tp${rank >> 1}`,
        seq: i % 3 === 2 ? Math.floor(i / 3) : i - Math.floor(i / 3),
        bytes: 1 << 20,
        called_ns,
        done_ns: open ? 0 : called_ns + 7e5,
        progress: open ? "started" : "done",
        site: kSites.ar,
      });
    }
    return { rank, stream: "0x7f2a0001", operations };
  });
  return { stalled_at_ns: stalled, notes: ["The last 12 operations of each stream."], streams };
}

export const kHostile =
  "<img src=x onerror=alert(1)>\u202E\"'`&amp;\n</script><script>alert(2)</script>";

// The same document with hostile text in every field; `words` says whether also in those that the
// page knows the words of, as states and kinds.
export function hostile({ words }) {
  const known = new Set(["verdict", "confidence", "state", "progress", "reason"]);
  const change = (value, key) => {
    if (typeof value === "string") {
      if (key === "schema" || (!words && known.has(key))) return value;
      return `${kHostile}${value}`;
    }
    if (Array.isArray(value)) return value.map((item) => change(item, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, change(v, k)]));
    }
    return value;
  };
  const page = fixture("hybrid");
  const { verdict } = page;
  verdict.findings = [{ ...structuredClone(verdict), findings: undefined }];
  verdict.signs = [{ check: "call-failed", ranks: [1], text: "a call failed" }];
  for (const evidence of [verdict.evidence, page.status.evidence]) {
    evidence.not_visible = ["a library out of reach"];
    evidence.assumes = ["that no thread wakes"];
    evidence.records_lost = 12;
  }
  page.status.nodes = [{ name: "n0", number: 0, away: true, ended: false }];
  return change(page, "");
}

// The report's template with the document in it.
export function report(page) {
  const template = readFileSync(join(dist, "report.html"), "utf8");
  const escape = (text) =>
    text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const data = gzipSync(JSON.stringify(page)).toString("base64");
  return template
    .replace("<!--GORDIAN-TITLE-->", () => escape(`${page.job} · gordian`))
    .replace("<!--GORDIAN-TEXT-->", () => escape(page.text))
    .replace("<!--GORDIAN-DATA-->", () => data);
}
