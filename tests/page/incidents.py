"""Incidents and alerts, of jobs of the emulator: who is told what, how often, and what is kept.

  incidents.py BUILD [Class.test]
"""
import hashlib
import hmac
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
from cli_testing import (EMULATOR, JOB, CliTest, clean_environment, main, schemas, wait_until)  # noqa: E402

HANG = [JOB, "steady_then_inversion", "--ranks", "4"]
KEY = "0123456789abcdef0123456789abcdef"


class Receiver:
    """A web server that keeps what it is sent. `refuse`: so many requests get HTTP 503 first."""

    def __init__(self, port=0, refuse=0, tls=None):
        self.requests = []
        self.refuse = refuse
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = 200
                if receiver.refuse > 0:
                    receiver.refuse -= 1
                    code = 503
                else:
                    receiver.requests.append((self.path, dict(self.headers), body))
                self.send_response(code)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", port), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def url(self, scheme="http", path="/hook"):
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def documents(self):
        bodies = [body for _, _, body in list(self.requests)]
        for body in bodies:
            schemas.check(body)
        return [json.loads(body) for body in bodies]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class IncidentTest(CliTest):
    def setUp(self):
        super().setUp()
        for path in (JOB, os.path.join(EMULATOR, "libnccl.so.2")):
            self.need(path)
        self.env = clean_environment(XDG_STATE_HOME=self.path("state"))

    def receiver(self, **options):
        receiver = Receiver(**options)
        self.addCleanup(receiver.close)
        return receiver

    def run_job(self, *options, job=HANG, env=None, session="s"):
        return self.gordian("run", "--emulator", "--session", session, *options, "--", *job, env=env or self.env)

    def incidents(self, *options):
        listed = self.gordian("incidents", "--json", *options, env=self.env)
        self.assertIn(listed.returncode, (0, 1), listed.stderr)
        document = json.loads(listed.stdout)
        self.assertEqual(document["schema"], "gordian.incidents.v1")
        return document["incidents"]

    def start_serve(self, *options, port=0):
        serve = self.start("serve", "--listen", f"127.0.0.1:{port}", "--sessions", "all", "--http", "127.0.0.1:0",
                           "--json", *options, env=self.env)
        first = json.loads(serve.stdout.readline())
        return serve, first["listening"], first["page"]

    def start_node(self, listening, job, *command):
        return self.start("run", "--emulator", "--quiet", "--analyzer", listening, "--job", job, "--session", job, "--",
                          *command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def maps_libcurl(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return "libcurl" in maps.read()


class Run(IncidentTest):
    def test_a_hang_is_one_alert_and_its_twin_none(self):
        receiver = self.receiver()
        key = self.write("key", KEY + "\n", 0o600)
        options = ["--alert", receiver.url(), "--alert-key", key]
        done = self.run_job("--on-verdict", "kill", "--job", "train", *options)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertEqual(len(receiver.requests), 1, receiver.requests)
        _, headers, body = receiver.requests[0]
        wanted = "sha256=" + hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        self.assertEqual(headers["X-Gordian-Signature"], wanted)
        alert = json.loads(body)
        verdict = self.verdict()
        self.assertEqual((alert["schema"], alert["alert"], alert["job"], alert["verdict"], alert["confidence"]),
                         ("gordian.alert.v1", "confirmed", "train", "deadlock", "confirmed"))
        self.assertEqual(headers["Idempotency-Key"], alert["incident"] + "-confirmed")
        self.assertEqual([c["rank"] for c in alert["culprits"]], verdict["culprit_ranks"])
        self.assertEqual(alert["session"], self.path("s"))
        culprit = alert["culprits"][0]
        self.assertTrue(alert["text"].startswith("DEADLOCK (confirmed) in job train: "), alert["text"])
        self.assertIn(f"Look first at rank {culprit['rank']} (pid {culprit['pid']} on {socket.gethostname()})",
                      alert["text"])
        self.assertIn("Change: " + verdict["advice"].rstrip("."), alert["text"])

        [incident] = self.incidents()
        self.assertEqual((incident["id"], incident["job"], incident["how_ended"], incident["open"]),
                         (alert["incident"], "train", "killed", False))
        self.assertEqual([(a["alert"], a["state"]) for a in incident["alerts"]], [("confirmed", "sent")])
        self.assertEqual(incident["revisions"][0]["verdict"], "deadlock")
        self.assertEqual(incident["nodes"], [socket.gethostname()])
        store = self.path("state/gordian/incidents.db")
        self.assertEqual(stat.S_IMODE(os.stat(store).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(store)).st_mode), 0o700)

        twin = self.run_job(*options, "--alert-suspected", job=[*HANG, "--twin"], session="twin")
        self.assertEqual(twin.returncode, 0, twin.stderr)
        self.assertEqual(len(receiver.requests), 1)
        self.assertEqual(len(self.incidents()), 1)

    def test_a_healthy_run_keeps_nothing(self):
        self.assertEqual(self.run_job(job=[*HANG, "--twin"]).returncode, 0)
        self.assertFalse(os.path.exists(self.path("state")))
        self.assertEqual(self.incidents(), [])
        self.assertEqual(self.gordian("incidents", env=self.env).stdout, "no incidents\n")

    def test_slack_and_alertmanager_get_their_shapes(self):
        receiver = self.receiver()
        done = self.run_job("--on-verdict", "kill", "--job", "<!channel>&\"';$(x)", "--alert",
                            receiver.url("slack+http", "/services/T0/secret"), "--alert",
                            receiver.url("alertmanager+http", ""))
        self.assertEqual(done.returncode, 137, done.stderr)
        by_path = {}
        for path, _, body in receiver.requests:
            by_path.setdefault(path, []).append(json.loads(body))
        [slack] = by_path["/services/T0/secret"]
        self.assertIn("in job &lt;!channel&gt;&amp;\"';$(x): ", slack["text"])
        self.assertEqual(slack["blocks"][0]["text"]["text"], slack["text"])
        self.assertNotIn("<!", json.dumps(slack))
        fires, ends = by_path["/api/v2/alerts"]
        self.assertEqual(fires[0]["labels"]["job"], "<!channel>&\"';$(x)")
        self.assertEqual(fires[0]["labels"]["alertname"], "GordianDeadlock")
        self.assertEqual([a["labels"] for a in ends], [fires[0]["labels"]])
        self.assertLess(ends[0]["endsAt"], fires[0]["endsAt"])
        self.assertNotIn("secret", done.stderr)
        self.assertNotIn("secret", self.gordian("incidents", "--json", env=self.env).stdout)
        with open(self.path("s/gordian.log")) as log:
            self.assertNotIn("secret", log.read())

    def test_a_receiver_that_is_away_for_a_while_gets_it_later(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        run = self.start("run", "--emulator", "--session", "s", "--alert", f"http://127.0.0.1:{port}/secret", "--",
                         *HANG, env=self.env, stdout=subprocess.DEVNULL)
        line = ""
        while "cannot alert" not in line:  # so it has tried
            line = run.stderr.readline()
            self.assertTrue(line, "gordian ended")
        self.assertIn("webhook at http://127.0.0.1: ", line)
        self.assertNotIn("secret", line)
        receiver = self.receiver(port=port, refuse=1)
        self.assertTrue(wait_until(lambda: receiver.requests, 60))
        self.end_job(run)
        self.assertEqual([d["alert"] for d in receiver.documents()], ["confirmed"])
        self.assertEqual(self.incidents()[0]["how_ended"], "job ended")

    def test_a_receiver_that_never_answers_costs_no_verdict(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
            done = self.run_job("--on-verdict", "kill", "--alert", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        self.assertEqual(done.returncode, 137)
        self.assertIn("DEADLOCK (confirmed", done.stderr)
        self.assertIn("1 alert was not delivered", done.stderr)
        self.assertEqual(self.incidents()[0]["alerts"][0]["state"], "given up")

    def test_a_command_gets_the_facts_in_its_environment(self):
        command = 'printf "%s|%s|%s|%s\\n" "$GORDIAN_ALERT" "$GORDIAN_JOB" "$GORDIAN_VERDICT" "$GORDIAN_TEXT" >> told'
        done = self.run_job("--on-verdict", "kill", "--job", "$(touch,evil)`touch,evil`", "--alert", "exec:" + command)
        self.assertEqual(done.returncode, 137, done.stderr)
        with open(self.path("told")) as f:
            [line] = f.read().splitlines()
        self.assertTrue(line.startswith("confirmed|$(touch,evil)`touch,evil`|deadlock|DEADLOCK (confirmed)"), line)
        # One that fails is run again, and one that hangs is no reason not to end.
        done = self.run_job("--on-verdict", "kill", "--alert", "exec:echo x >> tries; test $(wc -l < tries) -ge 2",
                            session="again")
        self.assertEqual(done.returncode, 137, done.stderr)
        with open(self.path("tries")) as f:
            self.assertEqual(f.read(), "x\nx\n")

    def test_certificates_are_checked(self):
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tls.key", "-out",
                               "tls.pem", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                               "subjectAltName=IP:127.0.0.1"], cwd=self.work, capture_output=True)
        if made.returncode != 0:
            self.skipTest("openssl makes no certificate")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.path("tls.pem"), self.path("tls.key"))
        receiver = self.receiver(tls=tls)
        options = ["--on-verdict", "kill", "--alert", receiver.url("https")]
        refused = self.run_job(*options)
        self.assertIn("1 alert was not delivered", refused.stderr)
        self.assertEqual(receiver.requests, [])
        trusted = self.run_job(*options, session="t", env={**self.env, "SSL_CERT_FILE": self.path("tls.pem")})
        self.assertEqual(trusted.returncode, 137, trusted.stderr)
        self.assertEqual(len(receiver.requests), 1)

    def test_a_store_that_cannot_be_used_costs_one_line(self):
        receiver = self.receiver()
        folder = self.path("state/gordian")
        os.makedirs(folder, 0o700)
        victim = self.write("victim", "mine")

        def damaged():
            self.write("state/gordian/incidents.db", "x" * 8192)

        def link():
            os.symlink(victim, folder + "/incidents.db")

        def newer():
            subprocess.run([sys.executable, "-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
                            "db.executescript('PRAGMA application_id=1735357028; PRAGMA user_version=9; "
                            "CREATE TABLE x(y)')", folder + "/incidents.db"], check=True)

        for number, break_it in enumerate((damaged, link, newer)):
            break_it()
            done = self.run_job("--on-verdict", "kill", "--alert", receiver.url(), session=f"s{number}")
            self.assertEqual(done.returncode, 137, done.stderr)
            self.assertIn("DEADLOCK (confirmed", done.stderr)
            self.assertEqual(done.stderr.count("incidents are not kept"), 1, done.stderr)
            self.assertEqual(len(receiver.requests), number + 1)
            listed = self.gordian("incidents", env=self.env)
            self.assertEqual(listed.returncode, 2)
            self.assert_one_line(listed.stderr, "incidents.db")
            os.unlink(folder + "/incidents.db")
        with open(victim) as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual(self.run_job("--on-verdict", "kill", session="well").stderr.count("incidents"), 0)
        self.assertEqual(len(self.incidents()), 1)

    def test_several_runs_share_one_store(self):
        runs = [self.start("run", "--emulator", "--quiet", "--session", f"s{i}", "--job", f"job{i}", "--on-verdict",
                           "kill", "--", *HANG, env=self.env) for i in range(3)]
        for run in runs:
            self.assertEqual(run.wait(60), 137)
        incidents = self.incidents()
        self.assertEqual({i["job"] for i in incidents}, {"job0", "job1", "job2"})
        self.assertEqual({i["how_ended"] for i in incidents}, {"killed"})
        self.assertEqual([i["job"] for i in self.incidents("--job", "job1")], ["job1"])
        self.assertEqual(len(self.incidents("--since", "1h")), 3)
        self.assertEqual(len(self.incidents("--all")), 3)

    def test_acknowledgements(self):
        self.run_job("--on-verdict", "kill", "--job", "train")
        [incident] = self.incidents()
        noted = self.gordian("incidents", "--ack", incident["id"][:6], "--note", "it's <b>mine</b>", env=self.env)
        self.assertEqual((noted.returncode, noted.stdout), (0, f"acknowledged incident {incident['id']}\n"))
        [by] = self.incidents()[0]["acknowledgements"]
        self.assertEqual(by["note"], "it's <b>mine</b>")
        self.assertTrue(by["who"])
        text = self.gordian("incidents", env=self.env).stdout
        self.assertIn(incident["id"], text)
        self.assertIn(f"acknowledged by {by['who']}", text)
        refused = self.gordian("incidents", "--ack", "nosuch", env=self.env)
        self.assertEqual(refused.returncode, 2)
        self.assert_one_line(refused.stderr, "no incident has the id nosuch")

    def test_libcurl_is_loaded_by_those_that_send(self):
        receiver = self.receiver()
        for options, loaded in (([], False), (["--alert", "exec:true"], False), (["--alert", receiver.url()], True)):
            serve = self.start("serve", "--listen", "127.0.0.1:0", "--sessions", f"all{loaded}", "--json", *options,
                               env=self.env)
            self.assertIn("listening", serve.stdout.readline())
            self.assertEqual(maps_libcurl(serve.pid), loaded, options)
            serve.send_signal(signal.SIGTERM)
            self.assertEqual(serve.wait(60), 0)
        # A file that is no library stands in the place of a missing one.
        os.mkdir(self.path("lib"))
        self.write("lib/libcurl.so.4", "none")
        refused = self.run_job("--alert", receiver.url(), env={**self.env, "LD_LIBRARY_PATH": self.path("lib")})
        self.assertEqual(refused.returncode, 2)
        self.assert_one_line(refused.stderr, "apt-get install libcurl4")

    def ask(self, address, body=None, token=None):
        """The status and the JSON, or the text, of an answer."""
        request = urllib.request.Request(address, None if body is None else json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_the_page_of_a_run_acknowledges_its_own_incident_alone(self):
        self.run_job("--on-verdict", "kill", "--job", "earlier", session="earlier")
        [earlier] = self.incidents()
        until = self.path("go")
        run = self.start("run", "--emulator", "--session", "s", "--job", "train", "--http", "127.0.0.1:0", "--", *HANG,
                         env={**self.env, "JOB_UNTIL": until}, stdout=subprocess.DEVNULL)
        page = run.stderr.readline().split(": ")[2].strip()
        self.assertFalse(self.ask(page + "api/v1/jobs")[1]["has_incidents"], "this run has none yet")
        self.write("go", "")
        self.assertTrue(wait_until(lambda: self.ask(page + "api/v1/jobs")[1]["has_incidents"], 60))
        [ours] = self.ask(page + "api/v1/incidents")[1]["incidents"]
        self.assertEqual((ours["job"], ours["open"]), ("train", True))
        admin = self.gordian("token", "s", "--role", "admin").stdout.strip()
        self.assertTrue(self.ask(page + "api/v1/jobs", token=admin)[1]["may_acknowledge"])
        self.assertFalse(self.ask(page + "api/v1/jobs")[1]["may_acknowledge"])
        acknowledge = lambda one, token: self.ask(f"{page}api/v1/incidents/{one['id']}/acknowledge", {"by": "ann"}, token)
        self.assertEqual(acknowledge(ours, None)[0], 401)
        self.assertEqual(acknowledge(ours, admin.replace("admin", "viewer"))[0], 403)
        self.assertEqual(acknowledge(earlier, admin), (404, f"404: no incident has the id {earlier['id']}\n"))
        self.assertEqual(acknowledge(ours, admin), (200, {"acknowledged": ours["id"]}))
        self.assertEqual([[by["who"] for by in one["acknowledgements"]] for one in self.incidents()], [["ann"], []])
        self.end_job(run)

    def test_options_that_cannot_be_met_are_refused(self):
        loose = self.write("loose", KEY, 0o644)
        for options, words in ((["--alert", "ftp://host/secret"], "--alert takes"),
                               (["--alert-suspected"], "--alert-suspected needs an --alert"),
                               (["--alert", "http://h/secret", "--alert-key", loose], "is no secret"),
                               (["--alert", "http://h/secret", "--analyzer", "localhost:1"], "gordian serve --alert")):
            refused = self.run_job(*options)
            self.assertEqual(refused.returncode, 2)
            self.assert_one_line(refused.stderr, words)
            self.assertNotIn("secret", refused.stderr.replace("no secret", ""))
        for options in (["--since", "yesterday"], ["--note", "x"], ["--all", "--sessions", "d"]):
            refused = self.gordian("incidents", *options, env=self.env)
            self.assertEqual(refused.returncode, 2)
            self.assert_one_line(refused.stderr, options[0])


class Serve(IncidentTest):
    def test_one_alert_also_across_a_restart(self):
        receiver = self.receiver()
        options = ["--alert", receiver.url(), "--alert", receiver.url("alertmanager+http", "")]
        serve, listening, page = self.start_serve(*options)
        told = lambda path: [json.loads(body) for at, _, body in list(receiver.requests) if at == path]
        twin = self.gordian("run", "--emulator", "--quiet", "--analyzer", listening, "--job", "well", "--", *HANG,
                            "--twin", env=self.env)
        self.assertEqual(twin.returncode, 0, twin.stderr)
        node = self.start_node(listening, "hangs", *HANG)
        self.assertTrue(wait_until(lambda: told("/hook") and told("/api/v2/alerts"), 60))
        [alert] = told("/hook")
        self.assertEqual((alert["job"], alert["page"], alert["session"]), ("hangs", page, "all/hangs"))
        sent = lambda: {a["state"] for i in self.incidents("--sessions", "all") for a in i["alerts"]} == {"sent"}
        self.assertTrue(wait_until(sent))
        with urllib.request.urlopen(page + "api/v1/incidents", timeout=60) as answer:
            [served] = json.load(answer)["incidents"]
        self.assertEqual((served["id"], served["open"]), (alert["incident"], True))
        self.assertEqual(self.gordian("incidents", "--sessions", "all", env=self.env).returncode, 1)

        os.kill(serve.pid, signal.SIGKILL)
        serve.wait()
        serve, listening, page = self.start_serve(*options, port=int(listening.rsplit(":", 1)[1]))

        def verdict_now():
            with urllib.request.urlopen(page + "api/v1/jobs", timeout=60) as answer:
                return {j["job"]: (j["verdict"], j["confidence"]) for j in json.load(answer)["jobs"]}

        self.assertTrue(wait_until(lambda: verdict_now().get("hangs") == ("deadlock", "confirmed"), 60), verdict_now())
        # The node has come back and its job ends: all that it had to say has been heard.
        self.end_job(node)
        ended = lambda: [i["how_ended"] for i in self.incidents("--sessions", "all")] == ["job ended"]
        self.assertTrue(wait_until(ended, 60), self.incidents("--sessions", "all"))
        self.assertEqual(self.incidents("--sessions", "all")[0]["id"], alert["incident"])
        self.assertTrue(wait_until(lambda: len(told("/api/v2/alerts")) == 2), told("/api/v2/alerts"))
        self.signal_until_gone(serve, signal.SIGTERM)
        self.assertEqual(len(told("/hook")), 1)
        fires, ends = told("/api/v2/alerts")
        self.assertEqual(fires[0]["labels"], ends[0]["labels"])

    def test_an_alert_that_was_not_sent_survives_a_kill(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        options = ["--alert", f"http://127.0.0.1:{port}/hook"]
        serve, listening, _ = self.start_serve(*options)
        node = self.start_node(listening, "hangs", *HANG)
        pending = lambda: [a["state"] for i in self.incidents("--sessions", "all") for a in i["alerts"]] == ["pending"]
        self.assertTrue(wait_until(pending, 60))
        os.kill(serve.pid, signal.SIGKILL)
        serve.wait()
        receiver = self.receiver(port=port)
        serve, _, _ = self.start_serve(*options, port=int(listening.rsplit(":", 1)[1]))
        self.assertTrue(wait_until(lambda: receiver.requests, 60))
        self.end_job(node)
        self.assertTrue(wait_until(lambda: not self.incidents("--sessions", "all")[0]["open"], 60))
        self.signal_until_gone(serve, signal.SIGTERM)
        self.assertEqual(len(receiver.requests), 1)

    def test_commands_of_serve(self):
        serve, listening, _ = self.start_serve("--alert", 'exec:echo "$GORDIAN_ALERT $GORDIAN_JOB" >> told')
        node = self.start_node(listening, "hangs", *HANG)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("told")), 60))
        self.end_job(node)
        self.assertTrue(wait_until(lambda: not self.incidents("--sessions", "all")[0]["open"], 60))
        self.signal_until_gone(serve, signal.SIGTERM)
        with open(self.path("told")) as f:
            self.assertEqual(f.read(), "confirmed hangs\n")

    def test_a_link_in_the_place_of_the_store_is_left_alone(self):
        os.makedirs(self.path("all"), 0o700)
        victim = self.write("victim", "mine")
        os.symlink(victim, self.path("all/incidents.db"))
        receiver = self.receiver()
        serve, listening, page = self.start_serve("--alert", receiver.url())
        node = self.start_node(listening, "hangs", *HANG)
        self.assertTrue(wait_until(lambda: receiver.requests, 60))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(page + "api/v1/incidents", timeout=60)
        self.assertEqual(refused.exception.code, 404)
        self.end_job(node)
        self.signal_until_gone(serve, signal.SIGTERM)
        with open(victim) as f:
            self.assertEqual(f.read(), "mine")


class Alertmanager(IncidentTest):
    def test_the_real_one_takes_and_resolves_them(self):
        program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
        if program is None:
            self.skipTest("prometheus-alertmanager is not installed")
        hooks = self.receiver()
        config = self.write("am.yml", "route: {receiver: r, group_by: ['...'], group_wait: 0s, group_interval: 1s, "
                            f"repeat_interval: 1h}}\nreceivers: [{{name: r, webhook_configs: [{{url: '{hooks.url()}', "
                            "send_resolved: true}]}]\n")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = open(self.path("am.log"), "w")
        self.addCleanup(log.close)
        manager = subprocess.Popen([program, f"--config.file={config}", f"--storage.path={self.path('am')}",
                                    f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
                                   stdout=log, stderr=log)
        self.addCleanup(manager.wait)
        self.addCleanup(manager.kill)

        def alerts():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts", timeout=5) as answer:
                    return json.load(answer)
            except OSError:
                return None

        self.assertTrue(wait_until(lambda: alerts() == [], 60), "Alertmanager did not start")
        run = self.start("run", "--emulator", "--quiet", "--session", "s", "--job", "train", "--alert",
                         f"alertmanager+http://127.0.0.1:{port}", "--", *HANG, env=self.env)
        self.assertTrue(wait_until(lambda: alerts(), 60), "the alert did not come")
        [alert] = alerts()
        self.assertEqual((alert["labels"]["alertname"], alert["labels"]["job"], alert["labels"]["severity"]),
                         ("GordianDeadlock", "train", "critical"))
        self.assertTrue(alert["annotations"]["summary"].startswith("DEADLOCK (confirmed) in job train: "))
        self.assertEqual(alert["status"]["state"], "active")
        if shutil.which("amtool"):
            shown = subprocess.run(["amtool", "alert", f"--alertmanager.url=http://127.0.0.1:{port}", "-o", "json",
                                    "alertname=GordianDeadlock"], capture_output=True, text=True)
            self.assertEqual(len(json.loads(shown.stdout)), 1, shown.stderr)
        self.end_job(run)
        self.assertTrue(wait_until(lambda: alerts() == [], 60), alerts())
        notified = lambda: [d["status"] for d in hooks.documents()]
        self.assertTrue(wait_until(lambda: "resolved" in notified(), 60), notified())


if __name__ == "__main__":
    main()
