import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

import { historyDiff, stuckDiff } from "./diff";
import { flameBoxes, flameTree } from "./flame";
import { layoutGraph } from "./graph_layout";
import { heatMap, heatRows, stemOf } from "./heat_map";
import { readJobs, readPage } from "./read";
import { absentees, absentText, isOpen, panned, ticks, wholeSpan, zoomed } from "./timeline";
import type { PageDocument } from "./types";
import { waitGraph } from "./wait_graph";
import { toneOf } from "./words";

function fixture(name: string): PageDocument {
  const path = new URL(`../../test/fixtures/${name}.json`, import.meta.url);
  return readPage(JSON.parse(readFileSync(path, "utf8")));
}

test("readPage gives every field a value, whatever comes", () => {
  const page = readPage({
    schema: "gordian.page.v1",
    status: { ranks: [1, null, {}] },
    verdict: 5,
  });
  expect(page.verdict).toBeNull();
  expect(page.status?.ranks.length).toBe(1);
  expect(page.status?.ranks[0]?.since_s).toBe(-1);
  expect(page.sources).toEqual([]);
  expect(() => readPage({ schema: "gordian.page.v2" })).toThrow(/gordian.page.v2/);
  expect(() => readPage(null)).toThrow();
  expect(readJobs({ jobs: [{ job: "a" }, {}, 3] }).jobs.map((job) => job.job)).toEqual(["a"]);
});

test("a missing behind_by means one call each", () => {
  const communicators = [{ behind: [1, 2], behind_by: [4] }];
  const page = readPage({ schema: "gordian.page.v1", status: { communicators } });
  expect(page.status?.communicators[0]?.behind_by).toEqual([4, 1]);
});

test("waitGraph lights the cycle and hangs the victims on it", () => {
  const graph = waitGraph(fixture("hybrid").verdict!);
  expect(graph.has_cycle).toBe(true);
  expect(graph.nodes.map((node) => [node.hop, node.ranks])).toEqual([
    [0, [2]],
    [0, [3]],
    [1, [0]],
    [1, [1]],
  ]);
  expect(graph.edges.map((edge) => `${edge.from}>${edge.to}`).slice(0, 2)).toEqual([
    "r2>r3",
    "r3>r2",
  ]);
  expect(graph.edges[2]?.label).toBe("transfer #3 on pp0");
  expect(graph.left_out).toEqual([]);
});

test("waitGraph folds victims that wait for the same", () => {
  const graph = waitGraph(fixture("inversion8").verdict!);
  const groups = graph.nodes.filter((node) => node.hop === 1);
  expect(groups.map((node) => node.ranks)).toEqual([[0, 1, 2, 4, 5, 6]]);
});

test("waitGraph leads to who has not come where there is no cycle", () => {
  const graph = waitGraph(fixture("missing").verdict!);
  expect(graph.has_cycle).toBe(false);
  expect(graph.nodes.map((node) => [node.hop, node.ranks])).toEqual([
    [0, [3]],
    [1, [0, 1, 2]],
  ]);
  expect(graph.edges[0]?.detail).toMatch(/rank 3 has not called it: last called a host wait/);
});

test("layoutGraph keeps everything inside, at any width", () => {
  for (const name of ["hybrid", "inversion8", "missing"]) {
    for (const width of [300, 760, 1200]) {
      const layout = layoutGraph(waitGraph(fixture(name).verdict!), width);
      for (const box of layout.boxes) {
        expect(box.x).toBeGreaterThanOrEqual(0);
        expect(box.x + box.w).toBeLessThanOrEqual(layout.width);
        expect(box.y + box.h).toBeLessThanOrEqual(layout.height);
      }
    }
  }
});

test("heatMap gives disjoint communicators of one stem one column", () => {
  const map = heatMap(fixture("hybrid").status!);
  expect(map.columns.map((column) => column.label)).toEqual(["dp", "tp*", "pp*"]);
  expect(heatMap(fixture("hybrid").status!, true).columns.length).toBe(5);
  const rows = heatRows(map, new Set([2, 3]), true, () => true);
  expect(rows.map((row) => [row.ranks, row.worst, row.culprit])).toEqual([
    [[2, 3], 0, true],
    [[0, 1], 1, false],
  ]);
  expect(heatRows(map, new Set(), false, (rank) => rank.rank < 2).length).toBe(2);
  expect(["tp12", "tp {2,3}", "7", "dp"].map(stemOf)).toEqual(["tp", "tp", "7", "dp"]);
});

test("flameTree merges from the outermost frame, and zooms", () => {
  const tree = flameTree(fixture("missing").verdict!.stacks);
  expect(tree.threads).toBe(4);
  expect(tree.children.map((node) => node.frame?.function)).toEqual(["main"]);
  const split = tree.children[0]!.children;
  expect(split.map((node) => node.threads)).toEqual([1, 3]);
  const all = flameBoxes(tree, "");
  expect(all.find((box) => box.node === split[1])?.width).toBeCloseTo(0.75);
  const zoomedIn = flameBoxes(tree, split[1]!.id);
  expect(zoomedIn.find((box) => box.node === split[1])?.width).toBe(1);
  expect(zoomedIn.some((box) => box.node === split[0])).toBe(false);
});

test("historyDiff finds where two ranks part", () => {
  const diff = historyDiff(fixture("hybrid").history!, [], 2, 3);
  expect(diff.shared).toEqual(["dp", "tp1"]);
  expect(diff.rows[diff.first]?.left?.key).toBe("tp1#7/collective");
  expect(diff.rows.slice(0, diff.first).every((row) => row.same)).toBe(true);
  expect(historyDiff(fixture("hybrid").history!, [], 2, 2).first).toBe(-1);
});

// Ranks 0-2 call `ops[0]`, rank 3 `ops[1]`; none of them has not come.
function mismatch(ops: readonly [string, string], remarks: readonly [string, string]) {
  const members = [0, 1, 2, 3].map((rank) => ({
    rank,
    state: "called",
    instead: remarks[rank === 3 ? 1 : 0],
    site: `job.cc:${rank === 3 ? 5 : 7}`,
  }));
  const operations = [{ op: ops[0], comm_name: "world", seq: 1, bytes: 4096, members }];
  const streams = [0, 3].map((rank) => ({
    rank,
    operations: [{ op: ops[rank === 3 ? 1 : 0], comm_name: "world", seq: 1, progress: "started" }],
  }));
  return readPage({
    schema: "gordian.page.v1",
    verdict: { verdict: "mismatch", culprit_ranks: [3], victim_ranks: [0, 1, 2], operations },
    history: { streams },
  });
}

test("a mismatch has an arrow to who called something else, and one row of the diff", () => {
  const kinds = mismatch(["AllReduce", "AllGather"], ["calls AllReduce", "calls AllGather"]);
  const graph = waitGraph(kinds.verdict!);
  expect(graph.nodes.map((node) => [node.hop, node.ranks, node.what])).toEqual([
    [0, [3], "calls AllGather"],
    [1, [0, 1, 2], "AllReduce #1 on world"],
  ]);
  expect(graph.edges[0]?.detail).toBe("rank 3 is in the call: calls AllGather");
  expect(graph.left_out).toEqual([]);
  const counts = mismatch(["AllReduce", "AllReduce"], ["passes count 9", "passes count 5"]);
  for (const page of [kinds, counts]) {
    const diff = historyDiff(page.history!, page.verdict!.operations, 0, 3);
    expect(diff.rows.length).toBe(1);
    expect(diff.first).toBe(0);
  }
});

test("groups that wait in transfers of one number stay apart", () => {
  const member = (rank: number, state: string) => ({ rank, state });
  const transfer = (rank: number) => ({
    op: "Send",
    comm_name: "world",
    seq: 2,
    members: [member(2, "enqueued"), member(rank, "at_head")],
  });
  const cycle = [
    { rank: 1, waits_for_rank: 2, reason: "receive", op: "Recv" },
    { rank: 2, waits_for_rank: 1, reason: "stream_order", op: "AllReduce" },
  ];
  const verdict = { verdict: "deadlock", cycle, operations: [transfer(0), transfer(3)] };
  const graph = waitGraph(readPage({ schema: "gordian.page.v1", verdict }).verdict!);
  expect(new Set(graph.nodes.map((node) => node.id)).size).toBe(4);
  expect(graph.edges.map((edge) => edge.missing).slice(0, 2)).toEqual([
    "rank 2 has not sent",
    "rank 2 waits behind earlier work on its stream, held up by rank 1",
  ]);
});

test("stuckDiff compares what two ranks are at", () => {
  const diff = stuckDiff(fixture("hybrid").verdict!.operations, 2, 3);
  expect(diff.rows.length).toBe(2);
  expect(diff.first).toBe(0);
});

test("the timeline's span, zoom and ticks stay inside", () => {
  const history = fixture("hybrid").history!;
  const whole = wholeSpan(history);
  expect(whole.to).toBeGreaterThan(history.stalled_at_ns);
  const near = zoomed(whole, whole, history.stalled_at_ns, 0.1);
  expect(near.to - near.from).toBeCloseTo((whole.to - whole.from) / 10, 0);
  expect(panned(near, whole, 1e15).to).toBeCloseTo(whole.to, 0);
  expect(ticks({ from: 0, to: 100 }, 0, 5)).toEqual([0, 20, 40, 60, 80, 100]);
  const last = history.streams[0]!.operations.filter(isOpen);
  expect(last.length).toBe(1);
});

test("absentees tells who has not called from who is blocked", () => {
  const verdict = fixture("hybrid").verdict;
  const absent = absentees(verdict, { comm_name: "dp", seq: 3, op: "AllReduce" });
  expect(absent).toEqual({ not_called: [0, 1], behind: [2] });
  expect(absentText(absent)).toBe(
    "not called by ranks 0,1; behind other work of the stream at rank 2",
  );
});

test("a suspicion is told less loudly than a proof", () => {
  expect(toneOf("deadlock", "confirmed")).toBe("bad");
  expect(toneOf("deadlock", "suspected")).toBe("warn");
  expect(toneOf("healthy", "suspected")).toBe("calm");
  expect(toneOf("__proto__", "confirmed")).toBe("unknown");
});
