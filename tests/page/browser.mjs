// The page in a real browser, on real jobs of the emulator that hang.
//
//   node [--test-name-pattern=WORDS] browser.mjs BUILD
//
// On failure it keeps a picture and the text of every open tab below BUILD/tests/page/evidence.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";

import { build, eventually, hang, ownPort, Workplace } from "./real_jobs.mjs";

process.env.DASHBOARD_MODULES = join(build, "dashboard", "work", "node_modules");
const { axe, openTab, overflow, startBrowser } = await import("../../dashboard/test/lib/browser.mjs");

const kViews = ["verdict", "ranks", "graph", "timeline", "diff", "stacks", "communicators", "health"];
const kWait = { timeout: 60000 };

let browser;
before(async () => (browser = await startBrowser()));
after(async () => browser?.stop());

// What the browser itself says about a server that went away or wants a token is no error of the page.
const own = (errors) => errors.filter((text) => !/Failed to load resource|ERR_/.test(text));

const evidenceOf = (name) => join(build, "tests", "page", "evidence", name.replace(/\W+/g, "-"));

async function keepEvidence(name, place) {
  const folder = evidenceOf(name);
  mkdirSync(folder, { recursive: true });
  const tabs = browser.context.pages().filter((tab) => tab.url() !== "about:blank");
  for (const [i, tab] of tabs.entries()) {
    const text = await tab.innerText("body", { timeout: 5000 }).catch(String);
    writeFileSync(join(folder, `tab${i}.txt`), `${tab.url()}\n\n${text}\n`);
    await tab.screenshot({ path: join(folder, `tab${i}.png`), fullPage: true, timeout: 5000 }).catch(() => {});
  }
  place.started.forEach((one, i) => writeFileSync(join(folder, `gordian${i}.txt`), one.output));
  const copied = (path) => statSync(path).isFile() || statSync(path).isDirectory(); // no sockets
  cpSync(place.folder, join(folder, "place"), { recursive: true, filter: copied });
  console.log(`kept in ${folder}; to repeat:`);
  console.log(`  node --test-name-pattern='^${name}$' ${process.argv[1]} ${build}`);
}

// A test with a place of its own, of which nothing is left.
function scene(name, act) {
  test(name, { timeout: 240000 }, async () => {
    rmSync(evidenceOf(name), { recursive: true, force: true });
    const place = new Workplace();
    try {
      await act(place);
    } catch (error) {
      await keepEvidence(name, place);
      throw error;
    } finally {
      for (const tab of browser.context.pages().slice(1)) await tab.close();
      await place.end();
    }
  });
}

async function visit(tab, job, view) {
  await tab.evaluate((hash) => (location.hash = hash), `#/job/${job}/${view}`);
  await tab.waitForSelector(`nav a[aria-current=page][href*="/${view}"]`);
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

// The cycle as the page shows it and as verdict.json has it: who, in what, where, and for whom.
const shownCycle = (tab) =>
  tab.evaluate(() =>
    [...document.querySelectorAll(".cycle-row")].map((row) => ({
      rank: row.querySelector(".rank-badge").innerText,
      operation: row.querySelector("strong.mono").innerText,
      site: row.querySelector(".site").innerText,
      waits_for: row.querySelector(".waits strong").innerText,
    })),
  );
const knownCycle = (verdict) =>
  verdict.cycle.map((edge) => ({
    rank: `rank ${edge.rank}`,
    operation: `${edge.op} #${edge.seq} on ${edge.comm_name}`,
    site: edge.site,
    waits_for: `rank ${edge.waits_for_rank}`,
  }));

// The ranks of a list such as "0-2,7".
const ranksOf = (text) =>
  text.split(",").flatMap((range) => {
    const [from, to = from] = range.split("-").map(Number);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });

scene("a hung job from its verdict to its end and to its report", async (place) => {
  const { run, address } = await place.runWithPage(hang);
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector(".cycle", kWait);
  const { verdict } = await place.verdict("s", "deadlock");
  assert.equal(await tab.innerText(".summary"), verdict.summary);
  assert.match(await tab.innerText("#verdict-title"), /DEADLOCK\s+confirmed after/);
  assert.deepEqual(await shownCycle(tab), knownCycle(verdict));
  const who = await tab.innerText(".who");
  for (const { rank, pid } of verdict.culprit_processes) assert.match(who, new RegExp(`rank ${rank} pid ${pid} `));

  // Each arrow of the cycle leads to the lines of both calls.
  await visit(tab, "s", "graph");
  assert.equal(await tab.locator(".edge.in-cycle").count(), verdict.cycle.length);
  for (const [i, edge] of verdict.cycle.entries()) {
    await tab.locator(".edge.in-cycle text").nth(i).click();
    await tab.waitForSelector(`text=rank ${edge.rank} waits for rank ${edge.waits_for_rank}`);
    const lines = await tab.locator("#graph-detail .line.here").allInnerTexts();
    assert.equal(lines.length, 2, "the source lines of both ranks");
    for (const line of lines) assert.match(line, /ncclAllReduce/);
  }

  for (const [width, scheme, views] of [
    [1280, "light", kViews],
    [1280, "dark", kViews],
    [360, "light", ["verdict"]],
    [360, "dark", ["verdict"]],
  ]) {
    const height = width < 600 ? 760 : 900;
    await tab.setViewportSize({ width, height });
    await tab.emulateMedia({ colorScheme: scheme });
    for (const view of views) {
      await visit(tab, "s", view);
      const where = `${view}, ${width} px, ${scheme}`;
      assert.deepEqual(await axe(tab), [], where);
      const over = await overflow(tab);
      assert.ok(over <= 0, `${where}: wider than the window by ${over} px`);
      assert.deepEqual(seen.errors, [], where);
    }
  }
  await visit(tab, "s", "timeline");
  // The history is that of the verdict, which does not wait for the calls of ranks beside its cycle.
  const timeline = await tab.innerText("main");
  const callers = /AllReduce #\d+ on tp called by ranks? ([\d,-]+)/.exec(timeline)?.[1];
  assert.ok(callers !== undefined, `nobody called tp: ${timeline}`);
  const named = ranksOf(callers);
  for (const rank of named) assert.ok(rank <= 3, `tp was called by ranks ${callers}`);
  for (const edge of verdict.cycle.filter((one) => one.comm_name === "tp")) {
    assert.ok(named.includes(edge.rank), `tp was called by ranks ${callers}, not by rank ${edge.rank}`);
  }

  run.endJob();
  await tab.waitForSelector("text=job ended", kWait);
  await visit(tab, "s", "verdict");
  assert.deepEqual(await shownCycle(tab), knownCycle(verdict));
  assert.deepEqual(own(seen.errors), []);
  assert.ok(seen.requests.every((url) => url.startsWith(address)));
  await run.gone();

  const report = pathToFileURL(place.path("s/report.html")).href;
  const disk = await openTab(browser, 1280, "light");
  await disk.tab.goto(report);
  await disk.tab.waitForSelector(".cycle");
  assert.deepEqual(await shownCycle(disk.tab), knownCycle(verdict));
  for (const view of kViews) await visit(disk.tab, "s", view);
  assert.deepEqual(disk.seen, { errors: [], requests: [report] });
});

// How soon, bench/page/delay.mjs measures.
scene("a verdict comes on the screen of a page that is open", async (place) => {
  const env = { JOB_UNTIL: place.path("go") };
  const { address } = await place.runWithPage(hang, { env });
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector("text=NOTHING IS STUCK", kWait);
  await tab.evaluate(() => (window.notReloaded = true));
  writeFileSync(env.JOB_UNTIL, "");
  await tab.waitForSelector(".cycle", kWait);
  await eventually("the page shows the cycle of verdict.json", async () => {
    const { verdict } = await place.verdict("s", "deadlock");
    return isDeepStrictEqual(await shownCycle(tab), knownCycle(verdict));
  });
  assert.equal(await tab.evaluate(() => window.notReloaded), true);
  assert.deepEqual(seen.errors, []);
});

scene("the page outlives a server that is killed and started again", async (place) => {
  const serve = (listen, http) =>
    place.start(["serve", "--listen", listen, "--sessions", "all", "--http", http, "--json"]);
  const first = serve(`127.0.0.1:${await ownPort(20000)}`, `127.0.0.1:${await ownPort(25000)}`);
  const listening = await first.said(/"listening":"([^"]+)"/);
  const address = await first.said(/"page":"([^"]+)"/);
  const node = place.run(["--quiet", "--analyzer", listening, "--job", "train", "--session", "node"], hang);
  const { tab, seen } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector(".cycle", kWait);
  const before = { summary: await tab.innerText(".summary"), cycle: await shownCycle(tab) };
  await tab.evaluate(() => (window.notReloaded = true));

  await first.die();
  await tab.waitForSelector("text=No answer since", kWait);
  assert.equal(await tab.innerText(".summary"), before.summary);
  const second = serve(listening, new URL(address).host);
  assert.equal(await second.said(/"page":"([^"]+)"/), address);
  await tab.waitForSelector(".away", { state: "detached", ...kWait });
  const { cycle, summary } = before;
  await eventually("the same verdict again", async () => (await tab.innerText(".summary")) === summary);
  assert.deepEqual(await shownCycle(tab), cycle);

  // What happens now comes from the second server.
  node.endJob();
  await tab.waitForSelector("text=job ended", kWait);
  assert.deepEqual(await shownCycle(tab), cycle);
  assert.equal(await tab.evaluate(() => window.notReloaded), true);
  assert.deepEqual(own(seen.errors), []);
});

// What a window of each width and scheme shows must be readable, and not wider than the window.
async function fits({ tab, seen }, where) {
  for (const [width, scheme] of [
    [1280, "light"],
    [1280, "dark"],
    [360, "light"],
    [360, "dark"],
  ]) {
    await tab.setViewportSize({ width, height: width < 600 ? 760 : 900 });
    await tab.emulateMedia({ colorScheme: scheme });
    assert.deepEqual(await axe(tab), [], `${where}, ${width} px, ${scheme}`);
    const over = await overflow(tab);
    assert.ok(over <= 0, `${where}, ${width} px: wider than the window by ${over} px`);
  }
  await tab.setViewportSize({ width: 1280, height: 900 });
  assert.deepEqual(own(seen.errors), [], where);
}

scene("several jobs: their incidents, two side by side, and what another order would do", async (place) => {
  const words = ["--listen", "127.0.0.1:0", "--sessions", "all", "--http", "127.0.0.1:0", "--json"];
  const serve = place.start(["serve", ...words]);
  const listening = await serve.said(/"listening":"([^"]+)"/);
  const address = await serve.said(/"page":"([^"]+)"/);
  const start = (job, command) =>
    place.run(["--quiet", "--analyzer", listening, "--job", job, "--session", `node-${job}`], command);
  const opened = await openTab(browser, 1280, "light");
  const { tab, seen } = opened;
  await tab.goto(`${address}#/incidents`);
  await tab.waitForSelector("text=There has been no incident.", kWait);
  await fits(opened, "no incident");
  const hung = ["first", "second"].map((job) => start(job, hang));
  for (const job of ["first", "second"]) await place.verdict(`all/${job}`, "deadlock");
  await tab.waitForSelector(".incident:nth-child(2)", kWait);
  await fits(opened, "incidents");

  // On loopback, too, only an admin acknowledges.
  const token = place.start(["token", "all", "--role", "admin"]);
  await token.gone();
  await tab.click("text=To acknowledge an incident");
  await tab.fill(".admin input", token.output.trim());
  await tab.click("text=Show it");
  await tab.locator("text=Acknowledge…").first().click();
  await tab.fill(".incident input >> nth=0", "ann");
  await tab.click(".incident button[type=submit]");
  await tab.waitForSelector("text=by ann, ", kWait);

  await tab.click("nav[aria-label=Lists] a[href='#/']");
  await tab.waitForSelector(".jobs li:nth-child(2)", kWait);
  await fits(opened, "jobs");
  for (const job of ["first", "second"]) await tab.check(`input[aria-label="Compare ${job}"]`);
  await tab.click("text=Compare first with second");
  await tab.waitForSelector("#facts-title", kWait);
  assert.match(await tab.innerText(".summary"), /^It is the same cycle: the check communicator-order-cycle, /);
  await fits(opened, "comparison");
  for (const one of hung) one.endJob();

  const near = start("near", [hang[0], "near_miss", "--ranks", "2"]);
  await near.gone();
  await place.verdict("all/near", "finished");
  const shown = async () => {
    await tab.evaluate(() => (location.hash = "#/"));
    await tab.evaluate(() => (location.hash = "#/job/near/verdict"));
    await tab.waitForSelector("#verdict-title", kWait);
    return (await tab.locator("#predictions-title").count()) > 0;
  };
  await eventually("the page says what could have hung", shown);
  assert.match(await tab.innerText("section:has(#predictions-title)"), /predicted Rank \d waits for rank \d/);
  await fits(opened, "predictions");
  assert.ok(seen.requests.every((url) => url.startsWith(address)));
});

scene("beyond loopback the page asks for the token and keeps it to itself", async (place) => {
  const { address } = await place.runWithPage(hang, { http: "0.0.0.0:0" });
  const { port, hash } = new URL(address);
  const here = `http://127.0.0.1:${port}/`;
  const token = decodeURIComponent(hash.replace("#token=", ""));
  const asked = await openTab(browser, 1280, "light");
  await asked.tab.goto(here);
  await asked.tab.waitForSelector("text=This server asks for a token");
  assert.deepEqual(await axe(asked.tab), []);
  await asked.tab.fill("input[type=password]", token.replace(/./g, "x"));
  await asked.tab.click("button[type=submit]");
  await asked.tab.waitForSelector("text=The server did not take that token.");
  const printed = place.start(["token", "s"]);
  await printed.gone();
  await asked.tab.fill("input[type=password]", printed.output.trim());
  await asked.tab.click("button[type=submit]");
  await asked.tab.waitForSelector(".cycle", kWait);

  const given = await openTab(browser, 1280, "light");
  await given.tab.goto(here + hash);
  await given.tab.waitForSelector(".cycle", kWait);
  const location = await given.tab.evaluate(() => window.location.href);
  assert.ok(!location.includes(token), `the address bar still has the token: ${location}`);
  await given.tab.reload();
  await given.tab.waitForSelector(".cycle", kWait);
  for (const { seen } of [asked, given]) {
    assert.deepEqual(own(seen.errors), []);
    assert.ok(seen.requests.every((url) => !url.includes(token)), "a request had the token in its address");
  }
});
