// Starts Chromium for the tests, and watches a page for errors and requests.
import { createRequire } from "node:module";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { report, root } from "./documents.mjs";

const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
if (!existsSync(executablePath)) {
  console.log(`skipped: ${executablePath} is not installed (Debian: chromium)`);
  process.exit(77);
}
// DASHBOARD_MODULES: the node_modules of a build folder, instead of the ones beside the sources.
const modules = process.env.DASHBOARD_MODULES;
const require = createRequire(modules ? join(modules, "/") : import.meta.url);
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export async function startBrowser() {
  const folder = mkdtempSync(join(tmpdir(), "gordian-page-"));
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath,
    headless: true,
    bypassCSP: false,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  return {
    context,
    folder,
    async stop() {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

// Writes the report of a document to disk; returns its address and size.
export function writeReport(browser, name, page) {
  const text = report(page);
  const path = join(browser.folder, `${name}.html`);
  writeFileSync(path, text);
  return { address: pathToFileURL(path).href, bytes: Buffer.byteLength(text) };
}

// A tab whose console errors, dialogs and requests are kept.
export async function openTab(browser, width, scheme) {
  const tab = await browser.context.newPage();
  tab.setDefaultTimeout(10000);
  await tab.setViewportSize({ width, height: width < 600 ? 760 : 900 });
  await tab.emulateMedia({ colorScheme: scheme });
  const seen = { errors: [], requests: [] };
  tab.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      seen.errors.push(message.text());
  });
  tab.on("pageerror", (error) => seen.errors.push(String(error)));
  tab.on("dialog", (dialog) => {
    seen.errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  tab.on("request", (request) => {
    if (!request.url().startsWith("data:")) seen.requests.push(request.url());
  });
  return { tab, seen };
}

// Runs axe in a world of its own, which the page's policy does not bind.
export async function axe(tab) {
  const session = await tab.context().newCDPSession(tab);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id,
    worldName: "axe",
  });
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
      expression,
      contextId: executionContextId,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return result.value;
  };
  await evaluate(`${axeSource};0`);
  const violations = await evaluate(
    `axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations.map(
      (v) => v.id + ": " + v.help + " at " + v.nodes.slice(0, 3).map(
        (n) => n.target.join(" ") + " {" + (n.any[0]?.message ?? "") + "}").join(", ")))`,
  );
  await session.detach();
  return violations;
}

// By how many pixels the page is wider than the window.
export async function overflow(tab) {
  return tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}

// Keeps a picture, if GORDIAN_SHOTS is set.
export async function shoot(tab, name) {
  if (!process.env.GORDIAN_SHOTS) return;
  const folder = join(root, "test", "out");
  mkdirSync(folder, { recursive: true });
  await tab.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
