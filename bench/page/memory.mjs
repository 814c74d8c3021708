// What the live page costs a browser that is left open: its heap, its elements and its process, once
// a minute, while the job goes on and somebody looks through the views.
//
//   node bench/page/memory.mjs BUILD [--minutes N]     default: 60; from 6 on it judges
//
// One tab follows a job of `gordian run --http`, and goes through all views each minute. Another has
// the list of a `gordian serve`, to which a job comes each minute, and opens the newest. Garbage is
// collected before each sample, so that what is counted is what the page holds on to.
//
// Prints one JSON object at the end. Exit code 1: the page holds on to more and more, or it did not
// follow its job, so that the figures say nothing.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { build, hang, Workplace } from "../../tests/page/real_jobs.mjs";

process.env.DASHBOARD_MODULES = join(build, "dashboard", "work", "node_modules");
const { openTab, startBrowser } = await import("../../dashboard/test/lib/browser.mjs");

const { values } = parseArgs({ args: process.argv.slice(3), options: { minutes: { type: "string", default: "60" } } });
const minutes = Number(values.minutes);
if (!(minutes >= 1)) throw new Error(`--minutes takes a number of minutes from 1 on, not ${values.minutes}`);

const kViews = ["verdict", "ranks", "graph", "timeline", "diff", "stacks", "communicators", "health"];
const kMinute = 60000;
const kWarmUp = 2; // samples: the first visit of each view fills caches
// Growth beyond this is a leak: half as much again as at the beginning, and what a list may gain.
const kMost = { heap: { ratio: 1.5, more: 4e6 }, nodes: { ratio: 1.5, more: 1000 }, listeners: { ratio: 1.5, more: 200 } };

function processes() {
  const all = new Map();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const parent = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, "utf8"))[1]);
      // Chromium's children join their words with spaces, and its first process ends each with a zero.
      const words = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
      const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${name}/status`, "utf8"))?.[1] ?? 0) * 1024;
      all.set(Number(name), { parent, words, rss });
    } catch {
      // It has ended.
    }
  }
  return all;
}

// Bytes of the largest renderer of the browser whose profile this is: the one of the tab.
function rendererBytes(profile) {
  const all = processes();
  const below = (pid) => {
    for (let at = all.get(pid); at !== undefined; at = all.get(at.parent)) {
      if (at.words.includes(`--user-data-dir=${profile} `)) return true;
    }
    return false;
  };
  const sizes = [...all].filter(([pid, one]) => one.words.includes(" --type=renderer ") && below(pid)).map(([, one]) => one.rss);
  if (sizes.length === 0) throw new Error(`no renderer of the browser with the profile ${profile} is found`);
  return Math.max(...sizes);
}

// A tab in a browser of its own, so that its process holds nothing else.
class Watched {
  static async open(name, address) {
    const watched = new Watched();
    watched.name = name;
    watched.browser = await startBrowser();
    ({ tab: watched.tab, seen: watched.seen } = await openTab(watched.browser, 1280, "light"));
    await watched.browser.context.pages()[0].close();
    watched.devtools = await watched.browser.context.newCDPSession(watched.tab);
    watched.samples = [];
    await watched.tab.goto(address);
    return watched;
  }

  async sample() {
    for (let i = 0; i < 2; ++i) await this.devtools.send("HeapProfiler.collectGarbage");
    const { usedSize } = await this.devtools.send("Runtime.getHeapUsage");
    const { nodes, jsEventListeners } = await this.devtools.send("Memory.getDOMCounters");
    const rss = rendererBytes(join(this.browser.folder, "profile"));
    this.samples.push({ heap: usedSize, nodes, listeners: jsEventListeners, rss, requests: this.seen.requests.length });
    console.error(`${this.name}: ${JSON.stringify(this.samples.at(-1))}`);
  }
}

// Not waitForSelector: that gives a handle, which keeps its element alive after the page let it go.
const appears = (watched, selector) => watched.tab.locator(selector).first().waitFor({ timeout: 30000 });

const middle = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

// Of a line through the samples, one a minute.
function perHour(numbers) {
  const x = (numbers.length - 1) / 2;
  const y = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  const rise = numbers.reduce((sum, value, i) => sum + (i - x) * (value - y), 0);
  return (60 * rise) / numbers.reduce((sum, _, i) => sum + (i - x) ** 2, 0);
}

function judge(watched) {
  const kept = watched.samples.slice(kWarmUp);
  const some = Math.min(10, Math.floor(kept.length / 2));
  const said = { tab: watched.name, samples: watched.samples.length, of_each_end: some };
  const problems = [];
  for (const what of ["heap", "nodes", "listeners", "rss"]) {
    const numbers = kept.map((sample) => sample[what]);
    const first = middle(numbers.slice(0, some));
    const last = middle(numbers.slice(-some));
    said[what] = { first, last, per_hour: Math.round(perHour(numbers)) };
    const most = kMost[what];
    if (most !== undefined && last > most.ratio * first + most.more) {
      problems.push(`${watched.name}: ${what} grew from ${first} to ${last}, which is more than ${most.ratio} times and ${most.more}`);
    }
  }
  said.requests = watched.samples.at(-1).requests;
  const errors = watched.seen.errors;
  if (errors.length > 0) problems.push(`${watched.name}: the page said ${errors[0]}`);
  return { said, problems };
}

const place = new Workplace();
const open = [];
let failed = false;
try {
  const env = { JOB_UNTIL: place.path("never"), JOB_STEP_US: "20000" };
  const { run, address } = await place.runWithPage(hang, { env });
  const serve = place.start(["serve", "--listen", "127.0.0.1:0", "--sessions", "all", "--http", "127.0.0.1:0", "--json"]);
  const listening = await serve.said(/"listening":"([^"]+)"/);
  const job = await Watched.open("a job that runs", address);
  open.push(job);
  const list = await Watched.open("a list that grows", `${await serve.said(/"page":"([^"]+)"/)}#/`);
  open.push(list);
  await appears(job, "text=NOTHING IS STUCK");

  for (let minute = 1; minute <= minutes; ++minute) {
    const next = performance.now() + kMinute;
    const name = `job-${minute}`;
    const ends = place.run(["--quiet", "--analyzer", listening, "--job", name, "--session", `node-${minute}`], [...hang, "--twin"], {
      JOB_UNTIL: "/",
    });
    for (const [i, view] of kViews.entries()) {
      await job.tab.keyboard.press(`${i + 1}`);
      await appears(job, `nav a[aria-current=page][href*="/${view}"]`);
      await sleep(1000); // as a person looks at it
    }
    await ends.gone();
    await list.tab.evaluate(() => (location.hash = "#/"));
    const row = list.tab.locator(`.jobs a[href*="/${name}/"]`);
    await row.waitFor({ timeout: 30000 });
    await row.click();
    await appears(list, "#verdict-title");
    await list.tab.evaluate(() => (location.hash = "#/"));
    await row.waitFor();
    await sleep(Math.max(0, next - performance.now()));
    for (const watched of open) await watched.sample();
    if (run.over) throw new Error(`the job ended before the measurement: ${run.output}`);
  }

  const results = open.map(judge);
  console.log(JSON.stringify({ minutes, tabs: results.map((one) => one.said) }, null, 2));
  const problems = minutes < 6 ? [] : results.flatMap((one) => one.problems);
  // The page asks for a document at each change, twice a second at most.
  const documents = job.seen.requests.filter((url) => url.includes("/api/v1/jobs/")).length;
  if (documents < minutes * 30) problems.push(`the page of the job asked for ${documents} documents, so it did not follow the job`);
  for (const problem of problems) console.error(problem);
  failed = problems.length > 0;
} finally {
  for (const watched of open) await watched.browser.stop();
  await place.end();
}
process.exit(failed ? 1 : 0);
