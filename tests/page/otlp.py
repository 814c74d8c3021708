"""Metrics that gordian pushes to a collector of OpenTelemetry, of jobs of the emulator.

  otlp.py BUILD [Class.test]
"""
import gzip
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "e2e"))
sys.path.insert(0, os.path.join(HERE, os.pardir, "npm"))
import packages  # noqa: E402
from cli_testing import (BUILD, EMULATOR, JOB, CliTest, clean_environment, main, wait_until)  # noqa: E402

HANG = [JOB, "steady_then_inversion", "--ranks", "4"]
SELDOM = "3600000"  # ms: in no test's time


class Collector:
    """Keeps what it is sent. `answer` gets a request's number, from 0, and returns a code and headers;
    None: it holds the request until it is closed."""

    def __init__(self, answer=lambda number: (200, {}), port=0):
        self.requests = []
        self.closing = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                collector.requests.append((self.path, dict(self.headers), body.decode()))
                answer_now = answer(len(collector.requests) - 1)
                if answer_now is None:
                    collector.closing.wait()
                    return
                code, headers = answer_now
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # gordian leaves a request that is held

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def pushes(self):
        return [samples_of(body) for _, _, body in list(self.requests)]

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def attributes_of(part):
    return {a["key"]: a["value"]["stringValue"] for a in part["attributes"]}


def samples_of(body):
    """{(name, labels): value} of a request, and below None the attributes of its resources by job."""
    samples = {None: {}}
    for resource in json.loads(body)["resourceMetrics"]:
        about = attributes_of(resource["resource"])
        samples[None][about.get("service.namespace", "")] = about
        for metric in resource["scopeMetrics"][0]["metrics"]:
            for point in metric.get("sum", metric.get("gauge"))["dataPoints"]:
                key = (metric["name"], frozenset(attributes_of(point).items()))
                assert key not in samples, key
                samples[key] = float(point.get("asInt", point.get("asDouble")))
    return samples


def samples_in(text):
    """The same of Prometheus's text."""
    found = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M)
    return {(name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels))): float(value) for name, labels, value in found}


def detected(samples, job="s"):
    return samples.get(("gordian_deadlock_detected", frozenset({("job", job), ("verdict", "deadlock")}))) == 1


class OtlpTest(CliTest):
    def setUp(self):
        super().setUp()
        for path in (JOB, os.path.join(EMULATOR, "libnccl.so.2")):
            self.need(path)

    def collector(self, *arguments, **options):
        collector = Collector(*arguments, **options)
        self.addCleanup(collector.close)
        return collector

    def env(self, interval=SELDOM, **more):
        return clean_environment(JOB_STEP_US="5000", XDG_STATE_HOME=self.path("state"),
                                 OTEL_METRIC_EXPORT_INTERVAL=interval, **more)

    def start_run(self, url, *options, env=None):
        return self.start("run", "--emulator", "--session", "s", "--otlp", url, *options, "--", *HANG,
                          env=env or self.env(), stdout=subprocess.DEVNULL)

    def assert_pushed(self, collector, wanted, seconds=60):
        self.assertTrue(wait_until(lambda: any(wanted(push) for push in collector.pushes()), seconds),
                        f"{len(collector.requests)} pushes, the last: {collector.requests[-1:]}")


class Run(OtlpTest):
    def test_a_verdict_is_pushed_at_once_and_the_end_at_the_end(self):
        collector = self.collector()
        run = self.start_run(collector.url, env=self.env(OTEL_EXPORTER_OTLP_HEADERS="api-key=a%20key"))
        # The interval is an hour.
        self.assert_pushed(collector, detected)
        self.end_job(run)
        last = collector.pushes()[-1]
        self.assertEqual(last[("gordian_jobs", frozenset({("state", "ended")}))], 1)
        self.assertEqual(last[("gordian_deadlocks_total", frozenset({("verdict", "deadlock")}))], 1)
        for path, headers, _ in collector.requests:
            self.assertEqual((path, headers["Content-Type"], headers["api-key"]),
                             ("/v1/metrics", "application/json", "a key"))
        self.assertEqual(set(last[None]), {"", "s"})
        for about in last[None].values():
            self.assertEqual((about["service.name"], about["host.name"]), ("gordian", socket.gethostname()))
            self.assertEqual(about["service.instance.id"], f"{socket.gethostname()}-{run.pid}")

    def test_the_metrics_are_those_of_the_page(self):
        collector = self.collector()
        run = self.start_run(collector.url, "--http", "127.0.0.1:0", env=self.env(interval="200", OTEL_EXPORTER_OTLP_COMPRESSION="gzip"))
        address = run.stderr.readline().split(": ")[2].strip()
        self.assert_pushed(collector, detected)

        def page():
            with urllib.request.urlopen(address + "metrics", timeout=60) as answer:
                return samples_in(answer.read().decode())

        page()  # from here on the answers are counted
        seen = len(collector.requests)
        self.assertTrue(wait_until(lambda: len(collector.requests) >= seen + 2))
        before, pushed, after = page(), collector.pushes()[-1], page()
        about = pushed.pop(None)
        self.assertEqual(set(about), {"", "s"})
        self.assertEqual(collector.requests[-1][1]["Content-Encoding"], "gzip")
        self.assertEqual(set(pushed), set(after))
        moving = {name for (name, _) in before if name.endswith("_seconds") or name == "gordian_http_requests_total"}
        moving |= {"gordian_capture_records_total"}
        for key, value in pushed.items():
            if key[0] not in moving:
                self.assertEqual(value, after[key], key)
            self.assertLessEqual(value, after[key] + 0.1, key)
        self.end_job(run)

    def test_opentelemetry_reads_them(self):
        collector = self.collector()
        run = self.start_run(collector.url)
        self.assert_pushed(collector, detected)
        self.end_job(run)
        bodies = [body for _, _, body in collector.requests]
        try:
            code, said = packages.run(BUILD, "otlp_requests.cjs", "\n".join(bodies))
        except packages.Missing as why:
            self.skipTest(str(why))
        self.assertEqual((code, said), (0, f"{len(bodies)} requests\n"))
        for right, wrong in (('"dataPoints"', '"data_points"'), ('"aggregationTemporality":2', '"aggregationTemporality":9'),
                             ('"asInt":"1"', '"asInt":"one"'), ('"isMonotonic":true', '"isMonotonic":"yes"')):
            self.assertIn(right, bodies[-1])
            self.assertNotEqual(packages.run(BUILD, "otlp_requests.cjs", bodies[-1].replace(right, wrong))[0], 0, wrong)

    def test_what_a_collector_does_is_not_the_jobs_trouble(self):
        lines = {
            "holds": (lambda number: None, None),
            "is away for a while": (lambda number: (503, {}) if number < 2 else (200, {}), "takes the metrics again"),
            "wants a pause": (lambda number: (429, {"Retry-After": "600"}), "HTTP 429; gordian tries again"),
            "refuses": (lambda number: (400, {}), "HTTP 400; gordian goes on sending newer ones"),
            "sends elsewhere": (lambda number: (302, {"Location": "/other"}), "a redirect, which gordian does not follow"),
        }
        for what, (answer, line) in lines.items():
            with self.subTest(what):
                collector = self.collector(answer)
                done = self.gordian("run", "--emulator", "--session", "s", "--otlp", collector.url, "--on-verdict", "kill",
                                    "--", *HANG, env=self.env(), timeout=120)  # and not 600 s later
                self.assertEqual(done.returncode, 137, done.stderr)
                self.assertIn("DEADLOCK (confirmed", done.stderr)
                self.assertGreaterEqual(len(collector.requests), 1)
                self.assertEqual({path for path, _, _ in collector.requests}, {"/v1/metrics"})
                if line:
                    self.assertEqual(done.stderr.count(line), 1, done.stderr)
                if what == "wants a pause":
                    self.assertEqual(len(collector.requests), 1)

    def test_one_that_is_not_there_costs_a_line(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        done = self.gordian("run", "--emulator", "--session", "s", "--otlp", f"http://127.0.0.1:{port}", "--on-verdict",
                            "kill", "--", *HANG, env=self.env())
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertEqual(done.stderr.count("cannot push metrics to http://127.0.0.1: "), 1, done.stderr)

    def test_options_that_cannot_be_met_are_refused(self):
        for options, env, words in (
                (["--otlp", "127.0.0.1:4318"], {}, "--otlp takes http(s)://HOST:PORT"),
                (["--otlp", "http://h", "--analyzer", "localhost:1"], {}, "gordian serve --otlp URL"),
                (["--otlp", "http://h"], {"OTEL_METRIC_EXPORT_INTERVAL": "10s"}, "takes milliseconds"),
                (["--otlp", "http://h"], {"OTEL_EXPORTER_OTLP_HEADERS": "secret"}, "header 1 is not name=value")):
            done = self.gordian("run", *options, "--", "true", env=clean_environment(**env))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assert_one_line(done.stderr, words)
            self.assertNotIn("secret", done.stderr)


class Serve(OtlpTest):
    def test_each_job_is_a_resource_and_a_collector_may_come_later(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serve = self.start("serve", "--listen", "127.0.0.1:0", "--sessions", "all", "--json", "--otlp",
                           f"http://127.0.0.1:{port}", env=self.env(interval="200"))
        listening = json.loads(serve.stdout.readline())["listening"]
        self.assertIn("cannot push metrics to http://127.0.0.1: ", serve.stderr.readline())
        collector = self.collector(port=port)
        self.assertIn("http://127.0.0.1 takes the metrics again", serve.stderr.readline())
        nodes = [self.start("run", "--emulator", "--quiet", "--analyzer", listening, "--job", job, "--session", job, "--",
                            *HANG, env=self.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for job in ("one", "two")]
        self.assert_pushed(collector, lambda push: detected(push, "one") and detected(push, "two"))
        serve.send_signal(signal.SIGTERM)
        self.assertEqual(serve.wait(60), 0)
        last = collector.pushes()[-1]
        self.assertTrue(detected(last, "one") and detected(last, "two"))
        self.assertEqual(set(last[None]), {"", "one", "two"})
        self.assertEqual(last[("gordian_deadlocks_total", frozenset({("verdict", "deadlock")}))], 2)
        for node in nodes:
            self.end_job(node)


if __name__ == "__main__":
    main()
