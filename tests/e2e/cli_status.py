"""`gordian status` and `gordian watch` of jobs of the emulator: living, ended, and of which the `run` was
killed."""
import fcntl
import json
import os
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time

from cli_testing import (EMULATOR, GORDIAN, JOB, CliTest, alive, clean_environment, job_below, main, wait_until)

HANG = [JOB, "steady_then_inversion", "--ranks", "2"]


class StatusTest(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)

    def start_job(self, *job, session="s", until=None):
        """A `gordian run`; without `until` the steps end at once."""
        env = clean_environment(JOB_STEP_US="5000", **({"JOB_UNTIL": self.path(until)} if until else {}))
        run = self.start("run", "--emulator", "--quiet", "--session", session, "--", *job, env=env,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return run

    def status(self, *arguments):
        done = self.gordian("status", *arguments, "--json")
        return done, json.loads(done.stdout) if done.stdout else {}

    def until_verdict(self, verdict, *arguments):
        last = {}

        def there():
            last["done"], last["json"] = self.status(*arguments)
            return last["json"].get("verdict") == verdict
        self.assertTrue(wait_until(there, every=0.1), last)
        return last["done"], last["json"]


class Status(StatusTest):
    def test_a_living_job_that_hangs(self):
        run = self.start_job(*HANG)
        done, seen = self.until_verdict("deadlock", "s")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertEqual(seen["schema"], "gordian.status.v1")
        self.assertFalse(seen["job_ended"])
        self.assertEqual([r["rank"] for r in seen["ranks"]], [0, 1])
        job = job_below(run.pid)
        for rank in seen["ranks"]:
            self.assertIn(rank["pid"], job)
            self.assertEqual(rank["state"], "in_call", rank)
            self.assertEqual(rank["call"], "cudaStreamSynchronize")
            self.assertEqual(rank["node"], os.uname().nodename)
            self.assertGreaterEqual(rank["since_s"], 0)
            self.assertGreater(rank["nccl_calls"], 0)
        self.assertEqual({r["operation"].split(" on ")[1].split(" ")[0] for r in seen["ranks"]}, {"dp", "tp"})
        comms = {c["name"]: c for c in seen["communicators"]}
        self.assertEqual(set(comms), {"dp", "tp"})
        for comm in comms.values():
            self.assertEqual((comm["size"], comm["ranks_seen"]), (2, 2))

        before = seen["since_progress_s"]
        self.assertTrue(wait_until(lambda: self.status("s")[1]["since_progress_s"] > before), "it is not of now")
        text = self.gordian("status", "s")
        self.assertEqual(text.returncode, 1)
        self.assertTrue(text.stdout.startswith("gordian: DEADLOCK (confirmed"), text.stdout)
        self.assertNotIn("\x1b", text.stdout, "colours without a terminal")
        for words in ["session s, 2 ranks", "cudaStreamSynchronize", "COMMUNICATOR", "dp", "tp", "ranks 0 and 1"]:
            self.assertIn(words, text.stdout)
        self.assertLessEqual(max(len(line) for line in text.stdout.splitlines()), 100)

        socket = os.stat(self.path("s/gordian.sock"))
        self.assertTrue(stat.S_ISSOCK(socket.st_mode))
        self.assertEqual(stat.S_IMODE(socket.st_mode), 0o600)
        self.end_job(run)
        self.assertFalse(os.path.exists(self.path("s/gordian.sock")))

    def test_a_rank_that_has_not_come_is_behind(self):
        self.start_job(JOB, "missing_rank", "--ranks", "2")
        behind = lambda: [c for c in self.status("s")[1].get("communicators", []) if c["behind"] == [1]]
        self.assertTrue(wait_until(behind, every=0.1), self.status("s"))
        text = self.gordian("status", "s").stdout
        self.assertRegex(text, r"(?m)^\S+ +0,1 +#\d+ to #\d+ +rank 1  job.cc:\d+ ")

    def test_a_job_that_stands_still_is_not_healthy(self):
        threshold = 1
        self.start("run", "--emulator", "--quiet", "--session", "s", "--suspect-after", str(threshold), "--", JOB,
                   "device_waits", "--ranks", "2", env=clean_environment(), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
        _, seen = self.until_verdict("inconclusive", "s")
        for _ in range(10):
            self.assertNotEqual(seen["verdict"], "healthy", "nothing has moved since status said so")
            self.assertGreater(seen["since_progress_s"], threshold)
            time.sleep(0.1)
            _, seen = self.status("s")
        self.assertTrue(self.gordian("status", "s").stdout.startswith("gordian: INCONCLUSIVE: no rank has called"))

    def test_a_living_job_that_is_healthy(self):
        run = self.start_job(*HANG, "--twin", until="now")
        done, seen = self.until_verdict("healthy", "s")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(wait_until(lambda: len(self.status("s")[1]["communicators"]) == 2))
        calls = lambda: sum(r["nccl_calls"] for r in self.status("s")[1]["ranks"])
        first = calls()
        self.assertTrue(wait_until(lambda: calls() > first), "it goes on")
        self.write("now", "")
        self.assertEqual(run.wait(30), 0, "a job that is looked at ends as it would alone")
        done, seen = self.status("s")
        self.assertEqual((done.returncode, seen["verdict"], seen["job_ended"]), (0, "finished", True))
        self.assertEqual([r["state"] for r in seen["ranks"]], ["ended", "ended"])
        self.assertIn("job ended", self.gordian("status", "s").stdout)

    def test_latest_is_the_session_when_none_is_named(self):
        done = self.gordian("run", "--emulator", "--quiet", "--", *HANG, "--twin")
        self.assertEqual(done.returncode, 0, done.stderr)
        done, seen = self.status()
        self.assertEqual((done.returncode, seen["verdict"]), (0, "finished"))
        self.assertEqual(self.gordian("watch").returncode, 0)

    def test_of_a_run_that_was_killed(self):
        run = self.start_job(*HANG)
        self.until_verdict("deadlock", "s")
        job = job_below(run.pid)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        self.addCleanup(lambda: [os.kill(p, signal.SIGKILL) for p in job if alive(p)])
        self.assertTrue(os.path.exists(self.path("s/gordian.sock")), "a stale socket is part of this test")
        done, seen = self.status("s")
        self.assertEqual((done.returncode, seen["verdict"]), (1, "deadlock"), done.stderr)
        self.assertEqual(len(seen["ranks"]), 2)
        self.assertEqual({c["name"] for c in seen["communicators"]}, {"dp", "tp"})
        self.assert_one_line(done.stderr, "up to there")
        watched = self.gordian("watch", "s")
        self.assertEqual(watched.returncode, 1)
        self.assertIn("DEADLOCK", watched.stdout)

    def test_a_session_whose_path_is_too_long_for_the_address_of_a_socket(self):
        deep = "/".join(["d" * 60] * 2)
        os.makedirs(self.path(deep))
        run = self.start_job(*HANG, session=deep + "/s")
        done, seen = self.until_verdict("deadlock", deep + "/s")
        self.assertEqual((done.returncode, len(seen["ranks"])), (1, 2))
        self.assertTrue(os.path.exists(self.path(deep + "/s/gordian.sock")))
        os.rename(self.path(deep + "/s/trace.gtrace"), self.path("aside"))  # only the one that runs can answer
        done, seen = self.status(deep + "/s")
        self.assertEqual((done.returncode, len(seen["ranks"])), (1, 2), done.stderr)
        self.end_job(run)
        self.assertFalse(os.path.exists(self.path(deep + "/s/gordian.sock")))

    def test_a_session_with_nothing_but_a_verdict(self):
        done = self.gordian("run", "--emulator", "--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual(done.returncode, 137)
        os.remove(self.path("s/trace.gtrace"))
        shutil.rmtree(self.path("s/rings"))
        done, seen = self.status("s")
        self.assertEqual((done.returncode, seen["verdict"]), (1, "deadlock"), done.stderr)

    def test_of_a_job_at_an_analyzer_of_many(self):
        serve = self.start("serve", "--listen", "127.0.0.1:0", "--sessions", "all", "--json")
        address = json.loads(serve.stdout.readline())["listening"]
        done = self.gordian("status", "--analyzer", address)
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, address, "no job")
        run = self.start("run", "--emulator", "--quiet", "--session", "s", "--analyzer", address, "--job", "train",
                         "--node", "n0", "--nodes", "1", "--", *HANG,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for arguments in [["--analyzer", address, "--job", "train"], ["--analyzer", address], ["s"]]:
            done, seen = self.until_verdict("deadlock", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertEqual([r["node"] for r in seen["ranks"]], ["n0", "n0"])
        self.assertEqual(self.gordian("status", "--analyzer", address, "--job", "other").returncode, 2)
        self.end_job(run)
        self.signal_until_gone(serve, signal.SIGTERM)
        done = self.gordian("status", "--analyzer", address)
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, address)


class Watch(StatusTest):
    def test_prints_changes_and_ends_with_the_job(self):
        run = self.start_job(*HANG, until="now")
        self.until_verdict("healthy", "s")
        watch = self.start("watch", "s")
        self.assertIn("healthy", watch.stdout.readline())
        self.write("now", "")
        self.assertIn("DEADLOCK (confirmed", watch.stdout.readline())
        self.assertIsNone(watch.poll(), "the job still hangs")
        self.end_job(run)
        out, err = watch.communicate(timeout=20)
        self.assertEqual(watch.returncode, 1, err)
        self.assertEqual(err, "")
        for line in out.splitlines():
            self.assertTrue(line.startswith("gordian: "), line)

    def test_of_a_healthy_job_ends_with_0(self):
        run = self.start_job(*HANG, "--twin", until="now")
        self.until_verdict("healthy", "s")
        watch = self.start("watch", "s")
        watch.stdout.readline()
        self.write("now", "")
        out, err = watch.communicate(timeout=30)
        self.assertEqual((watch.returncode, run.wait(20)), (0, 0), out + err)
        self.assertIn("FINISHED", out.upper())

    def on_a_terminal(self, *arguments):
        try:
            master, slave = os.openpty()
        except OSError as error:
            if "out of pty devices" in str(error) or error.args == ("out of pty devices",):
                self.skipTest("no terminals here")
            raise
        self.addCleanup(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        process = subprocess.Popen([GORDIAN, *arguments], cwd=self.work, stdin=slave, stdout=slave, stderr=slave,
                                   env=clean_environment(TERM="xterm"), start_new_session=True)
        os.close(slave)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process, master

    def read(self, master, seconds):
        out = b""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([master], [], [], left)[0]:
                try:
                    out += os.read(master, 65536)
                except OSError:  # the other side is gone
                    break
        return out.decode()

    def read_until(self, master, wanted, seconds=20):
        out = ""
        deadline = time.monotonic() + seconds
        while wanted not in out and time.monotonic() < deadline:
            out += self.read(master, 0.3)
        return out

    def test_redraws_calmly_on_a_terminal_and_leaves_the_job_alone(self):
        run = self.start_job(*HANG, until="now")
        self.until_verdict("healthy", "s")
        watch, master = self.on_a_terminal("watch", "s")
        first = self.read_until(master, "healthy")
        self.assertTrue(first.startswith("\x1b[?25l\x1b[H\x1b[2J"), repr(first))
        self.assertIn("\x1b[K", first)
        self.assertIn("healthy", first)
        self.assertIn("\x1b[1;32m", first)
        self.write("now", "")
        out = self.read_until(master, "DEADLOCK")
        self.assertIn("\x1b[1;31mgordian: DEADLOCK", out)
        self.assertNotIn("\x1b[2J", out, "it flickers")
        self.read(master, 0.5)
        frames = self.read(master, 2.2).count("\x1b[H")
        self.assertLessEqual(frames, 8, "nothing but the seconds grows")
        self.assertGreaterEqual(frames, 1)
        watch.send_signal(signal.SIGINT)
        last = self.read_until(master, "\x1b[?25h")
        self.assertTrue(last.endswith("\x1b[?25h"), repr(last))
        self.assertEqual(watch.wait(5), 128 + signal.SIGINT)
        self.assertIsNone(run.poll(), "the job was left alone")
        self.assertEqual(self.status("s")[1]["verdict"], "deadlock")

    def test_on_a_terminal_the_last_screen_stays(self):
        self.gordian("run", "--emulator", "--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        watch, master = self.on_a_terminal("watch", "s")
        out = self.read(master, 1.5)
        self.assertEqual(watch.wait(10), 1)
        shown = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", out)
        self.assertIn("DEADLOCK", shown)
        self.assertIn("job ended", shown)
        self.assertTrue(out.endswith("\x1b[?25h"), repr(out))
        self.assertNotIn("Ctrl-C", shown)


if __name__ == "__main__":
    main()
