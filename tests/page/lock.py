"""Who is let in: TLS, certificates and tokens of `gordian serve`, its nodes and its viewers.

  lock.py BUILD [Class.test]
"""
import json
import os
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
from cli_testing import (EMULATOR, JOB, CliTest, clean_environment, main, wait_until)  # noqa: E402

HANG = [JOB, "steady_then_inversion", "--ranks", "2"]


class LockTest(CliTest):
    def setUp(self):
        super().setUp()
        for path in (JOB, os.path.join(EMULATOR, "libnccl.so.2")):
            self.need(path)
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.work)

    def authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        return name

    def certificate(self, name, authority, days=2):
        """NAME.pem and NAME.key for this machine, signed by the authority."""
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self.write("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                     "-CAcreateserial", "-days", str(days), "-extfile", "names", "-out", f"{name}.pem")
        return ["--tls-cert", f"{name}.pem", "--tls-key", f"{name}.key"]

    def serve(self, *options, listen="127.0.0.1:0", http="127.0.0.1:0"):
        serve = self.start("serve", "--listen", listen, "--http", http, "--sessions", "all", "--json", *options)
        line = serve.stdout.readline()
        self.assertTrue(line, serve.poll() is not None and serve.stderr.read())
        first = json.loads(line)
        port = first["listening"].rsplit(":", 1)[1]
        return serve, f"127.0.0.1:{port}", first

    def node(self, analyzer, job, *options, command=(), timeout=60):
        """A job that ends well, of one node; what gordian said."""
        done = self.gordian("run", "--emulator", "--analyzer", analyzer, "--job", job, "--session", f"node-{job}",
                            *options, "--", *(command or (*HANG, "--twin")), timeout=timeout,
                            env=clean_environment(GORDIAN_DELIVER_S="2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def arrived(self, job):
        return os.path.exists(self.path(f"all/{job}/verdict.json")) and self.verdict(f"all/{job}")["verdict"]

    def token(self, *options):
        done = self.gordian("token", "all", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def token_file(self, name, *options):
        return ["--token-file", self.write(name, self.token(*options) + "\n", mode=0o600)]


def post(url, body, token=None):
    """The status and the text of the answer to a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def fetch(url, token=None, context=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class Tls(LockTest):
    def test_nodes_come_by_tls_alone(self):
        self.authority("ours")
        self.authority("foreign")
        serve, at, _ = self.serve(*self.certificate("head", "ours"))
        self.assertNotIn("cannot reach", self.node(at, "by-tls", "--tls-ca", "ours.pem"))
        self.assertEqual(self.arrived("by-tls"), "finished")
        for job, options in (("plain", []), ("other-authority", ["--tls-ca", "foreign.pem"])):
            said = self.node(at, job, *options)
            self.assertIn("cannot reach the analyzer", said)
            self.assertFalse(self.arrived(job), said)
            # What it could not send it decided itself.
            self.assertEqual(self.verdict(f"node-{job}")["verdict"], "finished")
        self.signal_until_gone(serve, signal.SIGTERM)

    def test_a_name_that_is_not_the_certificates(self):
        self.authority("ours")
        certificate = self.certificate("head", "ours")  # of 127.0.0.1
        serve, at, _ = self.serve(*certificate, listen="127.0.0.2:0")
        said = self.node(at.replace("127.0.0.1", "127.0.0.2"), "elsewhere", "--tls-ca", "ours.pem")
        self.assertIn("cannot reach the analyzer", said)
        self.assertFalse(self.arrived("elsewhere"))
        self.signal_until_gone(serve, signal.SIGTERM)

    def test_clients_show_certificates_where_the_server_asks(self):
        self.authority("ours")
        self.authority("foreign")
        serve, at, first = self.serve(*self.certificate("head", "ours"), "--tls-ca", "ours.pem")
        good, bad = self.certificate("node", "ours"), self.certificate("stranger", "foreign")
        self.node(at, "good", "--tls-ca", "ours.pem", *good)
        self.assertEqual(self.arrived("good"), "finished")
        for job, options in (("none", []), ("bad", bad)):
            self.assertIn("cannot reach the analyzer", self.node(at, job, "--tls-ca", "ours.pem", *options))
            self.assertFalse(self.arrived(job))
        # The same of the page.
        url = first["page"] + "healthz"
        self.assertTrue(url.startswith("https://"), url)
        context = ssl.create_default_context(cafile=self.path("ours.pem"))
        with self.assertRaises((ssl.SSLError, urllib.error.URLError, ConnectionError)):
            fetch(url, context=context)
        context.load_cert_chain(self.path("stranger.pem"), self.path("stranger.key"))
        with self.assertRaises((ssl.SSLError, urllib.error.URLError, ConnectionError)):
            fetch(url, context=context)
        context = ssl.create_default_context(cafile=self.path("ours.pem"))
        context.load_cert_chain(self.path("node.pem"), self.path("node.key"))
        self.assertEqual(fetch(url, context=context), 200)
        self.signal_until_gone(serve, signal.SIGTERM)

    def test_a_renewed_certificate_is_used_and_streams_go_on(self):
        self.authority("ours")
        certificate = self.certificate("head", "ours")
        serve, at, first = self.serve(*certificate)
        node = self.start("run", "--emulator", "--analyzer", at, "--job", "long", "--session", "long", "--tls-ca",
                          "ours.pem", "--", *HANG, "--twin", env=clean_environment(JOB_UNTIL=self.path("go")),
                          stdout=subprocess.DEVNULL)
        self.assertTrue(wait_until(lambda: self.arrived("long") == "healthy"))

        def shown(address):
            host, port = address.rsplit(":", 1)
            return ssl.get_server_certificate((host, int(port)))
        page = urllib.parse.urlsplit(first["page"]).netloc
        before = {address: shown(address) for address in (at, page)}
        self.certificate("renewed", "ours")
        for ending in ("key", "pem"):  # each at once, as renewers do
            os.replace(self.path(f"renewed.{ending}"), self.path(f"head.{ending}"))
        for address in (at, page):
            self.assertTrue(wait_until(lambda: shown(address) != before[address], seconds=60, every=0.5), address)
        self.write("go", "")
        said = node.communicate(timeout=60)[1]
        self.assertEqual(node.returncode, 0, said)
        self.assertNotIn("broke", said, "the stream was cut")
        self.assertEqual(self.arrived("long"), "finished")
        self.signal_until_gone(serve, signal.SIGTERM)

    def test_files_that_cannot_be_used_are_named(self):
        self.authority("ours")
        self.certificate("head", "ours")
        self.write("junk.pem", "junk\n")
        for options, words in ((["--tls-cert", "head.pem"], "--tls-key"), (["--tls-ca", "ours.pem"], "--tls-ca needs"),
                               (["--tls-cert", "junk.pem", "--tls-key", "head.key"], "junk.pem"),
                               (["--tls-cert", "head.pem", "--tls-key", "ours.key"], "ours.key"),
                               (["--tls-cert", "nosuch.pem", "--tls-key", "head.key"], "nosuch.pem")):
            done = self.gordian("serve", "--listen", "127.0.0.1:0", "--sessions", "all", *options)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        for options, words in ((["--tls-ca", "nosuch.pem"], "nosuch.pem"), (["--token-file", "nosuch"], "nosuch"),
                               (["--tls-ca", "ours.pem", "--tls-cert", "head.pem"], "half of a certificate")):
            done = self.gordian("run", "--analyzer", "127.0.0.1:1", *options, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


class PageOfRun(LockTest):
    def start_run(self, *options, http="127.0.0.1:0"):
        """A `gordian run --http` of a job that hangs, and the page's address."""
        run = self.start("run", "--emulator", "--session", "s", "--http", http, *options, "--", *HANG,
                         env=clean_environment(), stdout=subprocess.DEVNULL)
        line = run.stderr.readline()
        self.assertIn("gordian: page: ", line)
        return run, line.split("gordian: page: ")[1].strip()

    def certificate_of_page(self, name, authority):
        cert, key = self.certificate(name, authority)[1::2]
        return ["--http-tls-cert", cert, "--http-tls-key", key]

    def test_the_page_comes_by_tls_with_a_token(self):
        self.authority("ours")
        run, address = self.start_run(*self.certificate_of_page("head", "ours"), http="0.0.0.0:0")
        self.assertTrue(address.startswith("https://"), address)
        token = address.split("#token=")[1]
        here = f"127.0.0.1:{urllib.parse.urlsplit(address).port}/api/v1/jobs"
        context = ssl.create_default_context(cafile=self.path("ours.pem"))
        self.assertEqual([fetch("https://" + here, shown, context) for shown in (None, "x", token)], [401, 401, 200])
        with self.assertRaises((urllib.error.URLError, ConnectionError)):
            fetch("http://" + here, token)
        with self.assertRaises(urllib.error.URLError):  # this viewer trusts other authorities
            fetch("https://" + here, token, ssl.create_default_context())
        self.end_job(run)

    def test_viewers_show_certificates_where_the_page_asks(self):
        self.authority("ours")
        self.certificate("viewer", "ours")
        run, address = self.start_run(*self.certificate_of_page("head", "ours"), "--http-tls-ca", "ours.pem")
        self.assertTrue(address.startswith("https://127.0.0.1:"), address)
        context = ssl.create_default_context(cafile=self.path("ours.pem"))
        with self.assertRaises((ssl.SSLError, urllib.error.URLError, ConnectionError)):
            fetch(address + "healthz", context=context)
        context.load_cert_chain(self.path("viewer.pem"), self.path("viewer.key"))
        self.assertEqual(fetch(address + "healthz", context=context), 200)
        self.end_job(run)

    def test_half_of_it_is_refused_by_name(self):
        self.authority("ours")
        self.certificate("head", "ours")
        pair = ["--http-tls-cert", "head.pem", "--http-tls-key", "head.key"]
        http = ["--http", "127.0.0.1:0"]
        for options, words in (([*http, *pair[:2]], "--http-tls-key"), ([*http, *pair[2:]], "--http-tls-cert"),
                               ([*http, "--http-tls-ca", "ours.pem"], "--http-tls-ca needs"),
                               (pair, "--http HOST:PORT")):
            done = self.gordian("run", *options, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        # A file that cannot be used costs the page, not the job.
        done = self.gordian("run", "--emulator", "--session", "s", *http, *pair[:2], "--http-tls-key", "ours.key", "--",
                            *HANG, "--twin")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ours.key", done.stderr)


class Tokens(LockTest):
    def test_beyond_loopback_a_node_needs_the_token_of_its_job(self):
        serve, at, first = self.serve(listen="0.0.0.0:0")
        self.assertTrue(first["nodes_need_token"])
        self.assertEqual(stat.S_IMODE(os.stat(self.path("all/access.key")).st_mode), 0o600)
        ours = self.token_file("ours", "--job", "ours")
        for job, options in (("none", []), ("other", ours), ("viewer", self.token_file("v"))):
            said = self.node(at, job, *options)
            self.assertIn("token", said)
            self.assertFalse(self.arrived(job), said)
            self.assertNotIn(self.token("--job", "ours"), said, "a token is not printed")
        self.node(at, "ours", *ours)
        self.assertEqual(self.arrived("ours"), "finished")
        self.node(at, "any", *self.token_file("c", "--role", "collector"))
        self.assertEqual(self.arrived("any"), "finished")
        said = serve.stderr
        self.signal_until_gone(serve, signal.SIGTERM)
        said = said.read()
        self.assertEqual(said.count("refused the node"), 3, said)

    def test_viewers_need_one_that_lets_them_see(self):
        serve, at, first = self.serve(listen="0.0.0.0:0", http="0.0.0.0:0")
        viewer, job = self.token(), self.token("--job", "j")
        self.assertTrue(first["page"].endswith("#token=" + viewer))
        here = f"http://127.0.0.1:{urllib.parse.urlsplit(first['page']).port}/"
        self.assertEqual([fetch(here + "api/v1/jobs", token) for token in (None, "x", job, viewer)], [401, 401, 401, 200])
        ask = lambda *options: self.gordian("status", "--analyzer", at, "--job", "j", "--json", *options)
        hangs = self.start("run", "--emulator", "--quiet", "--analyzer", at, "--job", "j", "--session", "j",
                           *self.token_file("t", "--job", "j"), "--", *HANG, env=clean_environment(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(wait_until(lambda: self.arrived("j") == "deadlock"))
        done = ask()
        self.assertEqual(done.returncode, 2)
        self.assertIn("wants a token", done.stderr)
        for options in (self.token_file("v"), self.token_file("t", "--job", "j")):
            done = ask(*options)
            self.assertEqual(json.loads(done.stdout)["verdict"], "deadlock", done.stderr)
        self.assertEqual(ask(*self.token_file("o", "--job", "other")).returncode, 2)
        self.end_job(hangs)
        self.signal_until_gone(serve, signal.SIGTERM)

    def test_none_is_wanted_on_loopback_or_where_that_is_said(self):
        for listen, options in (("127.0.0.1:0", []), ("0.0.0.0:0", ["--insecure"])):
            serve, at, first = self.serve(*options, listen=listen, http=listen)
            self.assertFalse(first["nodes_need_token"])
            self.assertNotIn("token", first["page"])
            job = "a" if not options else "b"
            self.node(at, job)
            self.assertEqual(self.arrived(job), "finished")
            port = urllib.parse.urlsplit(first["page"]).port
            self.assertEqual(fetch(f"http://127.0.0.1:{port}/api/v1/jobs"), 200)
            self.signal_until_gone(serve, signal.SIGTERM)
        self.assertFalse(os.path.exists(self.path("all/access.key")))

    def incident_of(self, here, token=None):
        request = urllib.request.Request(here + "api/v1/incidents",
                                         headers={"Authorization": f"Bearer {token}"} if token else {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["incidents"][0]

    def test_only_an_admin_acknowledges_on_loopback_as_well(self):
        for http, name in (("127.0.0.1:0", "a"), ("0.0.0.0:0", "b")):
            with self.subTest(http=http):
                serve, at, first = self.serve(http=http)
                here = f"http://127.0.0.1:{urllib.parse.urlsplit(first['page']).port}/"
                hangs = self.start("run", "--emulator", "--quiet", "--analyzer", at, "--job", name, "--session", name,
                                   "--", *HANG, env=clean_environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
                self.assertTrue(wait_until(lambda: self.arrived(name) == "deadlock"))
                if http.startswith("127"):
                    code, said = post(here + "api/v1/incidents/5f0c/acknowledge", {"by": "ann"}, "admin-guess")
                    self.assertEqual(code, 403)
                    self.assertIn("gordian token --role admin all prints one", said)
                    self.assertFalse(os.path.exists(self.path("all/access.key")), "a guess makes no key")
                viewer, admin = self.token(), self.token("--role", "admin")
                see = viewer if first["page"].endswith(viewer) else None
                self.assertTrue(wait_until(lambda: self.incident_of(here, see)["open"]))
                incident = self.incident_of(here, see)["id"]
                address = f"{here}api/v1/incidents/{incident}/acknowledge"
                os.mkdir(self.path(f"foreign-{name}"))
                foreign = self.gordian("token", f"foreign-{name}", "--role", "admin").stdout.strip()
                collector, job = self.token("--role", "collector"), self.token("--job", name)
                ann = {"by": "ann", "note": "node9 <b>again</b>"}
                for token, wanted in ((None, 401), (viewer, 403), (collector, 403), (job, 403), (foreign, 403)):
                    code, said = post(address, ann, token)
                    self.assertEqual(code, wanted, (token, said))
                    self.assertIn("gordian token --role admin", said)
                for body, wanted in ((b"{", 400), (b"[]", 400), ({"note": "x"}, 400), ({"by": 7}, 400),
                                     ({"by": "ann", "note": "x" * 5000}, 413)):
                    code, said = post(address, body, admin)
                    self.assertEqual(code, wanted, said)
                code, said = post(f"{here}api/v1/incidents/nosuch/acknowledge", ann, admin)
                self.assertEqual((code, said), (404, "404: no incident has the id nosuch\n"))
                self.assertEqual(self.incident_of(here, see)["acknowledgements"], [])
                for by in (ann, {"by": "bob"}):
                    self.assertEqual(post(address, by, admin), (200, json.dumps({"acknowledged": incident},
                                                                                separators=(",", ":"))))
                kept = self.incident_of(here, admin)["acknowledgements"]
                self.assertEqual([(one["who"], one["note"]) for one in kept], [("ann", ann["note"]), ("bob", "")])
                self.assertEqual(post(here + "api/v1/jobs", ann, admin)[0], 405)
                self.assertEqual(fetch(address, admin), 405)
                # The command line has the same.
                listed = self.gordian("incidents", "--sessions", "all", "--json", "--job", name)
                self.assertEqual(json.loads(listed.stdout)["incidents"][0]["acknowledgements"], kept)
                self.end_job(hangs)
                said = serve.stderr
                self.signal_until_gone(serve, signal.SIGTERM)
                said = said.read()
                self.assertEqual(said.count("HTTP: a wrong token from 127.0.0.1"), 1, said)
                self.assertNotIn(viewer, said)

    def test_tokens_last_until_the_key_is_removed(self):
        os.mkdir(self.path("all"))
        first = self.token("--job", "j")
        self.assertEqual(self.token("--job", "j"), first)
        others = {self.token(), self.token("--role", "collector"), self.token("--role", "admin"), self.token("--job", "k")}
        self.assertEqual(len(others | {first}), 5)
        os.remove(self.path("all/access.key"))
        self.assertNotEqual(self.token("--job", "j"), first)

    def test_a_key_that_is_no_secret_is_refused(self):
        os.mkdir(self.path("all"))
        self.token()
        key = self.path("all/access.key")
        os.chmod(key, 0o644)
        done = self.gordian("token", "all")
        self.assertEqual(done.returncode, 2)
        self.assertIn("access.key", done.stderr)
        done = self.gordian("serve", "--listen", "0.0.0.0:0", "--sessions", "all")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("access.key", done.stderr)
        os.remove(key)
        os.symlink("/etc/hostname", key)
        self.assertEqual(self.gordian("token", "all").returncode, 2)
        os.remove(key)
        self.write("all/access.key", "short\n", mode=0o600)
        self.assertEqual(self.gordian("token", "all").returncode, 2)


if __name__ == "__main__":
    main()
