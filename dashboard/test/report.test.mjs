// Opens reports from disk and visits each view, narrow and wide, light and dark: no error, no
// request, nothing that axe objects to, hostile text shown as text, and the evidence on screen.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { axe, openTab, overflow, shoot, startBrowser, writeReport } from "./lib/browser.mjs";
import { fixture, hostile, synthetic } from "./lib/documents.mjs";

const kViews = [
  "verdict",
  "ranks",
  "graph",
  "timeline",
  "diff",
  "stacks",
  "communicators",
  "health",
];
let browser;
before(async () => (browser = await startBrowser()));
after(async () => browser.stop());

const settled = (tab) =>
  tab.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );

async function visit(tab, view, query = "") {
  await tab.evaluate((hash) => (location.hash = hash), `#/job/x/${view}${query}`);
  await tab.waitForSelector(`nav a[aria-current=page][href*="/${view}"]`);
  await settled(tab);
}

const documents = {
  hybrid: () => fixture("hybrid"),
  inversion8: () => fixture("inversion8"),
  missing: () => fixture("missing"),
  hostile: () => hostile({ words: false }),
  hostile_words: () => hostile({ words: true }),
  synthetic_4096: () => synthetic(4096, 32),
};

for (const [name, make] of Object.entries(documents)) {
  test(`every view of ${name}`, async () => {
    const { address } = writeReport(browser, name, make());
    for (const width of [1280, 360]) {
      // The colours of one document are those of all.
      const schemes = name === "hybrid" ? ["light", "dark"] : [width === 1280 ? "light" : "dark"];
      for (const scheme of schemes) {
        const { tab, seen } = await openTab(browser, width, scheme);
        await tab.goto(address);
        await tab.waitForSelector("nav");
        for (const view of kViews) {
          await visit(tab, view);
          const where = `${name} ${view} ${width} ${scheme}`;
          assert.deepEqual(await axe(tab), [], where);
          assert.ok((await overflow(tab)) <= 0, `${where} is wider than the window`);
          await shoot(tab, `${name}-${view}-${width}-${scheme}`);
        }
        assert.deepEqual(seen.errors, [], name);
        assert.deepEqual(
          seen.requests.filter((url) => url !== address.split("#")[0]),
          [],
          name,
        );
        await tab.close();
      }
    }
  });
}

test("hostile text is shown as text", async () => {
  const { address } = writeReport(browser, "hostile", hostile({ words: false }));
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector("nav");
  for (const view of kViews) {
    await visit(tab, view);
    const found = await tab.evaluate(() => ({
      made: document.querySelectorAll("#app img, #app script").length,
      shown: document.body.innerText.includes("<img src=x"),
      turned: /[\u202a-\u202e]/.test(document.body.innerText + document.title),
    }));
    assert.deepEqual(found, { made: 0, shown: true, turned: false }, view);
  }
  assert.deepEqual(seen.errors, []);
  await tab.close();
});

test("the cycle is on screen, and an arrow leads to both source lines", async () => {
  const { address } = writeReport(browser, "hybrid", fixture("hybrid"));
  const { tab } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  const cycle = await tab.innerText(".cycle");
  for (const text of [
    "rank 2",
    "rank 3",
    "AllGather #7 on tp1",
    "AllReduce #3 on dp",
    "train.cc:238 BackwardToPreviousStage()",
    "train.cc:248 BeginFlush()",
    "because rank 3 starts AllGather #7 on tp1 only after AllReduce #3 on dp: on the same stream",
  ]) {
    assert.ok(cycle.includes(text), text);
  }
  assert.match(await tab.innerText(".summary"), /wait for each other/);
  assert.match(await tab.innerText("main"), /pid 13466 on vm/);
  await visit(tab, "graph");
  await tab.click(".edge.in-cycle text");
  const detail = await tab.innerText("#graph-detail");
  assert.match(detail, /ncclAllGather\(mine/);
  assert.match(detail, /ncclAllReduce\(gradients_/);
  assert.match(detail, /cudaMemcpyAsync/);
  await shoot(tab, "hybrid-edge");
  await tab.focus(".node.culprit");
  await tab.keyboard.press("Enter");
  assert.match(await tab.innerText("#graph-detail"), /rank 2/);
  assert.match(await tab.evaluate(() => location.hash), /at=r2/);
  await tab.close();
});

test("who has not come is on screen where there is no cycle", async () => {
  const { address } = writeReport(browser, "missing", fixture("missing"));
  const { tab } = await openTab(browser, 1280, "dark");
  await tab.goto(address);
  assert.match(await tab.innerText("main"), /HOST BLOCKED[\s\S]*suspected/);
  await visit(tab, "graph");
  assert.match(await tab.innerText(".graph"), /rank 3/);
  assert.match(await tab.innerText(".graph"), /ranks 0-2/);
  await visit(tab, "timeline");
  assert.match(await tab.innerText("main"), /gordian report/);
  await tab.close();
});

test("calm jobs get a calm card", async () => {
  for (const verdict of ["healthy", "finished", "inconclusive"]) {
    const page = fixture("missing");
    Object.assign(page.verdict, {
      verdict,
      confidence: "suspected",
      summary: "Nothing is stuck.",
      advice: "",
      operations: [],
      culprit_ranks: [],
      culprit_processes: [],
      victim_ranks: [],
      stacks: [],
    });
    page.status.job_ended = false;
    page.status.since_progress_s = 300;
    const { address } = writeReport(browser, verdict, page);
    const { tab, seen } = await openTab(browser, 360, "light");
    await tab.goto(address);
    const text = await tab.innerText("main");
    assert.match(text, /No rank has moved for 5 min 00 s/);
    assert.equal(await tab.locator(".tone-bad").count(), 0);
    for (const view of kViews) {
      await visit(tab, view);
      assert.deepEqual(await axe(tab), [], `${verdict} ${view}`);
    }
    assert.deepEqual(seen.errors, []);
    await tab.close();
  }
});

function predicted(name) {
  const call = (rank, thread, site) => ({
    rank,
    thread,
    call: "AllReduce",
    communicator: name,
    site,
  });
  const [step, load] = ["train.cc:43 step()", `train.cc:39 ${name}`];
  return {
    freedom: "threads-unordered",
    rests_on: "gordian saw nothing that orders these threads.",
    advice: "Give these calls one order at every rank.",
    found: [
      {
        confidence: "predicted",
        doubt: "",
        summary: "rank 0 waits for rank 1, which waits for rank 0",
        cycle: [call(0, 2, load), call(1, 1, step)],
        orders: [
          { first: call(1, 1, step), then: call(1, 2, load), as_recorded: true },
          { first: call(0, 2, load), then: call(0, 1, step), as_recorded: false },
        ],
        alike: 3,
      },
      { confidence: "not confirmed", doubt: "threads took turns", cycle: [], orders: [] },
    ],
  };
}

test("what could have hung in another order is told of a job that ended well", async () => {
  const page = fixture("hybrid");
  const name = "<img src=x onerror=alert(1)>\u202e";
  page.predictions = predicted(name);
  const stuck = writeReport(browser, "predicted-stuck", page);
  Object.assign(page.verdict, { verdict: "finished", confidence: "confirmed", cycle: [] });
  Object.assign(page.verdict, { operations: [], summary: "The job has ended.", findings: [] });
  const ended = writeReport(browser, "predicted", page);
  page.predictions.found = [];
  const none = writeReport(browser, "predicted-none", page);
  for (const [width, scheme] of [
    [1280, "light"],
    [360, "dark"],
  ]) {
    const { tab, seen } = await openTab(browser, width, scheme);
    await tab.goto(ended.address);
    await tab.waitForSelector("#predictions-title");
    const text = await tab.innerText("section:has(#predictions-title)");
    for (const words of [
      "Could have hung in another order",
      "predicted Rank 0 waits for rank 1, which waits for rank 0",
      "rank 1 would wait in AllReduce on <img src=x onerror=alert(1)>\\u202e at train.cc:43 step()",
      "before thread 1 calls AllReduce",
      "; recorded the other way round",
      ", as recorded",
      "3 more between other ranks",
      "not confirmed",
      "threads took turns",
      "Rests on threads-unordered: gordian saw nothing",
      "What to change: Give these calls one order",
    ]) {
      assert.ok(text.includes(words), `${words} in ${text}`);
    }
    assert.equal(await tab.locator("#app img").count(), 0);
    assert.deepEqual(await axe(tab), []);
    assert.ok((await overflow(tab)) <= 0, `${width}: wider than the window`);
    await shoot(tab, `predicted-${width}-${scheme}`);
    for (const other of [stuck, none]) {
      await tab.goto(other.address);
      await tab.waitForSelector(".summary");
      assert.equal(await tab.locator("#predictions-title").count(), 0);
    }
    assert.deepEqual(seen.errors, []);
    await tab.close();
  }
});

test("on a phone the verdict comes first", async () => {
  const { address } = writeReport(browser, "hybrid", fixture("hybrid"));
  const { tab } = await openTab(browser, 360, "light");
  await tab.goto(address);
  await tab.waitForSelector(".next");
  const tops = await tab.evaluate(() =>
    [".summary", ".the-cycle", ".who", ".next"].map(
      (name) => document.querySelector(name).getBoundingClientRect().top,
    ),
  );
  assert.deepEqual(
    tops,
    [...tops].sort((a, b) => a - b),
  );
  await tab.close();
});

test("keys switch views, move in lists, and show help", async () => {
  const { address } = writeReport(browser, "hybrid", fixture("hybrid"));
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector("nav");
  for (let i = 0; i < kViews.length; ++i) {
    await tab.keyboard.press(`${i + 1}`);
    await tab.waitForSelector(`nav a[aria-current=page][href*="/${kViews[i]}"]`);
  }
  await tab.keyboard.press("7");
  await tab.keyboard.press("j");
  await tab.keyboard.press("j");
  assert.match(await tab.evaluate(() => location.hash), /comm=/);
  await tab.keyboard.press("2");
  await tab.waitForSelector("#heat-cell");
  await tab.keyboard.press("j");
  assert.match(await tab.innerText("#heat-cell"), /Rank/);
  await tab.keyboard.press("/");
  assert.ok(await tab.evaluate(() => document.activeElement.matches("[data-filter]")));
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("?");
  await tab.waitForSelector("dialog[open]");
  assert.deepEqual(await axe(tab), []);
  await shoot(tab, "help");
  await tab.keyboard.press("Escape");
  assert.equal(await tab.locator("dialog[open]").count(), 0);
  assert.deepEqual(seen.errors, []);
  await tab.close();
});

test("16,384 ranks and 32 communicators stay usable", async () => {
  const { address, bytes } = writeReport(
    browser,
    "large",
    synthetic(16384, 32, { history: false }),
  );
  const { tab, seen } = await openTab(browser, 1280, "light");
  const begin = performance.now();
  await tab.goto(address);
  await tab.waitForSelector(".summary");
  const shown = performance.now() - begin;
  await settled(tab);
  const paint = await tab.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1,
  );
  const ranksBegin = performance.now();
  await visit(tab, "ranks", "?unfolded=1");
  const mapShown = performance.now() - ranksBegin;
  await tab.waitForSelector(".scroller canvas");
  const scroll = () =>
    tab.evaluate(
      () =>
        new Promise((done) => {
          const at = document.querySelector(".scroller");
          const times = [];
          let y = 0;
          const step = (time) => {
            times.push(time);
            y += 400;
            at.scrollTop = y;
            at.scrollLeft = y % 200;
            if (times.length < 120) requestAnimationFrame(step);
            else done((1000 * (times.length - 1)) / (times.at(-1) - times[0]));
          };
          requestAnimationFrame(step);
        }),
    );
  // Others may load the machine: the best of three tries counts.
  let rate = 0;
  for (let i = 0; i < 3 && rate <= 20; ++i) rate = Math.max(rate, await scroll());
  assert.ok(rate > 20, `${rate} frames/s`);
  await shoot(tab, "large-ranks");
  for (const view of kViews) {
    await visit(tab, view);
    assert.deepEqual(await axe(tab), [], view);
    assert.ok((await tab.locator("#app *").count()) < 4000, `${view} has too many elements`);
  }
  assert.deepEqual(seen.errors, []);
  console.log(
    `16,384 x 32: report ${bytes} bytes, first paint ${paint.toFixed(0)} ms, verdict on screen ` +
      `${shown.toFixed(0)} ms, map ${mapShown.toFixed(0)} ms, ${rate.toFixed(1)} frames/s`,
  );
  await tab.close();

  const small = writeReport(browser, "small", fixture("hybrid"));
  const other = await openTab(browser, 1280, "light");
  await other.tab.goto(small.address);
  await other.tab.waitForSelector(".summary");
  await settled(other.tab);
  const first = await other.tab.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1,
  );
  console.log(`4 ranks: report ${small.bytes} bytes, first paint ${first.toFixed(0)} ms`);
  await other.tab.close();
});
