"""`gordian status` and `gordian watch` of jobs of the emulator: living, ended, and of which the `run` was
killed."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import termios
import time

from cli_testing import (EMULATOR, GORDIAN, JOB, CliTest, alive, clean_environment, job_below, main, wait_until)
from terminal_testing import OnTerminal

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
        # Before the ranks have started a status is inconclusive for another reason.
        self.assertTrue(wait_until(lambda: self.status("s")[1].get("check") == "no-progress", every=0.1))
        _, seen = self.status("s")
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
        self.assertEqual(run.wait(60), 0, "a job that is looked at ends as it would alone")
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
        out, err = watch.communicate(timeout=60)
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
        out, err = watch.communicate(timeout=60)
        self.assertEqual((watch.returncode, run.wait(60)), (0, 0), out + err)
        self.assertIn("FINISHED", out.upper())

    def on_a_terminal(self, *command, env=None, **options):
        try:
            terminal = OnTerminal(list(command) or [GORDIAN, "watch", "s"], self.work,
                                  env or clean_environment(TERM="xterm"), **options)
        except OSError as error:
            if "out of pty devices" in str(error):
                self.skipTest("no terminals here")
            raise
        self.addCleanup(terminal.end)
        return terminal

    def hung_job(self):
        run = self.start_job(*HANG)
        self.until_verdict("deadlock", "s")
        self.assertTrue(wait_until(lambda: self.verdict()["stacks"]), "stacks come a moment later")
        return run

    def assert_left_as_it_was(self, terminal):
        self.assertEqual(terminal.settings(), terminal.before)
        self.assertTrue(terminal.screen.cursor_shown)
        self.assertFalse(terminal.screen.own_screen)

    def test_the_first_screen_is_the_verdicts_card(self):
        run = self.start_job(*HANG, until="now")
        self.until_verdict("healthy", "s")
        watch = self.on_a_terminal(rows=40)
        self.assertTrue(watch.shows("gordian: healthy", "session s, 2 ranks", "3 Ranks", "q quits"),
                        watch.screen.text())
        self.assertTrue(watch.screen.own_screen)
        self.assertFalse(watch.screen.cursor_shown)
        self.assertIn("1;32", watch.screen.seen_styles)
        self.write("now", "")
        self.assertTrue(watch.shows("gordian: DEADLOCK (confirmed", "no progress for", "waits for rank", "at job.cc:",
                                    "cause: look at rank", "what to change:", "next: gordian explain s"),
                        watch.screen.text())
        self.assertIn("1;31", watch.screen.seen_styles)
        self.assertEqual(watch.raw.count("\x1b[2J"), 1, "it flickers")
        quiet = lambda: int(re.search(r"no progress for (\d+) s", watch.screen.text())[1])
        self.assertTrue(watch.until(lambda: quiet() >= 2))
        before, then = len(watch.raw), quiet()
        self.assertTrue(watch.until(lambda: quiet() >= then + 2))
        self.assertLess(len(watch.raw) - before, 4000, "nothing but the seconds grows")
        watch.process.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(), 128 + signal.SIGINT)
        self.assert_left_as_it_was(watch)
        self.assertIsNone(run.poll(), "the job was left alone")
        self.assertEqual(self.status("s")[1]["verdict"], "deadlock")

    def test_the_culprit_opens_to_its_call_site_and_stack(self):
        self.hung_job()
        _, seen = self.status("s")
        culprit = next(r for r in seen["ranks"] if r["rank"] == seen["culprit_ranks"][0])
        watch = self.on_a_terminal(rows=60, columns=120)
        self.assertTrue(watch.shows("DEADLOCK", "3 Ranks", "Left closes"), watch.screen.text())
        self.assertNotIn("Job_steady_then_inversion()", watch.screen.text())
        watch.press("3\x1b[C")
        self.assertTrue(watch.shows(f"\n>- {culprit['rank']} !", f"\n      at {culprit['site']}",
                                    f"pid {culprit['pid']} on {os.uname().nodename}",
                                    "Job_steady_then_inversion()"), watch.screen.text())
        watch.press("\x1b[D")
        self.assertTrue(watch.until(lambda: "Job_steady_then_inversion()" not in watch.screen.text()))
        watch.press("4\n")
        self.assertTrue(watch.shows("members: 0,1", "made by rank 0 at job.cc:"), watch.screen.text())

    def test_keys_come_in_pieces_and_esc_alone(self):
        self.hung_job()
        watch = self.on_a_terminal(rows=60)
        self.assertTrue(watch.shows("3 Ranks"))
        watch.press("3\n")
        self.assertTrue(watch.shows("\n>- "))
        watch.press("\x1b")
        self.assertTrue(watch.until(lambda: "\n>+ " in watch.screen.text()), watch.screen.text())
        watch.press("\x1b")
        self.assertTrue(watch.until(lambda: "\n>" not in watch.screen.text()), watch.screen.text())
        self.assertIsNone(watch.process.poll())

    def test_the_filter(self):
        self.hung_job()
        watch = self.on_a_terminal(rows=60)
        self.assertTrue(watch.shows("3 Ranks: 2 ranks"))
        watch.press("/1")
        self.assertTrue(watch.shows("3 Ranks: 1 of 2 ranks matches", "filter: 1_"), watch.screen.text())
        watch.press("\n")
        self.assertTrue(watch.shows("filter: 1  "), watch.screen.text())
        watch.press("/\x7fq")  # text, not the key
        self.assertTrue(watch.shows("3 Ranks: 0 of 2 ranks match", "filter: q_"), watch.screen.text())
        watch.press("\x1b")
        self.assertTrue(watch.shows("3 Ranks: 2 ranks"), watch.screen.text())

    def test_another_size_is_drawn_at_once(self):
        self.hung_job()
        watch = self.on_a_terminal(rows=40)
        self.assertTrue(watch.shows("next: gordian explain s", "3 Ranks"))
        for rows, columns in ((5, 20), (10, 40), (50, 160)):
            watch.set_size(rows, columns)
            self.assertTrue(watch.until(lambda: watch.screen.size_known), "it was not drawn")
            self.assertTrue(watch.shows("gordian: DEADLOCK", "q quits"), watch.screen.text())
            self.assertTrue(watch.screen.lines[-1][0] != " ", "the keys are on the last line")
        self.assertTrue(watch.shows("4 Communicators"), watch.screen.text())

    def test_every_way_out_leaves_the_terminal_as_it_was(self):
        self.hung_job()
        for way, code in (("q", 1), ("\x03", 128 + signal.SIGINT), ("\x1c", 128 + signal.SIGQUIT),
                          (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP)):
            with self.subTest(way):
                watch = self.on_a_terminal(earlier="what the user had there\n")
                self.assertTrue(watch.shows("DEADLOCK", "q quits"), watch.screen.text())
                self.assertFalse(watch.settings()[3] & (termios.ECHO | termios.ICANON))
                self.assertTrue(watch.settings()[3] & termios.ISIG)
                self.assertNotIn("what the user had", watch.screen.text())
                watch.press("3") if way == "q" else None
                watch.press(way) if isinstance(way, str) else watch.process.send_signal(way)
                self.assertEqual(watch.wait(), code)
                self.assert_left_as_it_was(watch)
                self.assertRegex(watch.screen.text_with_scrolled(),
                                 r"(?s)what the user had there\ngordian: DEADLOCK.*next: gordian explain s")
                self.assertNotIn("q quits", watch.screen.text())

    def test_an_error_leaves_the_terminal_as_it_was(self):
        serve = self.start("serve", "--listen", "127.0.0.1:0", "--sessions", "all", "--json")
        address = json.loads(serve.stdout.readline())["listening"]
        self.start("run", "--emulator", "--quiet", "--session", "s", "--analyzer", address, "--job", "train",
                   "--node", "n0", "--nodes", "1", "--", *HANG, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until_verdict("deadlock", "--analyzer", address)
        watch = self.on_a_terminal(GORDIAN, "watch", "--analyzer", address)
        self.assertTrue(watch.shows("DEADLOCK", "what to change:", "q quits"), watch.screen.text())
        self.signal_until_gone(serve, signal.SIGTERM)
        self.assertIn(watch.wait(), (1, 2), "a job that the analyzer dropped, or no analyzer")
        self.assert_left_as_it_was(watch)
        self.assertIn("gordian: DEADLOCK", watch.screen.text())

    def on_a_shell(self):
        """An interactive shell that is ready, and its terminal's settings."""
        shell = self.on_a_terminal("bash", "--norc", "--noprofile", "--noediting", "-i", rows=40,
                                   env=clean_environment(TERM="xterm", PS1="ready> "))
        self.assertTrue(shell.shows("ready>"))
        return shell, shell.settings()

    def test_ctrl_z_and_fg(self):
        self.hung_job()
        shell, of_shell = self.on_a_shell()
        shell.press(f"{GORDIAN} watch s\n")
        self.assertTrue(shell.until(lambda: shell.screen.own_screen) and shell.shows("3 Ranks", "q quits"))
        shell.press("3\n")
        self.assertTrue(shell.shows("\n>- "))
        shell.press("\x1a")
        self.assertTrue(shell.shows("Stopped", "ready>"), shell.screen.text())
        self.assertFalse(shell.screen.own_screen)
        self.assertTrue(shell.screen.cursor_shown)
        self.assertEqual(shell.settings(), of_shell)
        shell.press("echo $((6*7))\n")
        self.assertTrue(shell.shows("42\nready>"), shell.screen.text())
        shell.press("bg\n")
        self.assertTrue(shell.shows("watch s &"), shell.screen.text())
        shell.press("echo $((6*8))\n")
        self.assertTrue(shell.shows("48\nready>"), "it wrote on the shell's screen\n" + shell.screen.text())
        self.assertFalse(shell.screen.own_screen)
        shell.press("fg\n")
        self.assertTrue(shell.until(lambda: shell.screen.own_screen) and shell.shows("\n>- "), shell.screen.text())
        shell.press("q")
        self.assertTrue(shell.until(lambda: not shell.screen.own_screen))
        shell.press("echo code $?\n")
        self.assertTrue(shell.shows("code 1"), shell.screen.text())
        self.assertEqual(shell.settings(), of_shell)
        self.assertTrue(shell.screen.cursor_shown)

    def test_keys_do_not_wait_for_an_analyzer(self):
        run = self.hung_job()
        watch = self.on_a_terminal(rows=60)
        self.assertTrue(watch.shows("3 Ranks", "q quits"))
        run.send_signal(signal.SIGSTOP)
        self.addCleanup(run.send_signal, signal.SIGCONT)
        took = []
        for key, shown in [("3\n", "\n>- "), ("\x1b", "\n>+ ")] * 4:
            while watch.pump(1.5):  # a second is drawn each second, unless a look does not come back
                pass
            begin = time.monotonic()
            watch.press(key)
            self.assertTrue(watch.shows(shown), watch.screen.text())
            took.append(time.monotonic() - begin)
            if took[-1] < 3:
                break
        # On a busy machine one or the other key takes long; if keys waited, all would.
        self.assertLess(min(took), 3, "a look takes five seconds to give up")
        watch.press("q")
        self.assertEqual(watch.wait(), 1)
        self.assert_left_as_it_was(watch)

    def test_in_the_background_it_has_no_keys(self):
        self.hung_job()
        shell, of_shell = self.on_a_shell()
        shell.press(f"{GORDIAN} watch s &\n")
        self.assertTrue(shell.shows("gordian: DEADLOCK", "COMMUNICATOR"), shell.screen.text())
        self.assertFalse(shell.screen.own_screen)
        self.assertEqual(shell.settings(), of_shell)
        shell.press("kill %1; wait %1; echo code $?\n")
        self.assertTrue(shell.until(lambda: re.search(r"code 143", shell.raw)), shell.raw)

    def test_without_keys_it_redraws(self):
        self.hung_job()
        for name, options in (("stdin", {"stdin": subprocess.DEVNULL}),
                              ("dumb", {"env": clean_environment(TERM="dumb")})):
            with self.subTest(name):
                watch = self.on_a_terminal(**options)
                self.assertTrue(watch.shows("gordian: DEADLOCK", "COMMUNICATOR", "Ctrl-C ends gordian watch"),
                                watch.screen.text())
                self.assertFalse(watch.screen.own_screen)
                self.assertEqual(watch.settings(), watch.before)
                watch.press("q") if name == "dumb" else None
                self.assertTrue(watch.shows("no progress for"))
                watch.process.send_signal(signal.SIGINT)
                self.assertEqual(watch.wait(), 128 + signal.SIGINT)
                self.assertTrue(watch.screen.cursor_shown)

    def test_colour_is_not_needed(self):
        self.hung_job()
        watch = self.on_a_terminal(rows=60, env=clean_environment(TERM="xterm", NO_COLOR="1", LANG="C"))
        self.assertTrue(watch.shows("3 Ranks"))
        watch.press("3")
        self.assertTrue(watch.shows("\n>+ "), watch.screen.text())
        watch.press("q")
        self.assertEqual(watch.wait(), 1)
        self.assertEqual(watch.screen.seen_styles, set())
        self.assertTrue(watch.raw.isascii())

    def test_on_a_terminal_the_last_screen_stays(self):
        self.gordian("run", "--emulator", "--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        watch = self.on_a_terminal()
        self.assertEqual(watch.wait(), 1)
        self.assertIn("gordian: DEADLOCK", watch.screen.text())
        self.assertIn("job ended", watch.screen.text())
        self.assertNotIn("quits", watch.screen.text())
        self.assert_left_as_it_was(watch)

    def test_who_has_pressed_a_key_reads_on_after_the_end(self):
        for pressed in (False, True):
            with self.subTest(pressed):
                session = "pressed" if pressed else "not"
                run = self.start_job(*HANG, session=session)
                self.until_verdict("deadlock", session)
                watch = self.on_a_terminal(GORDIAN, "watch", session, rows=60)
                self.assertTrue(watch.shows("3 Ranks", "the job runs on"))
                if pressed:
                    watch.press("3")
                    self.assertTrue(watch.shows("\n>+ "))
                self.end_job(run)
                if pressed:
                    self.assertTrue(watch.shows("job ended", "the job has ended; q quits", "\n>+ "),
                                    watch.screen.text())
                    self.assertIsNone(watch.process.poll())
                    watch.press("q")
                self.assertEqual(watch.wait(), 1)
                self.assert_left_as_it_was(watch)
                self.assertIn("gordian: DEADLOCK", watch.screen.text())


if __name__ == "__main__":
    main()
