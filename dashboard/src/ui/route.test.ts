import { expect, test } from "vitest";

import { parseRoute, placeHash, routeHash } from "./route";

test("an address survives being written and read", () => {
  const job = 'a/b?#"<x>%';
  expect(parseRoute(routeHash(job, "graph", { at: "c0", x: "a&b" }))).toEqual({
    place: "jobs",
    job,
    view: "graph",
    params: { at: "c0", x: "a&b" },
  });
  const start = { place: "jobs", view: "verdict", params: {} };
  expect(parseRoute("#/")).toEqual({ ...start, job: null });
  expect(parseRoute("#/nothing")).toEqual({ ...start, job: null });
  expect(parseRoute("#/job/train")).toEqual({ ...start, job: "train" });
  expect(parseRoute("#/job/%zz/nothing").job).toBe("%zz");
  for (const place of ["jobs", "incidents", "compare"] as const) {
    const params = { a: job, q: "two words" };
    expect(parseRoute(placeHash(place, params))).toEqual({ ...start, place, job: null, params });
    expect(parseRoute(placeHash(place))).toEqual({ ...start, place, job: null });
  }
});
