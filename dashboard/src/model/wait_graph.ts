// Makes the picture of who waits for whom: the cycle or the ranks that have not come in the middle,
// then the other waiting ranks, folded by what they wait for, at most two hops away.
import { operationText, rankText, ranksText } from "./text";
import type { Finding, Member, StuckOperation, WaitEdge } from "./types";
import { instanceOp, memberText, waitPhrase } from "./words";

export interface GraphNode {
  id: string;
  hop: number; // 0: the cycle, or who has not come
  ranks: number[];
  what: string; // the operation that it is in, or what it does instead
  site: string;
}

export interface GraphEdge {
  id: string;
  from: string;
  to: string;
  in_cycle: boolean;
  label: string;
  missing: string; // what the other rank has not done, or how it holds this one up
  detail: string;
  from_site: string;
  to_site: string;
}

export interface WaitGraph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  has_cycle: boolean;
  left_out: number[]; // ranks that no picture of two hops has
}

function isAwaited(state: string): boolean {
  return state === "not_called" || state === "enqueued" || state === "in_open_group";
}

function isWaiting(state: string): boolean {
  return state === "at_head" || state === "called";
}

function operationKey(operation: StuckOperation): string {
  return `${operation.op}/${operation.comm}/${operation.comm_name}/${operation.seq}`;
}

function siteOfRank(operation: StuckOperation, ranks: readonly number[]): string {
  const wanted = new Set(ranks);
  return operation.members.find((member) => wanted.has(member.rank))?.site ?? "";
}

function cycleNodes(cycle: readonly WaitEdge[]): GraphNode[] {
  const nodes = new Map<number, GraphNode>();
  for (const edge of cycle) {
    if (nodes.has(edge.rank)) continue;
    nodes.set(edge.rank, {
      id: `r${edge.rank}`,
      hop: 0,
      ranks: [edge.rank],
      what: operationText(edge),
      site: edge.site,
    });
  }
  for (const edge of cycle) {
    if (nodes.has(edge.waits_for_rank)) continue;
    nodes.set(edge.waits_for_rank, {
      id: `r${edge.waits_for_rank}`,
      hop: 0,
      ranks: [edge.waits_for_rank],
      what: "",
      site: "",
    });
  }
  return [...nodes.values()];
}

function missingText(edge: WaitEdge): string {
  const [before, after] = waitPhrase(edge);
  return after === "" && before !== "waits for"
    ? `${rankText(edge.rank)} ${before} ${rankText(edge.waits_for_rank)}`
    : after && `${rankText(edge.waits_for_rank)} ${after}`;
}

function cycleEdges(cycle: readonly WaitEdge[]): GraphEdge[] {
  return cycle.map((edge, i) => ({
    id: `c${i}`,
    from: `r${edge.rank}`,
    to: `r${edge.waits_for_rank}`,
    in_cycle: true,
    label: operationText(edge),
    missing: missingText(edge),
    detail: edge.detail,
    from_site: edge.site,
    to_site: cycle.find((other) => other.rank === edge.waits_for_rank)?.site ?? "",
  }));
}

// Ranks that have not come or called something else, folded by what they do instead and where.
function absentNodes(finding: Finding): GraphNode[] {
  const culprits = new Set(finding.culprit_ranks);
  const groups = new Map<string, GraphNode>();
  const placed = new Set<number>();
  const add = (member: Member) => {
    if (placed.has(member.rank)) return;
    placed.add(member.rank);
    const key = `${member.instead}/${member.state}/${member.site}`;
    const node = groups.get(key);
    if (node !== undefined) {
      node.ranks.push(member.rank);
      return;
    }
    groups.set(key, {
      id: `a${groups.size}`,
      hop: 0,
      ranks: [member.rank],
      what: member.instead || memberText(member),
      site: member.site,
    });
  };
  const all = finding.operations.flatMap((operation) => operation.members);
  const named = all.filter((member) => culprits.has(member.rank));
  named.filter((member) => isAwaited(member.state)).forEach(add);
  if (groups.size === 0) {
    all.filter((member) => member.state === "not_called").forEach(add);
  }
  named.filter((member) => member.instead !== "").forEach(add);
  for (const rank of finding.culprit_ranks) add({ rank, state: "", instead: "", site: "" });
  return [...groups.values()];
}

interface Pending {
  ranks: number[];
  operation: StuckOperation;
  awaited: Member[];
  blocked: boolean; // not in the operation itself yet, but behind other work of the stream
}

// Who waits in which operation for whom, one entry an operation.
function pendingWaits({ verdict, culprit_ranks, operations }: Finding): Pending[] {
  const waits: Pending[] = [];
  const waiting = new Set<number>();
  // In a mismatch all have called, and the others wait for who called something else.
  const odd = new Set(verdict === "mismatch" ? culprit_ranks : []);
  for (const operation of operations) {
    const awaited = operation.members.filter((m) => isAwaited(m.state) || odd.has(m.rank));
    const ranks = operation.members
      .filter((m) => isWaiting(m.state) && !odd.has(m.rank))
      .map((m) => m.rank);
    ranks.forEach((rank) => waiting.add(rank));
    if (awaited.length > 0 && ranks.length > 0) {
      waits.push({ ranks, operation, awaited, blocked: false });
    }
  }
  for (const operation of operations) {
    const awaited = operation.members.filter((member) => member.state === "not_called");
    const ranks = operation.members
      .filter((member) => member.state === "enqueued" && !waiting.has(member.rank))
      .map((member) => member.rank);
    if (awaited.length > 0 && ranks.length > 0) {
      waits.push({ ranks, operation, awaited, blocked: true });
    }
  }
  return waits;
}

export function waitGraph(finding: Finding): WaitGraph {
  const has_cycle = finding.cycle.length > 0;
  const nodes = has_cycle ? cycleNodes(finding.cycle) : absentNodes(finding);
  const edges = has_cycle ? cycleEdges(finding.cycle) : [];
  const nodeOf = new Map<number, GraphNode>();
  for (const node of nodes) node.ranks.forEach((rank) => nodeOf.set(rank, node));

  const waits = pendingWaits(finding);
  for (let hop = 1; hop <= 2; ++hop) {
    const added: GraphNode[] = [];
    for (const wait of waits) {
      const targets = new Map<GraphNode, Member>();
      for (const member of wait.awaited) {
        const target = nodeOf.get(member.rank);
        if (target !== undefined && target.hop === hop - 1) targets.set(target, member);
      }
      const ranks = wait.ranks.filter((rank) => !nodeOf.has(rank));
      if (targets.size === 0 || ranks.length === 0) continue;
      const site = siteOfRank(wait.operation, ranks);
      const what = operationText({ ...wait.operation, op: instanceOp(wait.operation.op) });
      const node: GraphNode = {
        id: `v${hop}:${operationKey(wait.operation)}:${wait.blocked ? "b" : "w"}${ranks[0]}`,
        hop,
        ranks: ranks.sort((a, b) => a - b),
        what: wait.blocked ? `blocked before ${what}` : what,
        site,
      };
      added.push(node);
      for (const [target, member] of targets) {
        const awaited = wait.awaited.filter((m) => nodeOf.get(m.rank) === target);
        edges.push({
          id: `${node.id}>${target.id}`,
          from: node.id,
          to: target.id,
          in_cycle: false,
          label: what,
          missing: "",
          detail:
            `${ranksText(awaited.map((m) => m.rank))} ${memberText(member, awaited.length)}` +
            (wait.blocked ? "; the waiting ranks have it behind other work of their stream" : ""),
          from_site: site,
          to_site: member.site,
        });
      }
      // Ranks of this hop must not be taken again by another operation of the same hop, nor be
      // a target in it: they are entered with their hop.
      ranks.forEach((rank) => nodeOf.set(rank, node));
    }
    added.sort((a, b) => b.ranks.length - a.ranks.length);
    nodes.push(...added);
  }
  const all = new Set(finding.operations.flatMap((o) => o.members.map((m) => m.rank)));
  finding.victim_ranks.forEach((rank) => all.add(rank));
  const left_out = [...all].filter((rank) => !nodeOf.has(rank)).sort((a, b) => a - b);
  return { nodes, edges, has_cycle, left_out };
}
