// Starts gordian and jobs of the emulator for browser tests, and ends whatever it started.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export const build = resolve(process.argv[2] ?? "build/release");
export const gordian = join(build, "bin", "gordian");
export const hang = [join(build, "tests", "gordian_e2e_job"), "steady_then_inversion", "--ranks", "4"];

// What `made` gives as soon as it gives anything; an error says what was expected.
export async function eventually(what, made, seconds = 60) {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const value = await made();
    if (value) return value;
    if (performance.now() > deadline) {
      throw new Error(`expected within ${seconds} s: ${typeof what === "function" ? what() : what}`);
    }
    await sleep(5);
  }
}

// A free one of 5,000 ports, to listen on more than once: `from` is below those that systems give to whoever asks for
// any, so that nobody gets it in between.
export async function ownPort(from) {
  for (;;) {
    const port = from + Math.floor(Math.random() * 5000);
    const server = createServer();
    const free = await new Promise((done) => {
      server.once("error", () => done(false));
      server.listen(port, "127.0.0.1", () => server.close(() => done(true)));
    });
    if (free) return port;
  }
}

function environment(more) {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(GORDIAN|NCCL|CUDA|LD)_/.test(name));
  return { ...Object.fromEntries(inherited), ...more };
}

// The processes below `pid`, but for gordian's helper, which cleans up behind the others and ends.
function jobBelow(pid) {
  const children = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, comm, state, parent] = /^\d+ \((.*)\) (\S) (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, "utf8"));
      if (state === "Z" || comm === "gordian-guard") continue;
      children.set(Number(parent), [...(children.get(Number(parent)) ?? []), Number(name)]);
    } catch {
      // It has ended.
    }
  }
  const below = (of) => (children.get(of) ?? []).flatMap((child) => [child, ...below(child)]);
  return below(pid);
}

function kill(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

// One gordian, and what it has printed.
class Gordian {
  constructor(folder, words, env) {
    this.output = "";
    this.process = spawn(gordian, words, { cwd: folder, env: environment(env), stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (this.output += text));
    }
    this.over = false;
    this.process.on("close", () => (this.over = true));
    this.process.on("error", (error) => {
      this.output += error;
      this.over = true;
    });
  }

  async gone() {
    await eventually(() => `gordian ends; it printed: ${this.output}`, () => this.over);
  }

  // The group that a line of the output matches.
  async said(pattern) {
    const found = await eventually(() => `gordian prints ${pattern}, not only: ${this.output}`, () => {
      const match = pattern.exec(this.output);
      if (!match && this.over) throw new Error(`gordian ended before it printed ${pattern}: ${this.output}`);
      return match;
    });
    return found[1];
  }

  endJob() {
    jobBelow(this.process.pid).forEach(kill);
  }

  // Only gordian itself, as a machine's crash would.
  async die() {
    kill(this.process.pid);
    await this.gone();
  }

  async end() {
    this.endJob();
    await this.die();
  }
}

// A folder with the gordians started in it; `end` leaves nothing of them.
export class Workplace {
  constructor(folder = mkdtempSync(join(tmpdir(), "gordian-browser-"))) {
    this.folder = folder;
    this.started = [];
  }

  path(name) {
    return join(this.folder, name);
  }

  start(words, env = {}) {
    const made = new Gordian(this.folder, words, env);
    this.started.push(made);
    return made;
  }

  run(options, job, env = {}) {
    return this.start(["run", "--emulator", ...options, "--", ...job], { JOB_STEP_US: "5000", ...env });
  }

  // A `gordian run --http`, and the page's address.
  async runWithPage(job, { session = "s", http = "127.0.0.1:0", env = {} } = {}) {
    const run = this.run(["--session", session, "--http", http], job, env);
    return { run, address: await run.said(/gordian: page: (http\S+)/) };
  }

  // The verdict.json that first says so, and when it was written.
  async verdict(session, wanted) {
    const path = this.path(`${session}/verdict.json`);
    return eventually(`${path} says "${wanted}"`, () => {
      try {
        const { mtimeMs } = statSync(path);
        const verdict = JSON.parse(readFileSync(path, "utf8"));
        return verdict.verdict === wanted ? { verdict, mtimeMs } : null;
      } catch {
        return null;
      }
    });
  }

  async end() {
    await Promise.all(this.started.map((one) => one.end()));
    // gordian's helper may still be at work in it.
    await eventually(`nobody writes in ${this.folder}`, () => {
      try {
        rmSync(this.folder, { recursive: true, force: true });
        return true;
      } catch {
        return false;
      }
    });
  }
}
