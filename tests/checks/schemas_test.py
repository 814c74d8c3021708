#!/usr/bin/env python3
"""docs/schemas: each allows what gordian writes, of real sessions and in golden files, and nothing more.

  schemas_test.py BUILD [TEST]
"""

import base64
import glob
import gzip
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import schemas

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
GORDIAN = os.path.join(BUILD, "bin", "gordian")
JOB = os.path.join(BUILD, "tests", "gordian_e2e_job")
PLAN_JOB = os.path.join(BUILD, "tests", "gordian_plan_job")
PATIENCE = 90  # seconds until what must come is given up

# Verbs whose JSON has no field `schema`, and the name of its schema.
UNNAMED = {"version": "gordian.version.v1", "env": "gordian.env.v1", "serve": "gordian.serve.v1"}

# By schema, the fields that a document need not have; it must have all others.
OF_VERDICT = {"closed", "disproved", "recovery", "restarts", "revision", "written"}
OPTIONAL = {
    "gordian.demo.v1": OF_VERDICT, "gordian.verdict.v1": OF_VERDICT, "gordian.page.v1": OF_VERDICT | {"predictions"},
    "gordian.explore.v1": {"program", "verified"}, "gordian.predict.v1": {"known", "program", "verified"},
    "gordian.replay.v1": {"fixes", "no_script", "script", "verified"},
    "gordian.manifest.v1": {"gordian_start", "restarts"}, "gordian.plan.v1": {"name"},
    "gordian.simulation.v1": {"default", "distinct_rounds", "exact", "false_positive_share", "first_order", "m1", "m2", "notes",
                              "probability", "rounds", "rounds_per_second", "total_rounds", "why", "witnesses"},
    "gordian.sweep.v1": {"default", "exact", "first_order"}}
# Objects whose fields have names that gordian does not choose.
DATA = {("gordian.manifest.v1", "environment"), ("gordian.manifest.v1", "causes"), ("gordian.attach.v1", "threads"),
        ("gordian.env.v1", "")}

# Two ranks, one communicator, and gradients that do not overlap their computation well.
BUCKETS = [{"forward_us": 2000, "backward_us": 6000, "comm_us": 2000, "elements": 1000},
           {"forward_us": 0, "backward_us": 2000, "comm_us": 6000, "elements": 3000},
           {"forward_us": 0, "backward_us": 1000, "comm_us": 8000, "elements": 4000}]
MEGATRON = {"model": "StreamWithSync", "grouping_policy": "Megatron", "disorder_prob": 0.02, "sync_prob": 0.05,
            "total_rounds": 2000, "tp_group_size": 2, "dp_group_size": 2, "pp_group_size": 1,
            "coll_cnt_per_tp_group": 4, "coll_cnt_per_dp_group": 4}
ARBITRARY = {"model": "Single", "grouping_policy": "Arbitrary", "disorder_prob": 0.01, "gpu_num": 3, "group_num": 2,
             "gpu_per_group": [[0, 1], [1, 2]], "coll_cnt_per_group": [1, 2]}


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.05)
    return value


class AlertReceiver:
    """A web server that keeps the documents which it is sent."""

    def __init__(self):
        self.documents = documents = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                documents.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/alert"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Site:
    """What a page's server answers: keeps which paths were asked for."""

    def __init__(self, address, token):
        self.address, self.token = address, token
        self.asked = set()

    def open(self, path, body=None):
        request = urllib.request.Request(self.address + path, headers={"Authorization": "Bearer " + self.token},
                                         data=None if body is None else json.dumps(body).encode())
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def get(self, path, body=None, endpoint=None):
        """endpoint: as gateway.h lists it, where that is another than the path."""
        with self.open(path, body) as answer:
            self.asked.add("/" + (endpoint or path))
            return json.loads(answer.read())

    def events(self):
        """Each event's kind and data, for ever."""
        kind = ""
        with self.open("api/v1/events") as answer:
            self.asked.add("/api/v1/events")
            for line in answer:
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "event":
                    kind = value
                elif key == "data":
                    yield kind, json.loads(value)


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.jsonschema = schemas.jsonschema()
        except schemas.Missing as missing:
            raise unittest.SkipTest(str(missing)) from missing
        cls.work = tempfile.mkdtemp(prefix="gordian-schemas-")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.env = {k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_"))}
        cls.env.update(XDG_STATE_HOME=os.path.join(cls.work, "state"), GORDIAN_EMU_DEVICES="4",
                       PLAN_TIMES=cls.write("times.json", {"ranks": [BUCKETS]}))
        cls.found = {}  # by schema: what gordian wrote with it
        cls.verbs = set()  # whose --json was held against a schema
        for name, on_verdict, job in (
                ("hung", "kill", [JOB, "inversion_sync"]), ("late", "kill-suspected", [JOB, "missing_rank"]),
                ("ends", "kill", [JOB, "inversion_sync", "--twin"]), ("again", "restart", [JOB, "inversion_sync"]),
                ("sends", "kill", [JOB, "near_miss_pipeline"]), ("ddp", "kill", [PLAN_JOB, "plan_ddp", "--ranks", "2"])):
            cls.record(name, on_verdict, *job)
        for _ in range(10):  # on a busy machine a thread may end before the other one begins: then nothing was near
            cls.record("near", "kill", JOB, "near_miss")
            cls.gordian("explore", "near", "-o", "explored")
            if os.path.exists(os.path.join(cls.work, "explored", "explored-1.json")):
                break
            shutil.rmtree(os.path.join(cls.work, "near"))
        cls.collect_sessions()
        cls.collect_plans()
        cls.collect_simulations()
        cls.collect_others()
        cls.collect_server()

    @classmethod
    def write(cls, name, document):
        with open(os.path.join(cls.work, name), "w", encoding="utf-8") as f:
            json.dump(document, f)
        return os.path.join(cls.work, name)

    @classmethod
    def gordian(cls, *arguments):
        return subprocess.run([GORDIAN, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=cls.work,
                              env=cls.env).stdout

    @classmethod
    def record(cls, session, on_verdict, *job):
        cls.gordian("run", "--emulator", "--session", session, "--on-verdict", on_verdict, "--suspect-after", "3", "--", *job)

    @classmethod
    def read(cls, *path):
        with open(os.path.join(cls.work, *path), encoding="utf-8") as f:
            return json.load(f)

    @classmethod
    def add(cls, document, name=None):
        cls.found.setdefault(name or document["schema"], []).append(document)
        return document

    @classmethod
    def add_output(cls, *arguments):
        """What the verb prints with --json."""
        cls.verbs.add(" ".join(arguments[:2] if arguments[0] == "bench" else arguments[:1]))
        return cls.add(json.loads(cls.gordian(*arguments, "--json")), UNNAMED.get(arguments[0]))

    @classmethod
    def collect_sessions(cls):
        for session in ("hung", "late", "ends", "near"):
            for verb in ("analyze", "explain", "status", "predict", "explore"):
                cls.add_output(verb, session)
            cls.add(cls.read(session, "verdict.json"))
            cls.add(json.loads(cls.gordian("doctor", "--recover", session, "--json")))
            for line in cls.gordian("export", session, "-f", "jsonl").splitlines():
                cls.add(json.loads(line), "gordian.operations.v1")
            cls.add_output("replay", session, "-o", f"replay-{session}")
            cls.add_output("report", session, "-o", f"{session}.html")
            cls.add_page(f"{session}.html")
        for session in ("hung", "late", "ends", "near", "again", "sends", "ddp"):
            cls.add(cls.read(session, "manifest.json"))
        cls.add(json.loads(cls.gordian("doctor", "--recover", "sends", "--json")))
        for verb in ("predict", "explore"):  # what a baseline adds
            with open(os.path.join(cls.work, "known.json"), "w", encoding="utf-8") as f:
                f.write(cls.gordian(verb, "near", "--json"))
            cls.add_output(verb, "near", "--baseline", "known.json")
        cls.add(cls.read("explored", "explored-1.json"))
        cls.add_output("export", "hung", "-f", "csv", "-o", "x.csv")
        cls.gordian("export", "hung", "-f", "fr", "-o", "hung-dumps")
        cls.add(json.loads(cls.gordian("analyze", "hung", "hung-dumps", "--json")))

    @classmethod
    def add_page(cls, name):
        """The document in a report.html."""
        with open(os.path.join(cls.work, name), encoding="utf-8") as f:
            data = re.search(r'<script type="text/plain" id="gordian-data">([^<]*)</script>', f.read()).group(1)
        cls.add(json.loads(gzip.decompress(base64.b64decode(data))))

    @classmethod
    def collect_plans(cls):
        table = cls.write("table.json", {"buckets": [BUCKETS[0] | {"name": "layers"}, *BUCKETS[1:]]})
        loss = ["--loss", "0.005", "0", "0.01", "0.45", "40", "256"]
        for more in ([], ["--links", "2", "--merge", "mean"], loss):
            cls.add_output("plan", table, *more)
        # Gradients wait so long for their all-reduces that the loss would deviate.
        slow = cls.write("slow.json", {"buckets": [bucket | {"comm_us": 10 * bucket["comm_us"]} for bucket in BUCKETS]})
        cls.add_output("plan", slow, *loss)
        cls.gordian("plan", table, "-o", "plan.json")
        cls.add(cls.read("plan.json"))
        # Its two communicators cross: the plan is refused, with a cycle.
        cls.add_output("plan", "ddp", "--times", cls.env["PLAN_TIMES"], "--comm", "dp")
        cls.add_output("plan", "ddp", "--collectives")
        with open(os.path.join(cls.work, "samples.csv"), "w", encoding="utf-8") as f:
            f.write("plan,ranks,bytes,us\n" + "".join(
                f"{plan},{ranks},{size},{20 * ranks + size / 1000}\n" for plan in ("ring", "doubling")
                for size in (1 << 12, 1 << 14, 1 << 20) for ranks in (2, 8)))
        cls.add_output("plan", "ddp", "--collectives", "--samples", "samples.csv")
        cls.add_output("bench", "collectives", "--emulator", "--ranks", "2", "--to", "8192")

    @classmethod
    def collect_simulations(cls):
        megatron, arbitrary = cls.write("megatron.json", MEGATRON), cls.write("arbitrary.json", ARBITRARY)
        given = cls.write("given.json", ARBITRARY | {"group_order_per_gpu": [[0], [1, 0, 1], [1, 1]]})
        for more in (["--witness", "2"], ["--rel-err", "0.5"], ["--engine", "replay", "--detector", "default"]):
            cls.add_output("simulate", megatron, *more)
        for config in (arbitrary, given):
            cls.add_output("simulate", config, "--rounds", "2000")
        cls.add_output("simulate", "sends", "--from-trace", "--disorder-prob", "0.01", "--sync-prob", "0.01", "--rounds", "2000")
        for name, sweep in (("sweep.json", MEGATRON | {"disorder_prob": {"log": [0.01, 0.1, 2]}}),
                            ("list.json", [ARBITRARY, ARBITRARY | {"coll_cnt_per_group": [2, 2]}])):
            cls.add_output("simulate", cls.write(name, sweep), "--rounds", "1024")
        cls.add_output("simulate", "sweep.json", "--rounds", "1024", "--detector", "exact")

    @classmethod
    def collect_others(cls):
        for words in (["checks"], ["doctor"], ["hooks"], ["demo"], ["incidents"], ["attach", str(os.getpid())], ["version"],
                      ["env", "--emulator"]):
            cls.add_output(*words)
        for path in glob.glob(os.path.join(schemas.SOURCES, "tests", "golden", "report", "*.json")):
            with open(path, encoding="utf-8") as f:
                cls.add(json.load(f))

    @classmethod
    def start(cls, *arguments, **streams):
        process = subprocess.Popen([GORDIAN, *arguments], cwd=cls.work, env=cls.env, stdin=subprocess.DEVNULL, text=True,
                                   **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams})

        def end():
            process.terminate()
            process.communicate(timeout=PATIENCE)
        cls.addClassCleanup(end)
        return process

    @classmethod
    def collect_server(cls):
        """A server, a job of two nodes that hangs, and one that ends."""
        receiver = AlertReceiver()
        cls.addClassCleanup(receiver.close)
        serve = cls.start("serve", "--listen", "127.0.0.1:0", "--sessions", "all", "--http", "127.0.0.1:0", "--json",
                          "--alert", receiver.url, stdout=subprocess.PIPE)
        first = cls.add(json.loads(serve.stdout.readline()), UNNAMED["serve"])
        cls.verbs.add("serve")
        cls.site = site = Site(first["page"], cls.gordian("token", "all", "--role", "admin").strip())
        cls.add(site.get("api/v1/jobs"))  # none
        events = site.events()
        node = ["run", "--emulator", "--quiet", "--analyzer", first["listening"]]
        cls.gordian(*node, "--job", "ends", "--session", "node.ends", "--", JOB, "steady_then_inversion", "--twin", "--ranks", "2")
        hang = cls.start(*node, "--job", "hangs", "--session", "node.hangs", "--", JOB, "steady_then_inversion", "--ranks", "2")
        wait_for(lambda: receiver.documents, "an alert")
        cls.add(receiver.documents[0])
        wanted = {"job": "gordian.jobs.v1#/$defs/job", "incidents": "gordian.incidents.v1#/$defs/changed"}
        for kind, data in events:  # they come while the server lives
            if kind in wanted:
                cls.add(data, wanted[kind])
            if set(wanted.values()) <= set(cls.found):
                break
        events.close()
        cls.add(site.get("api/v1/jobs"))
        for job in ("ends", "hangs"):
            cls.add(site.get(f"api/v1/jobs/{job}", endpoint="api/v1/jobs/NAME"))
            cls.add(cls.read("all", job, "manifest.json"))
        [incident] = cls.add(site.get("api/v1/incidents"))["incidents"]
        cls.add(site.get(f"api/v1/incidents/{incident['id']}/acknowledge", {"by": "ann", "note": "mine"},
                         "api/v1/incidents/ID/acknowledge"), "gordian.incidents.v1#/$defs/acknowledged")
        cls.add(site.get("api/v1/incidents"))
        cls.add(cls.read("node.hangs", "manifest.json"))  # of a job that goes on
        hang.terminate()
        hang.wait(PATIENCE)
        for job in ("ends", "hangs"):
            cls.add(cls.read(f"node.{job}", "manifest.json"))
        serve.terminate()
        for line in serve.communicate(timeout=PATIENCE)[0].splitlines():
            cls.add(json.loads(line), UNNAMED["serve"])
        for job in ("ends", "hangs"):
            cls.add(cls.read("all", job, "manifest.json"))

    def test_what_gordian_writes(self):
        self.assertEqual(sorted({name.partition("#")[0] for name in self.found}), schemas.names())  # each schema is tried
        for name, written in self.found.items():
            for document in written:
                self.assertEqual(schemas.problems(document, name), [], document)
            # A field that the schema does not have is found, wherever it is; and so is one that is gone, or of another type.
            for document in map(schemas.with_short_lists, written[:3]):
                self.assertEqual(schemas.problems(document, name), [], document)
                for path, changed in schemas.with_a_new_field(document):
                    self.assertTrue(schemas.problems(changed, name), f"{name}: a new field at /{'/'.join(map(str, path))}")
                for path, changed in schemas.without_a_field(document):
                    within = path[-2] if len(path) > 1 else ""
                    self.assertTrue(path[-1] in OPTIONAL.get(name, ()) or (name, within) in DATA or schemas.problems(changed, name),
                                    f"{name} without /{'/'.join(map(str, path))}")
                for path, changed in schemas.with_another_type(document):
                    self.assertTrue(schemas.problems(changed, name), f"{name}: another type at /{'/'.join(map(str, path))}")

    def test_what_was_tried_is_not_all_alike(self):
        """The documents show what their schemas allow."""
        def values(name, *path):
            seen = set()
            for document in self.found[name]:
                for key in path:
                    document = document.get(key) if isinstance(document, dict) else None
                seen.add(json.dumps(document))
            return seen
        self.assertEqual(values("gordian.plan.v1", "convergence", "result"), {'"kept"', '"not assessed"', '"refused"'})
        self.assertEqual(values("gordian.plan.v1", "proof", "refusal"), {'""', '"convergence"', '"cycle"'})
        self.assertEqual(values("gordian.simulation.v1", "configuration", "grouping_policy"), {'"Megatron"', '"Arbitrary"'})
        self.assertTrue(any(d.get("witnesses") for d in self.found["gordian.simulation.v1"]))
        self.assertTrue(any(d.get("notes") for d in self.found["gordian.simulation.v1"]))
        self.assertTrue(any(row["plans"] for d in self.found["gordian.collectives.v1"] for row in d["collectives"]))
        manifests = self.found["gordian.manifest.v1"]
        for key in ("restarts", "analyzer", "ended"):
            self.assertEqual({key in document for document in manifests}, {True, False}, key)
        self.assertEqual(values("gordian.job.v1", "closed"), {"true", "false"})
        self.assertEqual({"predictions" in document for document in self.found["gordian.page.v1"]}, {True, False})
        self.assertEqual(values("gordian.page.v1", "live"), {"true", "false"})
        self.assertTrue(any("verdict" in document for document in self.found["gordian.serve.v1"]))

    def test_each_verb_with_json_has_a_schema(self):
        """A verb that has --json in its help was run with it, and what it wrote was held against a schema."""
        def verbs(*above):
            listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", self.gordian(*above, "--help"), re.M)
            return re.findall(r"^  (\S+)  ", listed.group(1), re.M) if listed else []
        with_json = set()
        for verb in verbs():
            for words in [[verb], *([verb, inner] for inner in verbs(verb))]:
                if re.search(r"^  (?:-\S+,)?--json\b", self.gordian(*words, "--help"), re.M):
                    with_json.add(" ".join(words))
        self.assertIn("status", with_json)
        self.assertEqual(self.verbs, with_json, "run each with --json, and write the schema of what it prints into docs/schemas")

    def test_each_address_with_json_has_a_schema(self):
        with open(os.path.join(schemas.SOURCES, "analyzer", "web", "gateway.h"), encoding="utf-8") as f:
            listed = set(re.findall(r"^//   (/api/\S+) ", f.read(), re.M))
        self.assertEqual(self.site.asked, listed)
        served = set()
        for path in glob.glob(os.path.join(schemas.SOURCES, "analyzer", "web", "*.cc")):
            with open(path, encoding="utf-8") as f:
                served |= set(re.findall(r'"(/api/[^"]*)"', f.read()))
        self.assertTrue(served)
        for address in served:  # which the list in gateway.h must name
            self.assertTrue(any(one.startswith(address) for one in listed), address)

    def test_the_page_lists_each(self):
        with open(os.path.join(schemas.FOLDER, "README.md"), encoding="utf-8") as f:
            listed = re.findall(r"^\| \[(\S+)\]\((\S+)\) \|", f.read(), re.M)
        self.assertEqual(sorted(listed), [(name, name + ".json") for name in schemas.names()])

    def test_they_are_schemas(self):
        for name in schemas.names():
            with self.subTest(name):
                self.jsonschema.Draft202012Validator.check_schema(schemas.schema(name))
                self.assertEqual(schemas.schema(name)["$id"], name)

    def test_all_objects_are_closed(self):
        def walk(value, path):
            if isinstance(value, dict):
                names_are_data = isinstance(value.get("additionalProperties"), dict)
                if value.get("type") == "object" and "oneOf" not in value and not names_are_data:
                    self.assertIs(value.get("additionalProperties"), False, path)
                    self.assertLessEqual(set(value["required"]), set(value["properties"]), path)
                for key, inner in value.items():
                    walk(inner, f"{path}/{key}")
            elif isinstance(value, list):
                for inner in value:
                    walk(inner, path)
        for name in schemas.names():
            walk(schemas.schema(name), name)

    def test_each_name_in_the_sources_is_known(self):
        used = set()
        for folder in ("analyzer", "cli", "collector", "common", "dashboard/src", "planner", "replayer", "simulator"):
            for at, _, files in os.walk(os.path.join(schemas.SOURCES, folder)):
                for name in files:
                    if name.endswith((".cc", ".h")):
                        with open(os.path.join(at, name), encoding="utf-8") as f:
                            used |= set(re.findall(r'"(gordian\.[a-z_-]+\.v\d+)"', f.read()))
        self.assertTrue(used)
        self.assertEqual(used - set(schemas.names()) - schemas.WITHOUT, set(), "write its schema into docs/schemas")
        self.assertEqual(set(schemas.names()) - used, set(UNNAMED.values()))
        self.assertEqual(schemas.WITHOUT & set(schemas.names()), set())
        self.assertEqual(schemas.WITHOUT - used, set())


if __name__ == "__main__":
    if not BUILD:
        sys.exit(f"usage: {sys.argv[0]} BUILD [TEST]")
    del sys.argv[1]
    unittest.main(verbosity=2)
