// Compares the documents of two jobs: what is the same, what differs, and whether both hang in the
// same cycle. It says only what both documents have.
import { foldRanks, plural, ranksText } from "./text";
import type { Communicator, PageDocument, Verdict } from "./types";
import { kindOf } from "./words";

export interface Fact {
  what: string;
  a: string;
  b: string;
  same: boolean;
}

export interface CommunicatorPair {
  name: string;
  a: Communicator | null;
  b: Communicator | null;
  differs: string[]; // which of members, made at, last collective, behind
}

export interface Comparison {
  facts: Fact[];
  hang: string; // whether both hang alike; "": not both hang
  communicators: CommunicatorPair[];
  sites: { both: string[]; a: string[]; b: string[] };
}

const kUnknown = "not known";

function counted(value: number | undefined): string {
  return value === undefined || value < 0 ? kUnknown : `${value}`;
}

function nodesOf(page: PageDocument): string {
  const named = page.status?.nodes.map((node) => node.name) ?? [];
  const ranks = page.status?.ranks.map((rank) => rank.node) ?? [];
  const nodes = [...new Set([...named, ...ranks])].filter((name) => name !== "").sort();
  return nodes.length === 0 ? kUnknown : nodes.join(", ");
}

function ranksOf(page: PageDocument): string {
  const evidence = page.verdict?.evidence ?? page.status?.evidence;
  const seen = counted(evidence?.ranks_seen);
  const expected = evidence?.ranks_expected ?? -1;
  return expected > 0 ? `${seen} of ${expected}` : seen;
}

function factsOf(page: PageDocument): [string, string][] {
  const verdict = page.verdict;
  const said = (text: string | undefined) => (text === undefined || text === "" ? kUnknown : text);
  const ended = page.status?.job_ended;
  const evidence = verdict?.evidence ?? page.status?.evidence;
  return [
    ["Verdict", verdict === null ? kUnknown : kindOf(verdict.verdict).title],
    ["Confidence", said(verdict?.confidence)],
    ["Check", said(verdict?.check)],
    ["Summary", said(verdict?.summary)],
    ["Look first at", verdict === null ? kUnknown : ranksText(verdict.culprit_ranks)],
    ["Victims", verdict === null ? kUnknown : ranksText(verdict.victim_ranks)],
    ["Ranks seen", ranksOf(page)],
    ["Nodes", nodesOf(page)],
    ["Job", ended === undefined ? kUnknown : ended ? "ended" : "had not ended"],
    ["NCCL calls", counted(evidence?.nccl_calls)],
    ["Records lost", counted(evidence?.records_lost)],
    ["gordian", said(page.gordian_version)],
  ];
}

// "#7", "#2 to #7", "none".
export function lastText(comm: Communicator): string {
  if (comm.sequence_max < 0) return "none";
  if (comm.sequence_min === comm.sequence_max) return `#${comm.sequence_max}`;
  return comm.sequence_min < 0
    ? `none to #${comm.sequence_max}`
    : `#${comm.sequence_min} to #${comm.sequence_max}`;
}

function differences(a: Communicator, b: Communicator): string[] {
  const of = (comm: Communicator): [string, string][] => [
    ["members", foldRanks(comm.ranks, Infinity)],
    ["made at", comm.site],
    ["last collective", lastText(comm)],
    ["behind", foldRanks(comm.behind, Infinity)],
  ];
  const other = of(b);
  return of(a)
    .filter(([, text], i) => text !== other[i]![1])
    .map(([what]) => what);
}

// Numbers of communicators differ from run to run, so names and members tell which is which.
function pairs(a: readonly Communicator[], b: readonly Communicator[]): CommunicatorPair[] {
  const members = (comm: Communicator) => `${comm.name}\n${foldRanks(comm.ranks, Infinity)}`;
  const partner = new Map<Communicator, Communicator>();
  const left = new Set(b);
  for (const key of [members, (comm: Communicator) => comm.name]) {
    const free = new Map<string, Communicator[]>();
    for (const comm of left) free.set(key(comm), [...(free.get(key(comm)) ?? []), comm]);
    for (const comm of a) {
      const found = partner.has(comm) ? undefined : free.get(key(comm))?.shift();
      if (found === undefined) continue;
      partner.set(comm, found);
      left.delete(found);
    }
  }
  const both = a.map((comm) => {
    const other = partner.get(comm) ?? null;
    const differs = other === null ? [] : differences(comm, other);
    return { name: comm.name, a: comm, b: other, differs };
  });
  const alone = [...left].map((comm) => ({ name: comm.name, a: null, b: comm, differs: [] }));
  const weight = (pair: CommunicatorPair) =>
    pair.a === null || pair.b === null ? 0 : pair.differs.length > 0 ? 1 : 2;
  return [...both, ...alone].sort((x, y) => weight(x) - weight(y));
}

// The call sites that the document names.
function sitesOf(page: PageDocument): Set<string> {
  const { verdict, status } = page;
  const findings = verdict === null ? [] : [verdict, ...verdict.findings];
  const sites = findings.flatMap((finding) => [
    ...finding.cycle.map((edge) => edge.site),
    ...finding.operations.flatMap((operation) => operation.members.map((one) => one.site)),
    ...finding.communicators.map((comm) => comm.site),
  ]);
  for (const rank of status?.ranks ?? []) sites.push(rank.site);
  for (const comm of status?.communicators ?? []) sites.push(comm.site);
  return new Set(sites.filter((site) => site !== ""));
}

const isHang = (verdict: Verdict | null): verdict is Verdict =>
  verdict !== null && kindOf(verdict.verdict).tone === "bad";

// What each rank of the cycle does, or each rank that is stuck where there is no cycle. Ranks are
// left out: the same mistake may catch others.
function steps(verdict: Verdict): { sites: string; texts: Set<string>; unknown: boolean } {
  const of =
    verdict.cycle.length > 0
      ? verdict.cycle.map(({ op, site, reason }) => ({ op, site, how: reason }))
      : verdict.operations.flatMap((operation) =>
          operation.members.map((one) => ({ op: operation.op, site: one.site, how: one.state })),
        );
  return {
    sites: [...new Set(of.map((one) => one.site))].filter((site) => site !== "").join(", "),
    texts: new Set(of.map((one) => `${one.op}\n${one.site}\n${one.how}`)),
    unknown: of.length === 0 || of.some((one) => one.site === ""),
  };
}

function sameTexts(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((text) => b.has(text));
}

function hangText(a: Verdict, b: Verdict): string {
  const unsure = [a, b].some((one) => one.confidence !== "confirmed")
    ? " Not both verdicts are confirmed."
    : "";
  if (a.check !== b.check) return `These are different problems: ${a.check}; ${b.check}.${unsure}`;
  const cycles = [a, b].filter((one) => one.cycle.length > 0).length;
  if (cycles === 1) {
    return `Both have the check ${a.check}, but only one has a cycle to compare.${unsure}`;
  }
  const what = cycles === 2 ? "cycle" : "stall";
  const [of_a, of_b] = [steps(a), steps(b)];
  if (of_a.unknown || of_b.unknown) {
    return (
      `Both have the check ${a.check}. Not all call sites are known, so this page cannot say ` +
      `whether it is the same ${what}.${unsure}`
    );
  }
  if (!sameTexts(of_a.texts, of_b.texts)) {
    const where =
      of_a.sites === of_b.sites
        ? "at the same call sites, but with other calls or waits"
        : `at other call sites: ${of_a.sites} in the first; ${of_b.sites} in the second`;
    return `Both have the check ${a.check}, ${where}. It is another ${what}.${unsure}`;
  }
  const lengths =
    a.cycle.length === b.cycle.length
      ? ""
      : ` It has ${plural(a.cycle.length, "wait")} in the first and ${b.cycle.length} in the second.`;
  return (
    `It is the same ${what}: the check ${a.check}, with the same calls at ${of_a.sites}.` +
    `${lengths}${unsure}`
  );
}

export function compare(a: PageDocument, b: PageDocument): Comparison {
  const other = factsOf(b);
  const facts = factsOf(a).map(([what, text], i) => {
    const theirs = other[i]![1];
    return { what, a: text, b: theirs, same: text === theirs };
  });
  const [of_a, of_b] = [sitesOf(a), sitesOf(b)];
  return {
    facts,
    hang: isHang(a.verdict) && isHang(b.verdict) ? hangText(a.verdict, b.verdict) : "",
    communicators: pairs(a.status?.communicators ?? [], b.status?.communicators ?? []),
    sites: {
      both: [...of_a].filter((site) => of_b.has(site)).sort(),
      a: [...of_a].filter((site) => !of_b.has(site)).sort(),
      b: [...of_b].filter((site) => !of_a.has(site)).sort(),
    },
  };
}
