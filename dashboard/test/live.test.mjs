// Runs the live page against a small server that speaks the same as gordian's: the verdict appears
// and changes, the server goes away and comes back, and asks for a token.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { axe, openTab, overflow, shoot, startBrowser } from "./lib/browser.mjs";
import { dist, fixture, hostile } from "./lib/documents.mjs";

const kPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src 'self' data:";
const kTypes = { html: "text/html", js: "text/javascript", css: "text/css" };

// A server of some jobs; `change` publishes a new document of one of them.
class Mock {
  constructor(token = "") {
    this.token = token;
    this.pages = new Map();
    this.versions = new Map();
    this.started = new Map();
    this.nodes = new Map();
    this.streams = new Set();
    this.resumed = [];
    this.documents = 0;
    this.event = 0;
    this.port = 0;
    this.incidents = null; // none are kept
    this.admin = "";
  }

  changeIncidents(incidents) {
    this.incidents = incidents;
    for (const stream of this.streams) {
      stream.write(`id: ${++this.event}\nevent: incidents\ndata: {}\n\n`);
    }
  }

  acknowledge(id, request, response) {
    let text = "";
    request.on("data", (piece) => (text += piece));
    request.on("end", () => {
      if (request.headers.authorization !== `Bearer ${this.admin}`) {
        response.writeHead(403).end("403: this token is no admin's\n");
        return;
      }
      const { by, note } = JSON.parse(text);
      const one = { time: "2026-11-28T01:30:00Z", who: by, note };
      this.incidents.find((incident) => incident.id === id).acknowledgements.push(one);
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ acknowledged: id }));
    });
  }

  row(job) {
    const page = this.pages.get(job);
    return {
      job,
      verdict: page.verdict?.verdict ?? "healthy",
      confidence: page.verdict?.confidence ?? "suspected",
      check: page.verdict?.check ?? "",
      summary: page.verdict?.summary ?? "",
      revision: page.verdict?.revision ?? 0,
      version: this.versions.get(job),
      job_ended: page.status.job_ended,
      live: true,
      ranks: page.status.ranks.length,
      since_progress_s: page.status.since_progress_s,
      started: this.started.get(job) ?? "",
      nodes: this.nodes.get(job) ?? [],
    };
  }

  change(job, page) {
    this.pages.set(job, { ...page, job, live: true, history: null });
    this.versions.set(job, (this.versions.get(job) ?? 0) + 1);
    for (const stream of this.streams) this.send(stream, job);
  }

  send(stream, job) {
    const data = JSON.stringify(this.row(job));
    stream.write(`id: ${++this.event}\nevent: job\ndata: ${data}\n\n`);
  }

  answer(request, response) {
    const { pathname } = new URL(request.url, "http://localhost");
    const json = (value) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify(value));
    };
    if (!pathname.startsWith("/api/")) {
      const name = pathname === "/" ? "index.html" : pathname.slice(1);
      response.writeHead(200, {
        "Content-Type": kTypes[name.split(".").at(-1)],
        "Content-Security-Policy": kPolicy,
      });
      response.end(readFileSync(join(dist, name)));
    } else if (this.token && request.headers.authorization !== `Bearer ${this.token}`) {
      response.writeHead(401).end();
    } else if (pathname === "/api/v1/jobs") {
      const jobs = [...this.pages.keys()].map((job) => this.row(job));
      json({
        schema: "gordian.jobs.v1",
        gordian_version: "0.1.0",
        last_event: `${this.event}`,
        has_incidents: this.incidents !== null,
        may_acknowledge:
          this.admin !== "" && request.headers.authorization === `Bearer ${this.admin}`,
        jobs,
      });
    } else if (pathname === "/api/v1/incidents") {
      json({ schema: "gordian.incidents.v1", incidents: this.incidents ?? [] });
    } else if (request.method === "POST") {
      this.acknowledge(pathname.split("/").at(-2), request, response);
    } else if (pathname === "/api/v1/events") {
      this.resumed.push(request.headers["last-event-id"] ?? "");
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(":\n\n");
      for (const job of this.pages.keys()) this.send(response, job);
      this.streams.add(response);
      response.on("close", () => this.streams.delete(response));
    } else {
      const job = decodeURIComponent(pathname.slice("/api/v1/jobs/".length));
      const page = this.pages.get(job);
      ++this.documents;
      if (page === undefined) response.writeHead(404).end();
      else json(page);
    }
  }

  async start() {
    this.server = createServer((request, response) => this.answer(request, response));
    await new Promise((done) => this.server.listen(this.port, "127.0.0.1", done));
    this.server.unref();
    this.port = this.server.address().port;
    this.address = `http://127.0.0.1:${this.port}/`;
  }

  async stop() {
    for (const stream of this.streams) stream.destroy();
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}

function healthy() {
  const page = fixture("hybrid");
  Object.assign(page.verdict, {
    verdict: "healthy",
    confidence: "confirmed",
    summary: "The job runs, nothing is stuck.",
    advice: "",
    cycle: [],
    operations: [],
    stacks: [],
    culprit_ranks: [],
    culprit_processes: [],
    victim_ranks: [],
    communicators: [],
  });
  page.status.job_ended = false;
  page.status.since_progress_s = 0.1;
  return page;
}

function stuck() {
  const page = fixture("hybrid");
  page.status.job_ended = false;
  page.status.since_progress_s = 75;
  return page;
}

let browser;
before(async () => (browser = await startBrowser()));
after(async () => browser.stop());

// What the browser itself says about a server that went away is no error of the page.
const own = (errors) => errors.filter((text) => !/Failed to load resource|ERR_/.test(text));

// The page is readable and no wider than the window, narrow or wide, dark or light.
async function fitsEveryWindow(tab, name) {
  for (const [width, scheme] of [
    [1280, "dark"],
    [360, "light"],
    [360, "dark"],
    [1280, "light"],
  ]) {
    await tab.setViewportSize({ width, height: 900 });
    await tab.emulateMedia({ colorScheme: scheme });
    assert.deepEqual(await axe(tab), [], `${width} ${scheme}`);
    const over = await overflow(tab);
    assert.ok(over <= 0, `${width}: wider than the window by ${over} px`);
    await shoot(tab, `${name}-${width}-${scheme}`);
  }
}

test("the verdict appears, changes, and outlives the server", async () => {
  const mock = new Mock();
  mock.change("train", healthy());
  await mock.start();
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(mock.address);
  await tab.waitForSelector("text=The job runs, nothing is stuck.");
  assert.match(await tab.evaluate(() => location.hash), /^#\/job\/train\/verdict/);
  assert.deepEqual(await axe(tab), []);
  await shoot(tab, "live-healthy");

  mock.change("train", stuck());
  await tab.waitForSelector(".cycle");
  const first = await tab.innerText(".since strong");
  await tab.waitForFunction(
    (text) => document.querySelector(".since strong").innerText !== text,
    first,
  );
  assert.match(await tab.innerText(".since strong"), /^[1-4] min \d\d s/);

  // Updates keep the scroll and the selection.
  await tab.evaluate(() => (location.hash = "#/job/train/ranks?rank=3"));
  await tab.waitForSelector(".grid-row[aria-selected=true]");
  await tab.setViewportSize({ width: 1280, height: 300 });
  await tab.evaluate(() => window.scrollTo(0, 120));
  const before = mock.documents;
  const begun = performance.now();
  for (let i = 0; i < 20; ++i) {
    mock.change("train", stuck());
    await new Promise((done) => setTimeout(done, 50));
  }
  await new Promise((done) => setTimeout(done, 700));
  const seconds = (performance.now() - begun) / 1000;
  const fetched = mock.documents - before;
  assert.ok(fetched <= 2 * seconds + 1, `${fetched} documents in ${seconds.toFixed(1)} s`);
  assert.equal(await tab.evaluate(() => window.scrollY), 120);
  assert.equal(await tab.locator(".grid-row[aria-selected=true]").count(), 1);
  await tab.setViewportSize({ width: 1280, height: 900 });

  await mock.stop();
  await tab.waitForSelector(".away");
  assert.match(await tab.innerText(".away"), /No answer since \d\d:\d\d:\d\d; trying again/);
  assert.equal(await tab.locator(".grid-row[aria-selected=true]").count(), 1);
  assert.deepEqual(await axe(tab), []);
  await shoot(tab, "live-away");
  const later = healthy();
  later.verdict.summary = "It moves again.";
  mock.change("train", later);
  const begin = performance.now();
  await mock.start();
  await tab.waitForSelector(".away", { state: "detached" });
  console.log(`recovered ${(performance.now() - begin).toFixed(0)} ms after the server came back`);
  assert.notEqual(mock.resumed.at(-1), "");
  await tab.keyboard.press("1");
  await tab.waitForSelector("text=It moves again.");
  assert.deepEqual(own(seen.errors), []);
  assert.ok(seen.requests.every((url) => url.startsWith(mock.address)));
  await tab.close();
  await mock.stop();
});

test("several jobs are listed, also with hostile names", async () => {
  const mock = new Mock();
  const name = 'a/b?<img src=x onerror=alert(1)>#"%\u202E';
  mock.change("train", healthy());
  mock.change(name, hostile({ words: false }));
  await mock.start();
  for (const [width, scheme] of [
    [1280, "light"],
    [360, "dark"],
  ]) {
    const { tab, seen } = await openTab(browser, width, scheme);
    await tab.goto(mock.address);
    await tab.waitForSelector(".jobs li:nth-child(2)");
    assert.deepEqual(await axe(tab), []);
    await shoot(tab, `live-jobs-${width}-${scheme}`);
    for (const key of ["j", "k", "j", "Enter"]) await tab.keyboard.press(key);
    await tab.waitForSelector(".cycle");
    assert.equal(await tab.locator("#app img").count(), 0);
    assert.match(await tab.innerText("h1"), /<img src=x/);
    await tab.goBack();
    await tab.waitForSelector(".jobs");
    await tab.evaluate(() => (location.hash = "#/job/nothing/verdict"));
    await tab.waitForSelector("text=The server has no job of this name.");
    assert.deepEqual(own(seen.errors), []);
    await tab.close();
  }
  await mock.stop();
});

function incident(id, more) {
  return {
    id,
    job: "train",
    session: "train",
    nodes: ["node7"],
    open: true,
    opened: "2026-11-28T01:00:00Z",
    ended: "",
    how_ended: "",
    verdict: "deadlock",
    confidence: "confirmed",
    check: "cycle",
    summary: "Ranks 2 and 3 wait for each other.",
    culprits: [{ rank: 3, pid: 4711, node: "node7" }],
    victims: "0,1",
    revisions: [{ revision: 3, time: "", confidence: "confirmed", verdict: "deadlock" }],
    acknowledgements: [],
    alerts: [{ alert: "confirmed", target: "https://hooks.slack.com", time: "", state: "sent" }],
    ...more,
  };
}

test("jobs are found, ordered and compared", async () => {
  const mock = new Mock();
  const name = "<img src=x onerror=alert(1)>\u202e";
  mock.change("train-1", stuck());
  const other = stuck();
  other.verdict.cycle[0].site = name;
  other.status.communicators[0].name = name;
  mock.change(name, other);
  for (let i = 0; i < 400; ++i) {
    const page = healthy();
    page.status.job_ended = true;
    mock.change(`old-${i}`, page);
    mock.started.set(`old-${i}`, `2026-11-${10 + (i % 10)}T01:00:00Z`);
    mock.nodes.set(`old-${i}`, [`node${i}`]);
  }
  await mock.start();
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(`${mock.address}#/`);
  await tab.waitForSelector(".jobs li");
  assert.equal(await tab.locator(".jobs li").count(), 200);
  assert.match(await tab.innerText("main"), /402 jobs[\s\S]*The first 200 of 402 are shown/);
  assert.deepEqual(await axe(tab), []);
  await tab.keyboard.press("/");
  await tab.keyboard.type("node39 ended");
  await tab.waitForSelector("text=11 of 402 jobs");
  assert.match(await tab.evaluate(() => location.hash), /#\/\?q=node39/);
  await tab.selectOption("select", "newest");
  assert.match(await tab.evaluate(() => location.hash), /sort=newest/);
  assert.match(await tab.innerText(".jobs li"), /old-39\n[\s\S]*started 2026-11-19 01:00:00 UTC/);
  await tab.reload();
  await tab.waitForSelector("text=11 of 402 jobs");
  assert.equal(await tab.inputValue("select"), "newest");
  await tab.fill("[data-filter]", "2026-11-18");
  await tab.waitForSelector("text=40 of 402 jobs");

  // Two are ticked by keys, and compared.
  await tab.fill("[data-filter]", "deadlock");
  await tab.waitForSelector("text=2 of 402 jobs");
  await tab.keyboard.press("Escape");
  for (const key of ["j", "x"]) await tab.keyboard.press(key);
  await tab.waitForSelector("text=Tick another job");
  for (const key of ["j", "x"]) await tab.keyboard.press(key);
  await shoot(tab, "live-jobs-ticked");
  await tab.click("a.button.primary");
  await tab.waitForSelector("#facts-title");
  assert.match(await tab.innerText("h1"), /Compare/);
  assert.match(await tab.innerText(".summary"), /It is another cycle\./);
  assert.equal(await tab.locator("#app img").count(), 0);
  assert.doesNotMatch(await tab.innerText("body"), /[\u202a-\u202e]/);
  await fitsEveryWindow(tab, "live-compare");
  const rows = await tab.locator("table.compare tbody tr").count();
  await tab.click("text=Only what differs");
  const left = await tab.locator("table.compare tbody tr").count();
  assert.ok(left < rows, `${left} of ${rows} rows`);
  assert.equal(await tab.locator("table.compare tbody tr:not(.differs)").count(), 0);

  // One job of the two is not there; none is named.
  await tab.evaluate(() => (location.hash = "#/compare?a=train-1&b=nothing"));
  await tab.waitForSelector("text=The server has no job nothing.");
  await tab.evaluate(() => (location.hash = "#/compare"));
  await tab.waitForSelector("text=Two jobs are to be compared");
  assert.deepEqual(await axe(tab), []);
  assert.deepEqual(own(seen.errors), []);
  await tab.close();
  await mock.stop();
});

test("incidents are listed, come by themselves, and an admin acknowledges one", async () => {
  const mock = new Mock();
  mock.change("train", stuck());
  mock.admin = "admin-1";
  await mock.start();
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(`${mock.address}#/job/train/verdict`);
  await tab.waitForSelector(".cycle");
  await tab.click(".brand");
  await tab.waitForSelector(".jobs li");
  assert.equal(await tab.locator("nav[aria-label=Lists]").count(), 0, "there is no incident");

  mock.changeIncidents([]);
  await tab.click("nav[aria-label=Lists] a[href='#/incidents']");
  await tab.waitForSelector("text=There has been no incident.");
  assert.deepEqual(await axe(tab), []);
  const name = "<img src=x onerror=alert(1)>\u202e";
  mock.changeIncidents([
    incident("aa", {
      job: name,
      session: "gone",
      open: false,
      opened: "2026-11-27T01:00:00Z",
      ended: "2026-11-27T01:12:03Z",
      how_ended: "withdrawn",
      confidence: "suspected",
      summary: name.repeat(5),
      alerts: [],
      acknowledgements: [{ time: "2026-11-27T01:10:00Z", who: name, note: name }],
    }),
    incident("5f0c27a91e44", {}),
  ]);
  await tab.waitForSelector(".incident:nth-child(2)");
  const [first, second] = await tab.locator(".incident").allInnerTexts();
  for (const text of [
    "DEADLOCK",
    "open for ",
    "2026-11-28 01:00:00 UTC",
    "rank 3 pid 4711 on node7; behind them: 0,1",
    "confirmed: sent to https://hooks.slack.com",
    "by nobody",
  ]) {
    assert.ok(first.includes(text), `${text} in ${first}`);
  }
  for (const text of ["suspected", "lasted 12 min 03 s: withdrawn", "none went out", "<img src=x"]) {
    assert.ok(second.includes(text), `${text} in ${second}`);
  }
  assert.doesNotMatch(await tab.innerText("body"), /[\u202a-\u202e]/);
  assert.equal(await tab.locator("#app img").count(), 0);
  assert.equal(await tab.locator("text=Acknowledge…").count(), 0, "a viewer only looks");
  await fitsEveryWindow(tab, "live-incidents");

  // By keys: the filter, the list, the job and back.
  await tab.keyboard.press("/");
  await tab.keyboard.type("deadlock node7 open");
  await tab.waitForSelector(".incident:nth-child(2)", { state: "detached" });
  assert.match(await tab.evaluate(() => location.hash), /#\/incidents\?q=deadlock/);
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("j");
  await tab.keyboard.press("Enter");
  await tab.waitForSelector(".cycle");
  await tab.goBack();
  await tab.waitForSelector(".incident");

  await tab.click("text=To acknowledge an incident");
  await tab.fill(".admin input", "wrong");
  await tab.click("text=Show it");
  await tab.waitForSelector("text=is no admin's of this server");
  await tab.fill(".admin input", mock.admin);
  await tab.click("text=Show it");
  await tab.click("text=Acknowledge…");
  await tab.fill(".incident input >> nth=0", "ann");
  await tab.fill(".incident input >> nth=1", "restarting <node9>");
  assert.deepEqual(await axe(tab), []);
  await tab.click(".incident button[type=submit]");
  await tab.waitForSelector("text=by ann, 2026-11-28 01:30:00 UTC: restarting <node9>");
  await shoot(tab, "live-incidents-acknowledged");
  assert.deepEqual(own(seen.errors), []);
  assert.ok(seen.requests.every((url) => url.startsWith(mock.address)));

  // A token that is an admin's no more is refused in words.
  mock.admin = "admin-2";
  await tab.click("text=Acknowledge…");
  await tab.fill(".incident input >> nth=0", "ann");
  await tab.click(".incident button[type=submit]");
  await tab.waitForSelector("text=The server answered 403: this token is no admin's");
  await tab.close();
  await mock.stop();
});

test("a token is asked for, taken from the address, and kept out of it", async () => {
  const mock = new Mock("s3cret+/=");
  mock.change("train", stuck());
  await mock.start();
  const { tab, seen } = await openTab(browser, 360, "light");
  await tab.goto(mock.address);
  await tab.waitForSelector("text=This server asks for a token");
  assert.deepEqual(await axe(tab), []);
  await shoot(tab, "live-token");
  await tab.fill("input[type=password]", "wrong");
  await tab.click("button[type=submit]");
  await tab.waitForSelector("text=did not take that token");
  await tab.fill("input[type=password]", mock.token);
  await tab.click("button[type=submit]");
  await tab.waitForSelector(".cycle");
  await tab.close();

  const other = await openTab(browser, 1280, "dark");
  await other.tab.goto(`${mock.address}#token=${encodeURIComponent(mock.token)}`);
  await other.tab.waitForSelector(".cycle");
  assert.ok(!(await other.tab.evaluate(() => location.href)).includes("s3cret"));
  assert.ok(other.seen.requests.every((url) => !url.includes("s3cret")));
  await other.tab.reload();
  await other.tab.waitForSelector(".cycle");
  assert.deepEqual([...own(seen.errors), ...own(other.seen.errors)], []);
  await other.tab.close();
  await mock.stop();
});
