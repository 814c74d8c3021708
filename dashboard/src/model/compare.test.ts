import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

import { compare, lastText } from "./compare";
import { readPage } from "./read";
import type { PageDocument } from "./types";

function fixture(name: string): PageDocument {
  const path = new URL(`../../test/fixtures/${name}.json`, import.meta.url);
  return readPage(JSON.parse(readFileSync(path, "utf8")));
}

const differing = (a: PageDocument, b: PageDocument) =>
  compare(a, b)
    .facts.filter((fact) => !fact.same)
    .map((fact) => fact.what);

test("a job and itself have no difference", () => {
  const { facts, hang, communicators, sites } = compare(fixture("hybrid"), fixture("hybrid"));
  expect(facts.every((fact) => fact.same)).toBe(true);
  expect(facts.find((fact) => fact.what === "Verdict")?.a).toBe("DEADLOCK");
  expect(communicators.length).toBeGreaterThan(0);
  expect(communicators.every((pair) => pair.differs.length === 0)).toBe(true);
  expect([sites.a, sites.b]).toEqual([[], []]);
  expect(sites.both).toContain("train.cc:248 BeginFlush()");
  expect(hang).toMatch(/^It is the same cycle: the check .* at .*train\.cc:248 BeginFlush\(\)/);
});

test("the same cycle at other ranks, begun elsewhere, is the same", () => {
  const other = fixture("hybrid");
  const { verdict } = other;
  verdict!.cycle.reverse();
  verdict!.cycle.forEach((edge) => (edge.rank += 4));
  verdict!.culprit_ranks = [6];
  expect(compare(fixture("hybrid"), other).hang).toMatch(/^It is the same cycle/);
  expect(differing(fixture("hybrid"), other)).toEqual(["Look first at"]);
  verdict!.cycle.push(...verdict!.cycle);
  expect(compare(fixture("hybrid"), other).hang).toMatch(/It has 2 waits in the first and 4 in the second\./);
});

test("another line, another reason, another check is another cycle", () => {
  const changed = (change: (page: PageDocument) => void) => {
    const page = fixture("hybrid");
    change(page);
    return compare(fixture("hybrid"), page).hang;
  };
  expect(changed((page) => (page.verdict!.cycle[0]!.site = "train.cc:1 other()"))).toMatch(
    /BackwardToPreviousStage.* in the first; .*train\.cc:1 other\(\).* in the second\. It is another cycle/,
  );
  expect(changed((page) => (page.verdict!.cycle[0]!.reason = "host_sync"))).toMatch(
    /the same call sites, but with other calls or waits\. It is another cycle/,
  );
  expect(changed((page) => (page.verdict!.check = "other-check"))).toMatch(/^These are different/);
  expect(changed((page) => (page.verdict!.cycle = []))).toMatch(/only one has a cycle/);
  expect(changed((page) => (page.verdict!.confidence = "suspected"))).toMatch(
    /same cycle.* Not both verdicts are confirmed\.$/,
  );
});

test("where call sites are not known, it is not said to be the same", () => {
  const page = fixture("hybrid");
  page.verdict!.cycle[0]!.site = "";
  expect(compare(page, page).hang).toMatch(/cannot say whether it is the same cycle/);
});

test("hangs without a cycle are compared by what is stuck, and a healthy job by none", () => {
  const missing = fixture("missing");
  expect(compare(missing, fixture("missing")).hang).toMatch(/^It is the same stall/);
  const healthy = fixture("missing");
  healthy.verdict!.verdict = "finished";
  expect(compare(missing, healthy).hang).toBe("");
  expect(compare(missing, { ...healthy, verdict: null, status: null }).facts[0]).toEqual({
    what: "Verdict",
    a: "HOST BLOCKED",
    b: "not known",
    same: false,
  });
});

test("communicators are paired by name and members, not by number", () => {
  const a = fixture("hybrid");
  const b = fixture("hybrid");
  const comms = b.status!.communicators;
  comms.reverse();
  comms.forEach((comm, i) => (comm.uid = `other-${i}`));
  expect(compare(a, b).communicators.every((pair) => pair.differs.length === 0)).toBe(true);
  comms[0]!.sequence_max += 3;
  comms[1]!.ranks = [...comms[1]!.ranks, 99];
  comms[2]!.name = "renamed";
  const found = compare(a, b).communicators;
  expect(found.slice(0, 2).map((pair) => [pair.a?.name, pair.b?.name])).toEqual([
    [a.status!.communicators.at(-3)!.name, undefined],
    [undefined, "renamed"],
  ]);
  expect(found.slice(2, 4).map((pair) => pair.differs)).toEqual([["members"], ["last collective"]]);
});

test("the last collective of a communicator is told in words", () => {
  const comm = fixture("hybrid").status!.communicators[0]!;
  const last = (sequence_min: number, sequence_max: number) =>
    lastText({ ...comm, sequence_min, sequence_max });
  expect([last(-1, -1), last(3, 3), last(2, 7), last(-1, 7)]).toEqual([
    "none",
    "#3",
    "#2 to #7",
    "none to #7",
  ]);
});
