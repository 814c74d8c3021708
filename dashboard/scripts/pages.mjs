// Makes the deliverables out of the bundle: the live page in three files, and the report's template
// in one. The template allows its own script and style by their hashes, and nothing else.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bundle = join(root, "node_modules", ".gordian-bundle");
const out = resolve(process.env.DASHBOARD_OUT || join(root, "dist"));
const kMostBytes = 100 * 1024;

// Inside an element, only "</script" and "<!--" could end or change a script; in a string, a
// template or a regular expression, the escaped form means the same.
const script = readFileSync(join(bundle, "app.js"), "utf8")
  .replace(/<\/(script)/gi, (_, word) => `<\\/${word}`)
  .replace(/<!--/g, () => "<\\!--");
const style = readFileSync(join(bundle, "app.css"), "utf8");
if (/<\/style/i.test(style)) throw new Error("the style sheet would end its own element");

const sha256 = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${sha256(script)}`,
  `style-src ${sha256(style)}`,
  "img-src data:",
].join("; ");

const head = (title, rest) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
${rest}<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${title}</title>
`;

const report = [
  head("<!--GORDIAN-TITLE-->", `<meta http-equiv="Content-Security-Policy" content="${policy}">\n`),
  `<style>${style}</style>\n</head>\n<body>\n<div id="app"></div>\n`,
  `<noscript><pre><!--GORDIAN-TEXT--></pre></noscript>\n`,
  `<script type="text/plain" id="gordian-data"><!--GORDIAN-DATA--></script>\n`,
  `<script type="module">${script}</script>\n</body>\n</html>\n`,
].join("");

const page = [
  head("gordian", ""),
  `<link rel="stylesheet" href="app.css">\n</head>\n<body>\n<div id="app"></div>\n`,
  "<noscript>This page needs JavaScript. In a terminal, `gordian status` shows the same.",
  `</noscript>\n<script type="module" src="app.js"></script>\n</body>\n</html>\n`,
].join("");

const files = { "index.html": page, "app.js": script, "app.css": style, "report.html": report };
mkdirSync(out, { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(join(out, name), text);

for (const placeholder of ["TITLE", "TEXT", "DATA"]) {
  if (report.split(`<!--GORDIAN-${placeholder}-->`).length !== 2) {
    throw new Error(`report.html must have GORDIAN-${placeholder} exactly once`);
  }
}
const packed = gzipSync(script).length + gzipSync(style).length;
console.log(`app.js ${script.length}, app.css ${style.length} bytes; ${packed} packed`);
if (packed > kMostBytes) throw new Error(`app.js and app.css exceed ${kMostBytes} bytes packed`);
