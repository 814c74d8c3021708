"""The live page's server and report.html, of jobs of the emulator: what comes over HTTP, when, and for whom.

  page.py BUILD [Class.test]
"""
import base64
import gzip
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
from cli_testing import (EMULATOR, JOB, CliTest, clean_environment, job_below, main, schemas, wait_until)  # noqa: E402

HANG = [JOB, "steady_then_inversion", "--ranks", "4"]


def get(address, path, token=None, headers=()):
    request = urllib.request.Request(address + path, headers=dict(headers))
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
            schemas.check(text)
            return answer.status, text
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def read(path):
    with open(path) as f:
        return f.read()


def document_of(report):
    """The document in a report.html."""
    data = re.search(r'<script type="text/plain" id="gordian-data">([^<]*)</script>', report).group(1)
    text = gzip.decompress(base64.b64decode(data)).decode()
    schemas.check(text)
    return json.loads(text)


class Events:
    """Server-sent events about jobs, as they come: (id, data)."""

    def __init__(self, address, last=None):
        headers = {"Last-Event-ID": last} if last else {}
        self.answer = urllib.request.urlopen(urllib.request.Request(address + "api/v1/events", headers=headers),
                                             timeout=60)

    def next(self):
        event = {}
        while True:
            line = self.answer.readline().decode()
            if not line:
                return None
            if line.startswith(":"):
                return "", {"job": "", "verdict": "", "confidence": ""}
            line = line.rstrip("\n")
            if not line and event:
                if event["event"] == "job":
                    return event["id"], json.loads(event["data"])
                event = {}
            if line:
                key, _, value = line.partition(": ")
                event[key] = value

    def until(self, wanted, seconds=60):
        """The first event of such a job; None: the server has ended. Heartbeats come while it lives."""
        deadline = time.monotonic() + seconds
        seen = []
        while True:
            event = self.next()
            if event is None or wanted(event[1]):
                return event
            seen.append((event[1]["job"], event[1]["verdict"], event[1]["confidence"]))
            if time.monotonic() > deadline:
                raise AssertionError(f"no such event in {seconds} s, but {seen}")


class PageTest(CliTest):
    def setUp(self):
        super().setUp()
        for path in (JOB, os.path.join(EMULATOR, "libnccl.so.2")):
            self.need(path)

    def start_run(self, *job, options=(), until=None, http="127.0.0.1:0", session="s"):
        """A `gordian run --http`, and the page's address."""
        env = clean_environment(JOB_STEP_US="5000", **({"JOB_UNTIL": self.path(until)} if until else {}))
        run = self.start("run", "--emulator", "--session", session, "--http", http, *options, "--", *job, env=env,
                         stdout=subprocess.DEVNULL)
        line = run.stderr.readline()
        self.assertRegex(line, "gordian: page: http://")
        return run, line.split(": ")[2].strip()


class Run(PageTest):
    def test_a_verdict_reaches_the_page_while_the_job_hangs(self):
        run, address = self.start_run(*HANG, "--twin", until="go")
        events = Events(address)
        self.assertEqual(events.until(lambda job: job["verdict"] == "healthy")[1]["job"], "s")
        self.write("go", "")
        self.assertEqual(run.wait(60), 0)
        # The last state still comes; then the server is gone.
        last = events.until(lambda job: job["verdict"] == "finished")
        self.assertIsNotNone(last, "the end of the job never came")

    def test_the_document_holds_the_circle_its_lines_and_what_came_before(self):
        run, address = self.start_run(*HANG)
        events = Events(address)
        event = events.until(lambda job: job["verdict"] == "deadlock" and job["confidence"] == "confirmed")
        status, jobs = get(address, "api/v1/jobs")
        self.assertEqual((status, [j["job"] for j in json.loads(jobs)["jobs"]]), (200, ["s"]))
        status, text = get(address, "api/v1/jobs/s")
        self.assertEqual(status, 200)
        page = json.loads(text)
        self.assertEqual((page["schema"], page["live"]), ("gordian.page.v1", True))
        circle = page["verdict"]["cycle"]
        self.assertLessEqual(set(page["verdict"]["culprit_ranks"]), {edge["rank"] for edge in circle})
        self.assertEqual({rank["state"] for rank in page["status"]["ranks"]}, {"in_call"})
        self.assertTrue(page["text"].startswith("gordian: DEADLOCK (confirmed"), page["text"])
        sources = {source["site"]: source for source in page["sources"]}
        for edge in circle:
            source = sources[edge["site"]]
            self.assertIn("ncclAllReduce", source["lines"][source["line"] - source["first_line"]])
        unfinished = [op for stream in page["history"]["streams"] for op in stream["operations"]
                      if op["progress"] in ("called", "started")]
        self.assertEqual({(op["op"], op["comm_name"]) for op in unfinished}, {("AllReduce", "dp"), ("AllReduce", "tp")})
        # A viewer that returns is not told again what it knows.
        again = Events(address, last=event[0])
        again.answer.fp.raw._sock.settimeout(1.5)
        try:
            later = again.next()
        except (TimeoutError, socket.timeout):
            later = None
        self.assertTrue(later is None or later[0] != event[0], later)

        # The report on disk has the state in which the job hung, also once it has ended.
        self.end_job(run)
        report = document_of(read(self.path("s/report.html")))
        self.assertFalse(report["live"])
        self.assertEqual(report["verdict"]["cycle"], circle)
        self.assertEqual({rank["state"] for rank in report["status"]["ranks"]}, {"in_call"})
        self.assertIsNotNone(report["history"])
        self.assertRaises(urllib.error.URLError, get, address, "healthz")

    def test_the_page_says_what_verdict_json_says(self):
        """How soon, bench/page/delay.mjs measures."""
        run, address = self.start_run(*HANG, "--twin", until="go")
        events = Events(address)
        events.until(lambda job: job["verdict"] == "healthy")
        killed = max(job_below(run.pid))
        os.kill(killed, signal.SIGKILL)

        def is_last(job):
            """By the time an event comes, verdict.json may hold a later verdict, of which another event tells."""
            main = json.loads(read(self.path("s/verdict.json")))
            return job["verdict"] != "healthy" and all(job.get(key) == main[key]
                                                       for key in ("verdict", "confidence", "check", "summary"))

        self.assertIsNotNone(events.until(is_last), "the server has ended")
        culprits = json.loads(read(self.path("s/verdict.json")))["culprit_processes"]
        self.assertEqual([culprit["pid"] for culprit in culprits], [killed])
        self.end_job(run)

    def test_beyond_loopback_it_wants_the_token_of_the_session(self):
        run, address = self.start_run(*HANG, http="0.0.0.0:0")
        address, _, fragment = address.partition("#")
        token = fragment.split("=")[1]
        port = urllib.parse.urlsplit(address).port
        here = f"http://127.0.0.1:{port}/"
        self.assertEqual(stat.S_IMODE(os.stat(self.path("s/access.key")).st_mode), 0o600)
        self.assertEqual(self.gordian("token", "s").stdout.strip(), token)
        for path in ("api/v1/jobs", "api/v1/jobs/s", "metrics"):
            self.assertEqual(get(here, path)[0], 401)
            self.assertEqual(get(here, path, token="0" * len(token))[0], 401)
            self.assertEqual(get(here, path, token=token)[0], 200)
        self.assertEqual(get(here, "healthz"), (200, "ok\n"))
        self.assertNotIn(token, get(here, "")[1] + get(here, "app.js")[1])
        self.end_job(run)

    def test_an_address_that_is_taken_is_no_reason_not_to_watch(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.gordian("run", "--emulator", "--session", "s", "--http", f"127.0.0.1:{port}", "--on-verdict",
                                "kill", "--", *HANG)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn(f"cannot listen on 127.0.0.1:{port}", done.stderr)
        self.assertIn("DEADLOCK (confirmed", done.stderr)

    def test_options_that_cannot_be_met_are_refused(self):
        for options, words in ((["--http", "7412"], "--http takes HOST:PORT"),
                               (["--http", "127.0.0.1:0", "--analyzer", "localhost:1"], "gordian serve --http"),
                               (["--metrics-file", "m", "--analyzer", "localhost:1"], "--metrics-file")):
            done = self.gordian("run", *options, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


class Report(PageTest):
    def test_of_a_session_and_of_what_is_none(self):
        done = self.gordian("run", "--emulator", "--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual(done.returncode, 137, done.stderr)
        done = self.gordian("report", "s", "-o", "r.html", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = read(self.path("r.html"))
        self.assertEqual(json.loads(done.stdout)["bytes"], len(text.encode()))
        page = document_of(text)
        self.assertEqual(page["verdict"]["verdict"], "deadlock")
        self.assertTrue(page["verdict"]["stacks"] or page["verdict"]["cycle"])
        self.assertEqual({rank["state"] for rank in page["status"]["ranks"]}, {"in_call"}, "as it hung")
        self.assertGreater(len(page["history"]["streams"]), 0)
        self.assertGreater(len(page["sources"]), 0)
        self.assertNotRegex(text, r'(?:src|href)="?(?:https?:)?//', "it needs no network")
        os.remove(self.path("s/trace.gtrace"))
        shutil.rmtree(self.path("s/rings"))
        self.assertEqual(self.gordian("report", "s").returncode, 0)
        page = document_of(read(self.path("report.html")))
        self.assertEqual((page["verdict"]["verdict"], page["history"]), ("deadlock", None))
        done = self.gordian("report", "nosuch")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nosuch", done.stderr)

    def test_of_a_job_that_ends_well(self):
        done = self.gordian("run", "--emulator", "--quiet", "--session", "s", "--", *HANG, "--twin")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = document_of(read(self.path("s/report.html")))
        self.assertEqual(page["verdict"]["verdict"], "finished")
        self.assertFalse(os.path.exists(self.path("s/status.json")), "nothing was in trouble")

    def report_of(self, *job):
        """The document of a recorded session, and what `gordian predict` says of it."""
        done = self.gordian("run", "--emulator", "--quiet", "--session", "p", "--on-verdict", "kill", "--", JOB, *job)
        self.assertIn(done.returncode, (0, 137), done.stderr)
        self.assertEqual(self.gordian("report", "p", "-o", "p.html").returncode, 0)
        said = json.loads(self.gordian("predict", "p", "--json").stdout)
        shutil.rmtree(self.path("p"))
        return document_of(read(self.path("p.html"))), said

    def test_what_could_have_hung_in_another_order(self):
        page, said = self.report_of("near_miss", "--ranks", "2")
        self.assertEqual((page["verdict"]["verdict"], len(said["predicted"])), ("finished", 1))
        [found] = page["predictions"]["found"]
        self.assertEqual(found["confidence"], "predicted")
        for key in ("cycle", "orders", "alike", "check"):
            self.assertEqual(found[key], said["predicted"][0][key], key)
        self.assertEqual(page["predictions"]["freedom"], "threads-unordered")
        for job in (["near_miss", "--ranks", "2", "--twin"], ["steady_then_inversion", "--ranks", "2"]):
            page, said = self.report_of(*job)
            self.assertEqual(said["predicted"], [])
            self.assertNotIn("predictions", page, job)


class Metrics(PageTest):
    def promtool(self, *arguments, **options):
        tool = shutil.which("promtool")
        if tool is None:
            self.skipTest("promtool is not installed (Debian: prometheus)")
        return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, **options)

    def test_are_what_prometheus_reads(self):
        run, address = self.start_run(*HANG, options=["--metrics-file", "m.prom"])
        Events(address).until(lambda job: job["verdict"] == "deadlock")
        status, text = get(address, "metrics")
        self.assertEqual(status, 200)
        self.assertIn('gordian_deadlock_detected{job="s",verdict="deadlock"} 1\n', text)
        in_file = lambda: read(self.path("m.prom")) if os.path.exists(self.path("m.prom")) else ""
        self.assertTrue(wait_until(lambda: 'verdict="deadlock"} 1' in in_file()), "the file never held the verdict")
        for name, metrics in (("/metrics", text), ("--metrics-file", in_file())):
            done = self.promtool("check", "metrics", input=metrics)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        open_metrics = get(address, "metrics", headers=[("Accept", "application/openmetrics-text;version=1.0.0")])[1]
        self.assertTrue(open_metrics.endswith("# EOF\n"))
        self.assertIn("# TYPE gordian_build info\n", open_metrics)
        self.end_job(run)

    def test_a_real_prometheus_scrapes_a_hanging_job(self):
        server = shutil.which("prometheus")
        if server is None:
            self.skipTest("prometheus is not installed")
        run, address = self.start_run(*HANG)
        target = urllib.parse.urlsplit(address).netloc
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = self.write("prometheus.yml", f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: gordian
    honor_labels: true
    static_configs: [{{targets: ["{target}"]}}]
""")
        prometheus = subprocess.Popen(
            [server, f"--config.file={config}", f"--storage.tsdb.path={self.path('tsdb')}",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(prometheus.wait)
        self.addCleanup(prometheus.kill)

        def value_of(query):
            try:
                _, text = get(f"http://127.0.0.1:{port}/", "api/v1/query?query=" + urllib.parse.quote(query))
            except urllib.error.URLError:
                return None
            result = json.loads(text)["data"]["result"]
            return result[0]["value"][1] if result else None
        self.assertTrue(wait_until(lambda: value_of('gordian_deadlock_detected{job="s"}') == "1", seconds=60, every=0.5))
        self.assertEqual(value_of('sum(gordian_rank_state{job="s",state="in_call"})'), "4")
        self.end_job(run)

    def test_names_on_dashboards_and_in_alerts_are_exported(self):
        """Every metric that deploy/ names is one of those that a server with a job has."""
        run, address = self.start_run(*HANG)
        Events(address).until(lambda job: job["verdict"] == "deadlock")
        get(address, "nosuch")
        names = set(re.findall(r"^(gordian_\w+)", get(address, "metrics")[1], re.M))
        self.end_job(run)
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
        listed = set(re.findall(r"^\| `(gordian_\w+)", read(os.path.join(root, "docs", "metrics.md")), re.M))
        self.assertEqual(names - listed, set(), "exported, but not in docs/metrics.md")
        used = set()
        for file in ("gordian.json", "alerts.yaml"):
            used |= set(re.findall(r"\b(gordian_[a-z_]+)\b", read(os.path.join(root, "deploy", "grafana", file))))
        self.assertEqual(used - listed, set(), "in deploy/grafana, but not in docs/metrics.md")
        # No rank is behind in this job.
        self.assertLessEqual(listed - names, {"gordian_comm_sequence_lag"}, "listed, but not exported")


class Serve(PageTest):
    def start_serve(self, *options, port=0):
        serve = self.start("serve", "--listen", f"127.0.0.1:{port}", "--sessions", "all", "--http", "127.0.0.1:0", "--json",
                           *options)
        first = json.loads(serve.stdout.readline())
        return serve, first["listening"], first["page"]

    def start_node(self, listening, job, *command):
        return self.start("run", "--emulator", "--quiet", "--analyzer", listening, "--job", job, "--session", job, "--",
                          *command, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_jobs_live_and_over_before_and_after_a_restart(self):
        serve, listening, address = self.start_serve()
        done = self.gordian("run", "--emulator", "--quiet", "--analyzer", listening, "--job", "well", "--", *HANG, "--twin")
        self.assertEqual(done.returncode, 0, done.stderr)
        node = self.start_node(listening, "hangs", *HANG)
        Events(address).until(lambda job: job["job"] == "hangs" and job["verdict"] == "deadlock")
        verdicts = lambda: {j["job"]: j["verdict"] for j in json.loads(get(address, "api/v1/jobs")[1])["jobs"]}
        self.assertEqual(verdicts(), {"well": "finished", "hangs": "deadlock"})
        for row in json.loads(get(address, "api/v1/jobs")[1])["jobs"]:
            self.assertEqual(row["nodes"], [socket.gethostname()], row)
            self.assertEqual(row["started"][:4], time.strftime("%Y", time.gmtime()), row)
        page = json.loads(get(address, "api/v1/jobs/hangs")[1])
        self.assertEqual((page["live"], page["verdict"]["verdict"]), (True, "deadlock"))

        def sites_without_lines():
            page = json.loads(get(address, "api/v1/jobs/hangs")[1])
            return {e["site"] for e in page["verdict"]["cycle"]} - {one["site"] for one in page["sources"]}

        self.assertTrue(wait_until(lambda: not sites_without_lines()), "the node sends the lines with its stacks")
        self.assertEqual(json.loads(get(address, "api/v1/jobs/well")[1])["verdict"]["verdict"], "finished")
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("all/hangs/report.html"))))
        self.signal_until_gone(serve, signal.SIGTERM)

        serve, _, address = self.start_serve(port=int(listening.rsplit(":", 1)[1]))
        self.assertTrue(wait_until(lambda: verdicts() == {"well": "finished", "hangs": "deadlock"}), verdicts())
        self.end_job(node)
        ended = lambda: all(j["job_ended"] for j in json.loads(get(address, "api/v1/jobs")[1])["jobs"])
        self.assertTrue(wait_until(ended))
        for row in json.loads(get(address, "api/v1/jobs")[1])["jobs"]:
            self.assertEqual((row["nodes"], row["started"] != ""), ([socket.gethostname()], True), row)
        page = document_of(read(self.path("all/hangs/report.html")))
        self.assertEqual({rank["state"] for rank in page["status"]["ranks"]}, {"in_call"})
        self.signal_until_gone(serve, signal.SIGTERM)


if __name__ == "__main__":
    main()
