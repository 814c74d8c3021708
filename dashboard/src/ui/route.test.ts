import { expect, test } from "vitest";

import { parseRoute, routeHash } from "./route";

test("an address survives being written and read", () => {
  const job = 'a/b?#"<x>%';
  expect(parseRoute(routeHash(job, "graph", { at: "c0", x: "a&b" }))).toEqual({
    job,
    view: "graph",
    params: { at: "c0", x: "a&b" },
  });
  expect(parseRoute("#/")).toEqual({ job: null, view: "verdict", params: {} });
  expect(parseRoute("#/job/train")).toEqual({ job: "train", view: "verdict", params: {} });
  expect(parseRoute("#/job/%zz/nothing").job).toBe("%zz");
});
