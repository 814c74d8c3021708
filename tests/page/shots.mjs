// Makes docs/images/page-*.png again: the page of examples/01-hybrid-training, hanging, and the page
// of a server with two runs of it.
//
//   node shots.mjs BUILD
//
// The example is built in /tmp/train, so that the pictures name no folder of the one who makes them.
// Wants pngquant (Debian: pngquant).
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build, Workplace } from "./real_jobs.mjs";

process.env.DASHBOARD_MODULES = join(build, "dashboard", "work", "node_modules");
const { openTab, startBrowser } = await import("../../dashboard/test/lib/browser.mjs");

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const emulator = join(build, "lib", "emulator");
const folder = "/tmp/train";

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
copyFileSync(join(root, "examples/01-hybrid-training/train.cc"), join(folder, "train.cc"));
const libraries = ["libnccl.so.2", "libcudart.so.13"].map((name) => join(emulator, name));
const headers = ["-isystem", "/usr/local/cuda/include", "-DNCCL_OS_LINUX"];
const link = [...libraries, `-Wl,-rpath-link,${emulator}`];
execFileSync("c++", ["-std=c++20", "-O1", "-g", ...headers, `${folder}/train.cc`, ...link, "-o", `${folder}/train`]);

const place = new Workplace(folder);
const browser = await startBrowser();
try {
  const job = ["./train", "--steps", "8", "--overlap-from", "4"];
  const { address } = await place.runWithPage(job, { session: "training" });
  const { tab } = await openTab(browser, 1280, "light");
  await tab.goto(address);
  await tab.waitForSelector(".cycle", { timeout: 30000 });
  const keep = async (name) => {
    await tab.mouse.move(0, 0);
    await tab.waitForTimeout(300);
    const path = join(root, "docs", "images", `page-${name}.png`);
    await tab.screenshot({ path });
    execFileSync("pngquant", ["--force", "--skip-if-larger", "--strip", "--output", path, "64", path]);
    console.log(`${path}: ${statSync(path).size} bytes`);
  };
  const shoot = async (view, height, act = async () => {}) => {
    await tab.setViewportSize({ width: 1280, height });
    await tab.keyboard.press(`${["verdict", "ranks", "graph", "timeline", "diff"].indexOf(view) + 1}`);
    await tab.waitForSelector(`nav a[aria-current=page][href*="/${view}"]`);
    await act();
    await keep(view);
  };
  mkdirSync(join(root, "docs", "images"), { recursive: true });
  await shoot("verdict", 860);
  await shoot("ranks", 560);
  await shoot("graph", 900, async () => {
    await tab.locator(".edge.in-cycle text").first().click();
    await tab.waitForSelector("#graph-detail");
  });
  await shoot("timeline", 760);
  await shoot("diff", 620);

  const serve = place.start(["serve", "--listen", "127.0.0.1:0", "--sessions", "all", "--http", "127.0.0.1:0", "--json"]);
  const listening = await serve.said(/"listening":"([^"]+)"/);
  const page = await serve.said(/"page":"([^"]+)"/);
  for (const [name, from] of [
    ["tuesday", "4"],
    ["wednesday", "6"],
  ]) {
    const options = ["--quiet", "--analyzer", listening, "--job", name, "--session", `node-${name}`];
    place.run(options, ["./train", "--steps", "8", "--overlap-from", from]);
    await place.verdict(`all/${name}`, "deadlock");
  }
  const token = place.start(["token", "all", "--role", "admin"]);
  await token.gone();
  await tab.goto(`${page}#/incidents?token=${token.output.trim()}`);
  await tab.waitForSelector(".incident:nth-child(2)", { timeout: 30000 });
  await tab.locator("text=Acknowledge…").last().click();
  await tab.fill(".incident input >> nth=0", "ann");
  await tab.fill(".incident input >> nth=1", "restarting without the overlap");
  await tab.click(".incident button[type=submit]");
  await tab.waitForSelector("text=by ann, ");
  await tab.setViewportSize({ width: 1280, height: 720 });
  await tab.evaluate(() => window.scrollTo(0, 0));
  await keep("incidents");
  await tab.goto(`${page}#/compare?a=tuesday&b=wednesday`);
  await tab.waitForSelector("#facts-title");
  await tab.setViewportSize({ width: 1280, height: 900 });
  await keep("compare");
} finally {
  await browser.stop();
  await place.end();
}
