#!/usr/bin/env python3
"""What other processes of the user, files where gordian looks, and limits may do to a job and its verdict:

  neighbours.py BUILD_FOLDER [Class.test...]
"""
import html.parser
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cli_testing import (EMULATOR, GORDIAN, JOB, CliTest, alive, clean_environment, is_guardian, job_below, main,
                         stat_fields, tree_below, wait_until)
from fleet_testing import fill
from terminal_testing import OnTerminal

HANG = [JOB, "inversion_one_stream", "--ranks", "2"]
TWIN = [*HANG, "--twin"]


class Neighbours(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)

    def ring_dir(self, session="s"):
        with open(os.path.join(self.path(session), "manifest.json")) as f:
            return json.load(f)["ring_dir"]

    def bystander(self):
        process = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class Verdicts(Neighbours):
    def test_a_forged_ring_file_ends_no_other_process(self):
        other = self.bystander()
        forged = f"{other.pid}.{stat_fields(other.pid)[19]}.ring"
        script = f'cp /bin/true "$GORDIAN_RING_DIR/{forged}"; exec "$@"'
        done = self.gordian("run", "--emulator", "--session", "s", "--on-verdict", "kill", "--", "sh", "-c", script,
                            "sh", *HANG)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertTrue(alive(other.pid), "gordian ended a process that is not the job's")
        self.assertEqual(self.verdict()["verdict"], "deadlock")


class Rings(Neighbours):
    """Whatever other processes of the user do to a ring, the job runs on, and no verdict rests on it."""

    def damaged(self, damage):
        """A job whose rings are damaged, and that hangs then: its verdict, and whether it lives."""
        session = self.path("s")
        shutil.rmtree(session, ignore_errors=True)
        for name in ("until", "progress"):  # with the ids of the run before
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        env = clean_environment(JOB_UNTIL=self.path("until"), JOB_PROGRESS=self.path("progress"))
        process = self.start("run", "--emulator", "--session", "s", "--suspect-after", "0.5", "--", JOB,
                             "steady_then_inversion", "--ranks", "2", env=env)
        trace = self.path("s/trace.gtrace")
        self.assertTrue(wait_until(lambda: os.path.exists(trace) and os.path.getsize(trace) > 20_000))
        folder = self.ring_dir()
        rings = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".ring")]
        self.assertEqual(len(rings), 2)
        for ring in rings:
            with open(ring, "r+b") as f:
                damage(f, os.fstat(f.fileno()).st_size)
        self.write("until", "")
        self.rings = rings
        return process

    def test_scribbled_rings(self):
        page = 4096

        def fill(byte, first, last=None):
            def damage(f, size):
                end = size if last is None else last
                f.seek(first)
                f.write(byte * (end - first))
            return damage

        def noise(f, size):
            for _ in range(2000):
                f.seek(random.randrange(size // 8) * 8)
                f.write(random.randbytes(8))
        random.seed(29)
        noises = {f"noise {i}": noise for i in range(int(os.environ.get("GORDIAN_TEST_HOSTILE", "1")))}
        for name, damage in {**noises, "ones behind the header": fill(b"\xff", page), "all ones": fill(b"\xff", 0),
                             "zeros behind the header": fill(b"\0", page), "zeros": fill(b"\0", 0),
                             "counts of the header": fill(b"\xff", 136, page),
                             "ones in the slots": fill(b"\xff", 4 * page, 200 * page)}.items():
            with self.subTest(name):
                process = self.damaged(damage)
                living = job_below(process.pid)
                self.assertTrue(wait_until(lambda: self.verdict()["verdict"] != "healthy" or
                                           self.verdict()["confidence"] != "confirmed"), self.verdict())
                verdict = self.verdict()
                self.assertEqual([pid for pid in living if not alive(pid)], [], "the job did not survive its rings")
                self.assertFalse(verdict["verdict"] in ("healthy", "inconclusive") and
                                 verdict["confidence"] == "confirmed", verdict)
                self.assertLess(verdict["evidence"]["records_lost"], 1 << 40)
                self.assertLess(verdict["evidence"]["nccl_calls"], 1 << 40)
                self.signal_until_gone(process, signal.SIGTERM)
                closing = process.communicate()[1]
                self.assertNotIn("18,446,744", closing)

    def test_a_cut_ring_is_named(self):
        process = self.damaged(lambda f, size: f.truncate(0))
        self.assertEqual(process.wait(60), 128 + signal.SIGBUS)  # docs/security.md
        verdict = self.verdict()
        self.assertNotEqual(verdict["confidence"], "confirmed")
        self.assertIn("was truncated", str(verdict["evidence"]["not_visible"]))


class Limits(Neighbours):
    """Under limits that are small for gordian, the job ends as it does without it."""

    def limited(self, which, value, command, with_gordian, name="s"):
        env = clean_environment() if with_gordian else clean_environment(LD_LIBRARY_PATH=EMULATOR)
        run = [GORDIAN, "run", "--emulator", "--session", self.path(name), "--"] if with_gordian else []
        return subprocess.run([*run, *command], capture_output=True, text=True, env=env, cwd=self.work, timeout=60,
                              stdin=subprocess.DEVNULL, preexec_fn=lambda: resource.setrlimit(which, (value, value)))

    def check(self, which, values, commands):
        tried = 0
        for number, command in enumerate(commands):
            for value in values:
                with self.subTest(limit=value, command=command[-1]):
                    alone = self.limited(which, value, command, False)
                    if alone.returncode < 0 or alone.returncode not in (0, 7):
                        continue  # it is a limit for the job, too
                    tried += 1
                    done = self.limited(which, value, command, True, f"s{number}.{value}")
                    self.assertEqual(done.returncode, alone.returncode, done.stderr)
                    self.assertNotIn("static", done.stderr)
                    self.assertLess(len(done.stderr), 1000, "more than a few lines")
        self.assertGreater(tried, 1)

    EXIT = ["sh", "-c", "exit 7"]

    def test_small_files(self):
        self.check(resource.RLIMIT_FSIZE, [0, 1 << 10, 8 << 10, 64 << 10, 16 << 20], [self.EXIT, TWIN])

    def test_the_reason_is_the_real_one(self):
        done = self.limited(resource.RLIMIT_FSIZE, 6 << 20, self.EXIT, True)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("ulimit -f", done.stderr)
        self.assertIn("ulimit -f", self.verdict()["summary"])
        self.assertNotIn("static", self.verdict()["summary"] + self.verdict()["advice"])
        script = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
        small = ["unshare", "-m", "sh", "-c", script, "sh"]
        if subprocess.run([*small, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace allowed here")
        done = subprocess.run([*small, GORDIAN, "run", "--session", self.path("t"), "--", *self.EXIT], text=True,
                              capture_output=True, timeout=60, env=clean_environment(), cwd=self.work)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("--shm-size", done.stderr)
        self.assertIn("--shm-size", self.verdict("t")["summary"])

    def test_few_descriptors(self):
        self.check(resource.RLIMIT_NOFILE, [4, 6, 10, 16, 24, 32, 64], [self.EXIT, TWIN])

    def test_small_stacks(self):
        self.check(resource.RLIMIT_STACK, [kib << 10 for kib in (32, 64, 128, 512)], [self.EXIT, TWIN])


class Leftovers(Neighbours):
    def left_behind(self):
        """The ring folder of a run that was killed together with its guardian, and the job's processes."""
        process = self.start("run", "--emulator", "--session", "old", "--", *HANG)
        # An earlier verdict, that a rank has not come yet, may be written while there is one ring file.
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("old/verdict.json")) and
                                   self.verdict("old")["verdict"] == "deadlock"))
        folder, below = self.ring_dir("old"), tree_below(process.pid)
        guardians = list(filter(is_guardian, below))
        for pid in [*guardians, process.pid]:
            os.kill(pid, 9)
        process.wait()
        self.assertTrue(wait_until(lambda: not any(map(alive, guardians))))
        return folder, [pid for pid in below if alive(pid)]

    def test_the_next_run_sweeps(self):
        folder, job = self.left_behind()
        for pid in job:
            self.addCleanup(lambda pid=pid: alive(pid) and os.kill(pid, 9))
        self.assertEqual(len(job), 3, job)
        os.mkdir(os.path.join(folder, "sub"))
        self.gordian("run", "--session", "while-it-lives", "--", "true")
        self.assertTrue(os.path.isdir(folder), "its processes live, and analyze reads their rings")
        for pid in job:
            os.kill(pid, 9)
        self.assertTrue(wait_until(lambda: not any(map(alive, job))))
        done = self.gordian("run", "--session", "new", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(folder), os.listdir("/dev/shm"))
        rings = [os.path.join(self.path("old/rings"), name) for name in os.listdir(self.path("old/rings"))]
        self.assertEqual([os.path.islink(ring) for ring in rings], [False, False], "they are kept in the session")
        self.assertIn("from 2 ring files", self.gordian("analyze", "old").stderr)

    def test_nothing_else_is_swept(self):
        base = f"/dev/shm/gordian-{os.getuid()}-"
        target = self.path("target")
        os.mkdir(target)
        self.write("target/file", "")
        cases = {base + "link01": lambda path: os.symlink(target, path),
                 base + "file01": lambda path: open(path, "w").close(),
                 base + "open01": lambda path: (os.mkdir(path), os.chmod(path, 0o755)),
                 base + "mine01": lambda path: os.mkdir(path, 0o700)}  # without a note: an earlier version's
        try:
            for path, make in cases.items():
                make(path)
            self.gordian("run", "--session", "s", "--", "true")
            self.assertEqual([path for path in cases if not os.path.lexists(path)], [])
            self.assertTrue(os.path.exists(self.path("target/file")))
        finally:
            for path in cases:
                if os.path.islink(path) or os.path.isfile(path):
                    os.unlink(path)
                elif os.path.isdir(path):
                    os.rmdir(path)

    def test_a_running_job_is_not_swept(self):
        process = self.start("run", "--session", "long", "--", "sleep", "60")
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("long/manifest.json")) and
                                   os.path.getsize(self.path("long/manifest.json")) > 0))
        folder = self.ring_dir("long")
        self.gordian("run", "--session", "s", "--", "true")
        self.assertTrue(os.path.isdir(folder))
        job = job_below(process.pid)
        process.kill()  # its guardian holds the folder for as long as the job lives
        process.wait()
        self.gordian("run", "--session", "t", "--", "true")
        self.assertTrue(os.path.isdir(folder))
        for pid in job:
            os.kill(pid, 9)
        self.assertTrue(wait_until(lambda: not os.path.exists(folder)))


class Files(Neighbours):
    """Files that lie where gordian looks, and what it leaves there itself."""

    def test_sessions_are_their_users_alone(self):
        old = os.umask(0)
        try:
            self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        finally:
            os.umask(old)
        for folder, _, names in os.walk(self.path("s")):
            self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700, folder)
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    self.assertEqual(os.stat(path).st_mode & 0o077, 0, path)

    def test_a_folder_that_was_there_keeps_its_mode(self):
        os.mkdir(self.path("s"), 0o755)
        self.gordian("run", "--session", "s", "--", "true")
        self.assertEqual(os.stat(self.path("s")).st_mode & 0o777, 0o755)

    def test_pipes_are_not_waited_for(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        for name in ("verdict.json", "manifest.json", "trace.gtrace"):
            with self.subTest(name):
                shutil.rmtree(self.path("t"), ignore_errors=True)
                shutil.copytree(self.path("s"), self.path("t"), ignore=shutil.ignore_patterns("*.sock"))
                os.unlink(self.path("t/" + name))
                os.mkfifo(self.path("t/" + name))
                for verb in ("explain", "analyze", "status"):
                    done = self.gordian(verb, "t", timeout=60)
                    self.assertIn(done.returncode, (0, 2, 3), done.stdout + done.stderr)
        os.mkfifo(self.path("alone"))
        for verb in ("explain", "analyze"):
            self.assertEqual(self.gordian(verb, "alone", timeout=60).returncode, 2)

    def test_files_beyond_their_bounds(self):
        for name, begin, mib, verb, bound in (("a.json", "{", 300, "simulate", "256 MiB"),
                                              ("gordian.gtrace", "GTRACE1\n", 600, "analyze", None),
                                              ("nccl_trace_rank_0", '{"entries":', 600, "analyze", "512 MiB"),
                                              ("verdict.json", "{", 300, "explain", "256 MiB")):
            with self.subTest(name):
                folder = self.path("at-" + name)
                os.mkdir(folder)
                with open(os.path.join(folder, name), "w") as f:
                    f.write(begin)
                    f.truncate(mib << 20)  # a hole: it takes no room on the disk
                done = self.gordian(verb, folder if name == "verdict.json" else os.path.join(folder, name), timeout=60,
                                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)))
                self.assertEqual(done.returncode, 2 if bound else done.returncode, done.stdout + done.stderr)
                self.assertIn(done.returncode, (2, 3), done.stdout + done.stderr)
                self.assertIn(bound or "gordian", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_trace_cut_or_changed_anywhere(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        with open(self.path("s/trace.gtrace"), "rb") as f:
            whole = f.read()
        random.seed(29)
        for i in range(50):
            at = len(whole) * i // 50
            changed = bytearray(whole)
            changed[at] ^= 1 << random.randrange(8)
            for what, contents in ("cut", whole[:at]), ("changed", bytes(changed)):
                with self.subTest(what, at=at), open(self.path("t.gtrace"), "wb") as f:
                    f.write(contents)
                    f.flush()
                    done = self.gordian("analyze", "t.gtrace", timeout=60)
                    self.assertIn(done.returncode, (0, 1, 2, 3), done.stdout + done.stderr)
                    self.assertNotIn("gordian: healthy", done.stdout)

    def test_escapes_reach_no_terminal(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        verdict = self.verdict()
        evil = "a\u009b31mb\u001b[2Jc\u0085d"
        verdict.update(summary=evil, advice=evil)
        verdict["evidence"]["not_visible"] = [evil]
        self.write("s/verdict.json", json.dumps(verdict))
        done = self.gordian("explain", "s")
        self.assertEqual([c for c in done.stdout if c < " " and c != "\n" or "\x7f" <= c < "\xa0"], [], done.stdout)
        self.assertIn("31mb", done.stdout)


def tags_of(path):
    """The elements of an HTML file, in order, with their attributes but for hashes of what is in them."""
    tags = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, attributes))
    parser.handle_endtag = lambda tag: tags.append("/" + tag)
    with open(path, encoding="utf-8") as f:
        parser.feed(f.read())
    return tags


class Names(Neighbours):
    """Names that a job chooses, of its program, its communicators and its session, are text and nothing else: to a
    terminal, to a shell, in JSON, in the replay's source."""
    EVIL = "a'b\"c\\\n*/ ??/\n#error x\n$(touch pwned)`touch pwned`;\u001b[2J\u009b31m\u202e%s{}</script>"

    def test_as_text_alone(self):
        folder = self.path("b " + self.EVIL.replace("/", ":"))
        os.mkdir(folder)
        program = os.path.join(folder, self.EVIL.replace("/", "!"))
        shutil.copy(JOB, program)
        session = os.path.join(folder, "s")
        done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", program, *HANG[1:],
                            env=clean_environment(JOB_NAME_SUFFIX=self.EVIL))
        self.assertEqual(done.returncode, 137, done.stderr)
        texts = {"run": done.stderr}
        with open(os.path.join(session, "report.txt")) as f:
            texts["report.txt"] = f.read()
        for verb in ("explain", "analyze", "status"):
            texts[verb] = self.gordian(verb, session).stdout
        self.assertIn("touch pwned", texts["explain"])
        texts["watch"] = self.watched(program)
        self.assertIn("touch pwned", texts["watch"])
        twin = os.path.join(folder, "t")
        done = self.gordian("run", "--emulator", "--session", twin, "--", program, *TWIN[1:],
                            env=clean_environment(JOB_NAME_SUFFIX=self.EVIL))
        self.assertEqual(done.returncode, 0, done.stderr)
        texts["run that ends"] = done.stderr
        for options in (["predict", twin], ["plan", twin], ["plan", twin, "--collectives"], ["doctor", "--", program]):
            done = self.gordian(*options)
            texts[f"{options[0]}, {len(options)} words"] = done.stdout + done.stderr
        sleeper = os.path.join(folder, "sleep" + self.EVIL.replace("/", "!"))
        shutil.copy("/bin/sleep", sleeper)
        process = subprocess.Popen([sleeper, "60"], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        done = self.gordian("attach", str(process.pid))
        texts["attach"] = done.stdout + done.stderr
        self.assertIn("touch pwned", texts["attach"])
        for name, text in texts.items():
            self.assertEqual([c for c in text if c < " " and c != "\n" or "\x7f" <= c < "\xa0" or c == "\u202e"], [],
                             name + ": " + text)
            self.assertEqual([line for line in text.splitlines() if line.startswith("#error")], [], name + ": " + text)
        self.assertEqual(self.gordian("report", session, "-o", os.path.join(folder, "p.html")).returncode, 0)
        with open(os.path.join(folder, "p.html"), encoding="utf-8") as f:
            self.assertIn("touch pwned", f.read(), "the text for browsers without scripts has the name")
        innocent = self.gordian("run", "--emulator", "--quiet", "--session", "innocent", "--", JOB, *TWIN[1:])
        self.assertEqual(innocent.returncode, 0, innocent.stderr)
        for page in (os.path.join(session, "report.html"), os.path.join(folder, "p.html")):
            self.assertEqual(tags_of(page), tags_of(self.path("innocent/report.html")), "a name became markup")
        for options in (["analyze", session, "--json"], ["status", session, "--json"]):
            json.loads(self.gordian(*options).stdout)
        replay = self.gordian("replay", session, "-o", os.path.join(folder, "r"), "--minimize", "--verify", "1", "--fix",
                              "--json", timeout=120)
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)
        json.loads(replay.stdout)
        for where, _, names in os.walk(self.work):
            self.assertNotIn("pwned", names, where)

    def watched(self, program):
        """What `watch` shows of a hung job with everything open, on a terminal that takes no other sequences than
        its own (terminal_testing.Screen)."""
        self.start("run", "--emulator", "--quiet", "--session", "watched", "--", program, *HANG[1:],
                   env=clean_environment(JOB_NAME_SUFFIX=self.EVIL))
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("watched/verdict.json"))
                                   and self.verdict("watched")["stacks"]))
        try:
            watch = OnTerminal([GORDIAN, "watch", "watched"], self.work, clean_environment(TERM="xterm"), rows=150)
        except OSError as error:
            if "out of pty devices" in str(error):
                self.skipTest("no terminals here")
            raise
        self.addCleanup(watch.end)
        self.assertTrue(watch.shows("3 Ranks", "q quits"), watch.screen.text())
        for key, opened in (("2\n", "check            "), ("3\n", "NCCL call"), ("4\n", "identity "),
                            ("/zz\n", "filter: zz")):
            watch.press(key)
            self.assertTrue(watch.shows(opened), watch.screen.text())
        watch.press("\x1b")
        self.assertTrue(watch.until(lambda: "filter: zz" not in watch.screen.text()))
        text = watch.screen.text()
        watch.press("q")
        self.assertEqual(watch.wait(), 1)
        return text


class Power(Neighbours):
    """Verbs that read what others wrote have given up what they do not need by then."""

    def test_given_up_before_the_first_word(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        self.write("table.csv", "forward_us,backward_us,comm_us\n1,2,1\n")

        def filters(pid):
            with open(f"/proc/{pid}/status") as f:
                return next((int(line.split()[1]) for line in f if line.startswith("Seccomp_filters")), None)
        if filters("self") is None:
            self.skipTest("this kernel does not count a process's seccomp filters")
        for arguments in (["analyze", "s"], ["explain", "s"], ["export", "s", "-f", "jsonl"], ["status", "s"],
                          ["plan", "table.csv"], ["watch", "s"], ["attach", str(os.getpid())],
                          ["serve", "--listen", "127.0.0.1:0", "--sessions", "fleet"]):
            with self.subTest(arguments[0]):
                ends = os.pipe()
                fill(ends[1])  # its first word waits there
                process = self.start(*arguments, stdout=ends[1])
                os.close(ends[1])

                self.assertTrue(wait_until(lambda: filters(process.pid) > filters("self")))
                os.close(ends[0])
                process.kill()
                process.wait()


class Closing(Neighbours):
    """A verdict is the last word only if it says that it is."""

    def start_steady(self, **more):
        """A job that goes on until the file `until` is there, and then hangs."""
        env = clean_environment(JOB_UNTIL=self.path("until"), JOB_PROGRESS=self.path("progress"), **more)
        process = self.start("run", "--emulator", "--session", "s", "--", JOB, "steady_then_inversion", "--ranks", "2",
                             env=env)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("s/verdict.json"))))
        self.assertEqual((self.verdict()["verdict"], self.verdict()["closed"]), ("healthy", False))
        return process

    def check_left_open(self):
        for verb in ("explain", "analyze"):
            done = self.gordian(verb, "s")
            self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
            self.assertNotIn("gordian: healthy", done.stdout)
            self.assertNotIn("confirmed", done.stdout.splitlines()[0])
        explained = self.gordian("explain", "s")
        self.assertIn("is not the last word", explained.stderr)
        self.assertIn(self.verdict()["written"], explained.stderr)

    def test_kill_of_run_and_its_guardian(self):
        for guardian_too in (True, False):
            process = self.start_steady()
            below = tree_below(process.pid)
            for pid in below if guardian_too else []:
                if is_guardian(pid):
                    os.kill(pid, 9)
            process.kill()
            process.wait()
            for pid in below:
                self.addCleanup(lambda pid=pid: alive(pid) and os.kill(pid, 9))
            self.write("until", "")
            self.check_left_open()
            # As an earlier version left it.
            verdict = self.verdict()
            for key in ("written", "closed"):
                del verdict[key]
            self.write("s/verdict.json", json.dumps(verdict))
            self.assertEqual(self.gordian("explain", "s").returncode, 3)
            for pid in below:
                if alive(pid):
                    os.kill(pid, 9)
            shutil.rmtree(self.path("s"))
            os.unlink(self.path("until"))
            os.unlink(self.path("progress"))

    def test_while_the_job_runs_the_verdict_stands(self):
        self.start_steady()
        done = self.gordian("explain", "s")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_disk_that_fills_up_before_the_last_verdict(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        verdict = self.verdict()
        verdict.update(verdict="healthy", check="job-healthy", summary="Nothing is stuck.", closed=False)
        self.write("s/verdict.json", json.dumps(verdict))
        with open(self.path("s/trace.gtrace"), "r+b") as f:
            f.truncate(os.fstat(f.fileno()).st_size // 2)
        self.check_left_open()

    def test_an_end_in_order_closes_it(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        self.assertIs(self.verdict()["closed"], True)
        done = self.gordian("explain", "s")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
