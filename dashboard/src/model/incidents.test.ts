import { expect, test } from "vitest";

import {
  alertText,
  foundIncidents,
  jobOf,
  lastedText,
  revisionsText,
  timeText,
} from "./incidents";
import { readIncidents } from "./read";

const kSchema = { schema: "gordian.incidents.v1" };
const [train, other] = readIncidents({
  ...kSchema,
  incidents: [
    {
      id: "5f0c27a91e44",
      job: "train\u202e",
      session: "train",
      nodes: ["node7"],
      open: true,
      opened: "2026-11-28T01:00:00.5Z",
      verdict: "host_blocked",
      confidence: "confirmed",
      summary: "Rank 3 sleeps.",
      revisions: [
        { revision: 2, verdict: "host_blocked", confidence: "suspected" },
        { revision: 5, verdict: "host_blocked", confidence: "confirmed" },
      ],
      acknowledgements: [{ time: "2026-11-28T01:02:00Z", who: "ann", note: "mine" }],
      alerts: [{ alert: "confirmed", target: "https://hooks.slack.com", state: "given up" }],
    },
    {
      id: "0a",
      job: "other",
      opened: "2026-11-28T02:00:00Z",
      ended: "2026-11-28T02:00:04.2Z",
      how_ended: "job ended",
      verdict: "deadlock",
    },
  ],
});

test("the newest incident comes first, and every word of the filter has to match", () => {
  const ids = (filter: string) => foundIncidents([train!, other!], filter).map((one) => one.id);
  expect(ids("")).toEqual(["0a", "5f0c27a91e44"]);
  expect(ids("NODE7 host blocked")).toEqual(["5f0c27a91e44"]);
  expect(ids("acknowledged ann")).toEqual(["5f0c27a91e44"]);
  expect(ids("job ended")).toEqual(["0a"]);
  expect(ids("open deadlock")).toEqual([]);
});

test("an incident is told in words", () => {
  expect(train!.job).toBe("train\\u202e");
  expect(timeText(train!.opened)).toBe("2026-11-28 01:00:00 UTC");
  expect(timeText("yesterday")).toBe("yesterday");
  expect(lastedText(train!, Date.parse("2026-11-28T01:12:03.5Z"))).toBe("open for 12 min 03 s");
  expect(lastedText(train!, 0)).toBe("open for 0.00 s");
  expect(lastedText(other!, 0)).toBe("lasted 4.20 s: job ended");
  expect(lastedText({ ...other!, ended: "?" }, 0)).toBe("ended: job ended");
  expect(revisionsText(train!)).toBe(
    "2 revisions, from host blocked (suspected) to host blocked (confirmed)",
  );
  expect(revisionsText(other!)).toBe("0 revisions");
  expect(alertText(train!.alerts[0]!)).toBe(
    "confirmed: could not be delivered to https://hooks.slack.com",
  );
});

test("an incident leads to its own job alone", () => {
  const jobs = new Map([
    ["train", 0],
    ["other", 0],
  ]);
  expect(jobOf(train!, jobs)).toBe("train");
  expect(jobOf({ ...train!, session: "gone", job: "train" }, jobs)).toBe(null);
  expect(jobOf({ ...train!, session: "/home/ann/s" }, jobs)).toBe(null);
  expect(jobOf({ ...train!, session: "/home/ann/s" }, new Map([["s", 0]]))).toBe("s");
});

test("what is no list of incidents is refused", () => {
  expect(() => readIncidents([])).toThrow("no");
  expect(() => readIncidents({ schema: "gordian.jobs.v1" })).toThrow();
  expect(readIncidents({ ...kSchema, incidents: [7, { id: 7, alerts: {} }] })).toMatchObject([
    { id: "", session: "", alerts: [], open: false },
  ]);
});
