// How soon a viewer hears of a hang, and sees it, after gordian has written its verdict.
//
//   node bench/page/delay.mjs BUILD [--times N] [--publish MACHINE]     default: 20 times
//
// Each time a job of `gordian run --http` makes steps until it is told to hang. One viewer reads
// the page's event stream; another is the page in Chromium, open since before the hang. Time zero
// of both is when the verdict.json that first says "deadlock" was written. Before that is what
// gordian itself takes to prove a hang, which is no matter of the page.
//
// Prints one JSON object. --publish writes the table `delay` of bench/results/page.json, and the
// page that shows it.
import { execFileSync } from "node:child_process";
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { build, hang, Workplace } from "../../tests/page/real_jobs.mjs";

process.env.DASHBOARD_MODULES = join(build, "dashboard", "work", "node_modules");
const { openTab, startBrowser } = await import("../../dashboard/test/lib/browser.mjs");

const { values } = parseArgs({
  args: process.argv.slice(3),
  options: { times: { type: "string", default: "20" }, publish: { type: "string" } },
});
const times = Number(values.times);
if (!(Number.isInteger(times) && times >= 1)) {
  throw new Error(`--times takes a number from 1 on, not ${values.times}`);
}

const kWait = { timeout: 60000 };
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

// When the first event comes that says "deadlock".
async function heard(address) {
  const { body } = await fetch(`${address}api/v1/events`);
  let text = "";
  for await (const bytes of body.pipeThrough(new TextDecoderStream())) {
    const now = Date.now();
    text += bytes;
    const whole = text.split("\n\n");
    text = whole.pop();
    const says = (event) => /^data: .*"verdict":"deadlock"/m.test(event);
    if (whole.some(says)) return now;
  }
  throw new Error("the event stream ended before the verdict");
}

// Lets the page note when it has drawn a frame with the verdict's cycle in it.
const watchScreen = (tab) =>
  tab.evaluate(() => {
    window.shownAt = new Promise((done) => {
      const watch = new MutationObserver(() => {
        if (document.querySelector(".cycle") === null) return;
        watch.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => done(Date.now())));
      });
      watch.observe(document.body, { childList: true, subtree: true });
    });
  });

// When the first verdict.json that says "deadlock" was written: later ones say more of that hang.
async function written(path) {
  const deadline = performance.now() + kWait.timeout;
  while (performance.now() < deadline) {
    const file = openSync(path); // gordian writes each one anew, and gives it the name of the last
    const { mtimeMs } = fstatSync(file);
    const { verdict } = JSON.parse(readFileSync(file, "utf8"));
    closeSync(file);
    if (verdict === "deadlock") return mtimeMs;
    await sleep(1);
  }
  throw new Error(`${path} did not say "deadlock"`);
}

async function once(browser, place, session) {
  const env = { JOB_UNTIL: place.path(`go-${session}`) };
  const { run, address } = await place.runWithPage(hang, { session, env });
  const { tab } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector("text=NOTHING IS STUCK", kWait);
  await watchScreen(tab);
  const event = heard(address);
  // The server also looks by itself, once a second: the hang comes at any time between two looks.
  await sleep(200 + Math.random() * 1000);
  writeFileSync(env.JOB_UNTIL, "");
  const zero = await written(place.path(`${session}/verdict.json`));
  const stream = (await event) - zero;
  const screen = (await tab.evaluate(() => window.shownAt)) - zero;
  await tab.close();
  await run.end();
  return { stream, screen };
}

function summary(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  const median = (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
  return { median_ms: Math.round(median), max_ms: Math.round(sorted.at(-1)) };
}

function publish(machine, { stream, screen }) {
  const git = (...words) =>
    execFileSync("git", ["-C", root, ...words], { encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "-uno") !== "";
  const path = join(root, "bench", "results", "page.json");
  const data = JSON.parse(readFileSync(path, "utf8"));
  const table = {
    id: "delay",
    caption: "From a deadlock's verdict.json to who has the page open",
    columns: ["To", "Median, ms", "Maximum, ms"],
    rows: [
      ["the event on the page's event stream", stream.median_ms, stream.max_ms],
      ["the cycle on screen in Chromium", screen.median_ms, screen.max_ms],
    ],
    notes: [`${times} hangs of a job of four ranks; both rows are of the same hangs.`],
    machine,
    revision: changed ? "not recorded" : git("rev-parse", "--short=8", "HEAD"),
    date: new Date().toISOString().slice(0, 10),
    command: `node bench/page/delay.mjs build/release${times === 20 ? "" : ` --times ${times}`}`,
  };
  data.tables = [...data.tables.filter((one) => one.id !== table.id), table];
  writeFileSync(path, `${JSON.stringify(data, null, 1)}\n`);
  execFileSync(join(root, "bench", "results", "pages.py"), ["--update"], { stdio: "inherit" });
}

const browser = await startBrowser();
const place = new Workplace();
const all = [];
try {
  for (let i = 0; i < times; ++i) {
    all.push(await once(browser, place, `s${i}`));
    console.error(JSON.stringify(all.at(-1)));
  }
} finally {
  await browser.stop();
  await place.end();
}
const of = (what) => summary(all.map((one) => one[what]));
const result = { times, stream: of("stream"), screen: of("screen") };
console.log(JSON.stringify(result, null, 2));
if (values.publish !== undefined) publish(values.publish, result);
