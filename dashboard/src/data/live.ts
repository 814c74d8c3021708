// Follows the server: its events, and the document of the job on screen. Never gives up: while the
// server is away it keeps what it has and tries again.
import { readJob, readJobs, readPage } from "../model/read";
import type { JobRow, PageDocument } from "../model/types";
import { EventReader } from "./events";
import { authorization } from "./token";

export type Connection = "connecting" | "open" | "away" | "denied";

export interface LiveState {
  connection: Connection;
  away_since: number; // Date.now() of the last answer before it went away
  jobs: ReadonlyMap<string, JobRow>;
  has_incidents: boolean;
  may_acknowledge: boolean; // the token that this tab holds is an admin's
  incidents_at: number; // another number once incidents may have changed
  gordian_version: string;
  watched: string | null;
  page: PageDocument | null;
  page_at: number; // performance.now() when the document came
  problem: string; // why there is no document
}

const kFirstDelay = 500;
const kLongestDelay = 5000;
const kBetweenDocuments = 500;
const kBetweenVerdicts = 50; // a new verdict must not wait for the turn of the next document
const kLongestAnswer = 30000;
const kAgain = 2000; // after an answer that did not come
const kSilence = 25000; // the server sends a comment every 10 s

export class Live {
  state: LiveState = {
    connection: "connecting",
    away_since: 0,
    jobs: new Map(),
    has_incidents: false,
    may_acknowledge: false,
    incidents_at: 0,
    gordian_version: "",
    watched: null,
    page: null,
    page_at: 0,
    problem: "",
  };
  private delay = kFirstDelay;
  private lastEvent = "";
  private wake: (() => void) | null = null;
  private following: AbortController | null = null;
  private again = false; // it was ended to begin anew, not by the server
  private seen = -1; // version of the document on screen
  private revision = -1; // its verdict's
  private fetching = false;
  private fetchedAt = -Infinity;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly changed: (state: LiveState) => void) {}

  start(): void {
    void this.follow();
  }

  watch(job: string | null): void {
    if (job === this.state.watched) return;
    this.seen = -1;
    this.revision = -1;
    this.fetchedAt = -Infinity;
    this.set({ watched: job, page: null, problem: "" });
    this.refresh();
  }

  // Begins anew at once, as after a token was entered.
  retry(): void {
    this.delay = kFirstDelay;
    this.again = true;
    this.following?.abort();
    this.wake?.();
  }

  private set(part: Partial<LiveState>): void {
    this.state = { ...this.state, ...part };
    this.changed(this.state);
  }

  private sleep(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === null ? null : setTimeout(resolve, ms);
      this.wake = () => {
        if (timer !== null) clearTimeout(timer);
        resolve();
      };
    });
  }

  private async follow(): Promise<void> {
    for (;;) {
      try {
        await this.readEvents();
      } catch {
        // Whatever broke, the server is away; the state below says so.
      }
      if (this.again) {
        this.again = false;
        continue;
      }
      if (this.state.connection === "denied") {
        await this.sleep(null);
        this.again = false;
        continue;
      }
      if (this.state.connection !== "away") {
        this.set({ connection: "away", away_since: Date.now() });
      }
      await this.sleep(this.delay);
      this.delay = Math.min(kLongestDelay, this.delay * 2);
    }
  }

  private async readEvents(): Promise<void> {
    const abort = new AbortController();
    this.following = abort;
    let silence = setTimeout(() => abort.abort(), kSilence);
    try {
      const listed = await fetch("api/v1/jobs", { headers: authorization(), signal: abort.signal });
      if (this.isDenied(listed) || !listed.ok) return;
      const list: unknown = await listed.json();
      const { jobs, last_event, ...about } = readJobs(list);
      this.set({
        ...about,
        jobs: new Map(jobs.map((job) => [job.job, job])),
        incidents_at: this.state.incidents_at + 1,
      });
      if (last_event !== "") this.lastEvent = last_event;
      const headers: Record<string, string> = { ...authorization(), Accept: "text/event-stream" };
      if (this.lastEvent !== "") headers["Last-Event-ID"] = this.lastEvent;
      const response = await fetch("api/v1/events", { headers, signal: abort.signal });
      if (this.isDenied(response) || !response.ok || response.body === null) return;
      this.delay = kFirstDelay;
      this.set({ connection: "open" });
      this.refresh();
      const reader = new EventReader();
      const decoder = new TextDecoder();
      const body = response.body.getReader();
      for (;;) {
        const { done, value } = await body.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), kSilence);
        const events = reader.push(decoder.decode(value, { stream: true }));
        if (events.length === 0) continue;
        const changed = new Map(this.state.jobs);
        for (const event of events) {
          if (event.id !== "") this.lastEvent = event.id;
          if (event.event === "incidents") {
            this.set({ has_incidents: true, incidents_at: this.state.incidents_at + 1 });
          }
          if (event.event !== "job") continue;
          const job = readJob(JSON.parse(event.data));
          if (job !== null) changed.set(job.job, job);
        }
        this.set({ jobs: changed });
        this.refresh();
      }
    } finally {
      clearTimeout(silence);
      abort.abort();
    }
  }

  private isDenied(response: Response): boolean {
    if (response.status !== 401) return false;
    this.set({ connection: "denied" });
    return true;
  }

  // Fetches the watched document if the server has another version: at most twice a second, but at
  // once where the verdict is another.
  private refresh(): void {
    const job = this.state.watched;
    if (job === null || this.fetching) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    const row = this.state.jobs.get(job);
    const version = row?.version ?? -1;
    if (this.state.page !== null && version === this.seen) return;
    const urgent = row !== undefined && row.revision !== this.revision;
    const between = urgent ? kBetweenVerdicts : kBetweenDocuments;
    const wait = this.fetchedAt + between - performance.now();
    if (wait > 0) {
      this.timer = setTimeout(() => {
        this.timer = null;
        this.refresh();
      }, wait);
      return;
    }
    void this.fetchDocument(job, version, row?.revision ?? -1);
  }

  private async fetchDocument(job: string, version: number, revision: number): Promise<void> {
    this.fetching = true;
    this.fetchedAt = performance.now();
    let came = false;
    try {
      const address = `api/v1/jobs/${encodeURIComponent(job)}`;
      const signal = AbortSignal.timeout(kLongestAnswer);
      const response = await fetch(address, { headers: authorization(), signal });
      if (this.state.watched === job && !this.isDenied(response)) {
        if (response.ok) {
          const page = readPage(await response.json());
          this.seen = version;
          this.revision = revision;
          this.set({ page, page_at: performance.now(), problem: "" });
          came = true;
        } else if (response.status === 404) {
          this.set({ problem: "The server has no job of this name." });
        }
      }
    } catch (error) {
      if (error instanceof Error && !(error instanceof TypeError)) {
        this.set({ problem: error.message });
      }
    } finally {
      this.fetching = false;
    }
    if (came || this.state.watched !== job) {
      this.refresh();
    } else if (this.state.connection === "open") {
      this.timer = setTimeout(() => {
        this.timer = null;
        this.refresh();
      }, kAgain);
    }
  }
}
