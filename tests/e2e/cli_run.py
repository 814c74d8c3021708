"""`gordian run` around plain commands: it must be as if it were not there. Exit codes, standard streams,
signals, sessions that cannot be written, and nothing left behind."""
import glob
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

from cli_testing import (GORDIAN, CliTest, alive, children_of, clean_environment, has_looked_again, is_pending,
                         main, stat_fields, wait_until)


def fork_at_a_terminal():
    try:
        return pty.fork()
    except OSError as error:
        if error.args == ("out of pty devices",):
            raise unittest.SkipTest("no pseudo-terminals here: is devpts mounted at /dev/pts?") from error
        raise


class RunTest(CliTest):
    def ring_dir(self, session):
        with open(os.path.join(session, "manifest.json")) as f:
            return json.load(f)["ring_dir"]

    def assert_nothing_left(self, session):
        ring_dir = self.ring_dir(session)
        self.assertTrue(wait_until(lambda: not os.path.exists(ring_dir)), ring_dir)


class ExitCodes(RunTest):
    def test_the_jobs_own(self):
        for code in [0, 1, 7, 125, 255]:
            done = self.gordian("run", "--session", f"s{code}", "--", "sh", "-c", f"exit {code}")
            self.assertEqual(done.returncode, code)
            self.assertEqual(done.stdout, "")
            self.assert_one_line(done.stderr, "no NCCL or CUDA calls", f"s{code}")
            self.assert_nothing_left(self.path(f"s{code}"))

    def test_signals_are_128_and_n(self):
        for number in [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV]:
            done = self.gordian("run", "--quiet", "--", "sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, 128 + number)

    def test_not_found_and_not_executable(self):
        done = self.gordian("run", "--", "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assert_one_line(done.stderr, "no-such-program", "PATH")
        done = self.gordian("run", "--", "./absent/prog")
        self.assertEqual(done.returncode, 127)
        self.assert_one_line(done.stderr, "./absent/prog")
        self.write("data", "hello")
        done = self.gordian("run", "--", "./data")
        self.assertEqual(done.returncode, 126)
        self.assert_one_line(done.stderr, "./data", "chmod")
        done = self.gordian("run", "--", self.work)
        self.assertEqual(done.returncode, 126)
        self.assertEqual(sorted(os.listdir(self.work)), ["data"], "a session was made for nothing")

    def test_a_missing_interpreter_is_not_found(self):
        self.write("script", "#!/no/such/interpreter\n", 0o755)
        done = self.gordian("run", "--quiet", "--", "./script")
        self.assertEqual(done.returncode, 127)
        self.assert_one_line(done.stderr, "./script")

    def test_a_script_without_an_interpreter_line(self):
        self.write("script", "echo $0 $1; exit 5\n", 0o755)
        done = self.gordian("run", "--quiet", "--", "./script", "x")
        self.assertEqual((done.returncode, done.stdout), (5, "./script x\n"))

    def test_without_the_mark(self):
        done = self.gordian("run", "--quiet", "sh", "-c", "echo \"$@\"; exit 3", "sh", "--session", "-x")
        self.assertEqual((done.returncode, done.stdout), (3, "--session -x\n"))
        self.assertFalse(os.path.exists(self.path("-x")))

    def test_error_exitcode_only_on_a_problem(self):
        done = self.gordian("run", "--quiet", "--error-exitcode", "99", "--", "sh", "-c", "exit 4")
        self.assertEqual(done.returncode, 4)


class Transparency(RunTest):
    def test_streams_are_untouched(self):
        done = subprocess.run(
            [GORDIAN, "run", "--quiet", "--session", "s", "--", "sh", "-c", "cat; echo err >&2"],
            input=b"\x00binary\xff", capture_output=True, cwd=self.work, env=clean_environment(), timeout=60)
        self.assertEqual(done.stdout, b"\x00binary\xff")
        self.assertEqual(done.stderr, b"err\n")
        self.assertEqual(done.returncode, 0)

    def test_quiet_and_environment_settings(self):
        done = self.gordian("run", "--", "true", env=clean_environment(GORDIAN_QUIET="1", GORDIAN_SESSION="from-env"))
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        self.assertTrue(os.path.exists(self.path("from-env/manifest.json")))
        self.gordian("run", "--quiet", "--session", "from-flag", "--", "true",
                     env=clean_environment(GORDIAN_SESSION="other"))
        self.assertTrue(os.path.exists(self.path("from-flag/manifest.json")))
        self.assertFalse(os.path.exists(self.path("other")))

    def test_the_job_inherits_descriptors_signals_and_group_as_they_are(self):
        probe = self.write("probe.py", (
            "import os, signal, json\n"
            "status = dict(l.split(':\\t') for l in open('/proc/self/status') if l.startswith('Sig'))\n"
            "print(json.dumps({'fds': sorted(os.listdir('/proc/self/fd')), 'pgrp': os.getpgrp(),\n"
            "  'sid': os.getsid(0), 'blocked': status['SigBlk'].strip(), 'ignored': status['SigIgn'].strip(),\n"
            "  'cwd': os.getcwd(), 'umask': os.umask(0)}))\n"))
        def observe(prefix):
            done = subprocess.run(prefix + [sys.executable, "-I", probe], capture_output=True, text=True, cwd=self.work,
                                  env=clean_environment(), stdin=subprocess.DEVNULL, timeout=60)
            seen = json.loads(done.stdout)
            # posix_spawn leaves the C library's own two signals (32 and 33) ignored; it sets them itself.
            seen["ignored"] = int(seen["ignored"], 16) & ~(3 << 31)
            return seen
        self.assertEqual(observe([GORDIAN, "run", "--quiet", "--"]), observe([]))

    def test_closed_descriptors_stay_closed_and_get_nothing_of_ours(self):
        done = subprocess.run(["sh", "-c", f"{GORDIAN} run --session s -- sh -c 'ls -l /proc/self/fd > {self.work}/fds; exit 6' 2>&- <&-"],
                              cwd=self.work, env=clean_environment(), timeout=60)
        self.assertEqual(done.returncode, 6)
        with open(self.path("fds")) as f:
            links = [line for line in f if " -> " in line]
        self.assertEqual(len(links), 2, links)  # the folder being listed, and the list

    def test_ld_preload_is_appended_to(self):
        done = self.gordian("run", "--quiet", "--", "sh", "-c", "echo $LD_PRELOAD; echo $GORDIAN_SESSION",
                            env=clean_environment(LD_PRELOAD="libm.so.6"))
        preload, session = done.stdout.split()
        self.assertTrue(preload.startswith("libm.so.6:/"), preload)
        self.assertTrue(preload.endswith("/libgordian_interpose.so"), preload)
        self.assertTrue(os.path.isabs(session) and os.path.isdir(session), session)

    def test_a_folder_in_the_place_of_the_rings_is_left_alone(self):
        victim = self.path("victim")
        os.mkdir(victim)
        for name in ["passwd", "1.1.ring", "1.1.ring.tmp"]:
            self.write(f"victim/{name}", "precious")
        done = self.gordian("run", "--session", "s", "--", "sh", "-c",
                            f'mv "$GORDIAN_RING_DIR" {self.path("aside")} && ln -s {victim} "$GORDIAN_RING_DIR"; exit 3')
        ring_dir = self.ring_dir(self.path("s"))
        self.addCleanup(os.unlink, ring_dir)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{ring_dir}: another file or folder has taken its place", done.stderr)
        self.assertEqual(os.readlink(ring_dir), victim)
        for name in ["passwd", "1.1.ring", "1.1.ring.tmp"]:
            with open(os.path.join(victim, name)) as f:
                self.assertEqual(f.read(), "precious", name)

    def test_default_session_and_latest(self):
        self.gordian("run", "--quiet", "--", "/bin/true")
        self.gordian("run", "--quiet", "--", "/bin/true")
        sessions = sorted(glob.glob(self.path("gordian-true-*")))
        self.assertEqual(len(sessions), 2)
        self.assertIn(os.path.realpath(self.path("latest")), [os.path.realpath(s) for s in sessions])

    def test_manifest(self):
        self.gordian("run", "--session", "a/b/s", "--", "sh", "-c", "exit 3",
                     env=clean_environment(NCCL_DEBUG="WARN", CUDA_VISIBLE_DEVICES="0", SECRET="x"))
        with open(self.path("a/b/s/manifest.json")) as f:
            text = f.read()
        manifest = json.loads(text)
        self.assertEqual(manifest["command"], ["sh", "-c", "exit 3"])
        self.assertEqual(manifest["environment"]["NCCL_DEBUG"], "WARN")
        self.assertEqual(manifest["environment"]["CUDA_VISIBLE_DEVICES"], "0")
        self.assertNotIn("SECRET", text)
        self.assertEqual(manifest["exit_code"], 3)
        self.assertFalse(manifest["killed_by_gordian"])
        self.assertEqual(manifest["processes"], [])
        self.assertLess(manifest["clocks"]["start_mono_ns"], manifest["clocks"]["end_mono_ns"])


class Signals(RunTest):
    TRAP = ("import os, signal, sys, time\n"
            "def seen(n, f):\n"  # may interrupt itself, hence one write
            "    os.write(1, b'got %d\\n' % n)\n"
            "    if n == signal.SIGTERM and '--stay' not in sys.argv: sys.exit(9)\n"
            "for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1): signal.signal(n, seen)\n"
            "print('ready', flush=True)\n"
            "while True: time.sleep(0.05)\n")

    def start_trap(self, *more, **options):
        self.write("trap.py", self.TRAP)
        process = self.start("run", "--quiet", "--session", "s", "--", sys.executable, "trap.py", *more, **options)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_sent_signals_are_forwarded_and_gordian_survives(self):
        process = self.start_trap()
        for number in [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]:
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"got {int(number)}\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "got 15\n")
        self.assertEqual(process.wait(60), 9)
        self.assert_nothing_left(self.path("s"))

    def test_a_second_signal_kills_the_whole_tree(self):
        self.write("tree.py", ("import subprocess, sys\n"
                               "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
                               "print(child.pid, flush=True)\n") + self.TRAP)
        process = self.start("run", "--quiet", "--session", "s", "--", sys.executable, "tree.py", "--stay")
        child = int(process.stdout.readline())
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertEqual(self.signal_until_gone(process, signal.SIGTERM), 137)
        self.assertTrue(wait_until(lambda: not alive(child)), "a grandchild in its own session survived")
        self.assert_nothing_left(self.path("s"))

    def test_one_signal_to_the_group_is_not_two(self):
        process = self.start_trap("--stay", start_new_session=True)
        os.killpg(process.pid, signal.SIGTERM)  # to gordian and the job
        self.assertEqual(process.stdout.readline(), "got 15\n")
        self.assertTrue(wait_until(lambda: not is_pending(process.pid, signal.SIGTERM)), "gordian did not take it")
        # What it takes after that is still forwarded: it has not begun to kill.
        process.send_signal(signal.SIGUSR1)
        line = process.stdout.readline()
        while line == "got 15\n":
            line = process.stdout.readline()
        self.assertEqual(line, "got 10\n")
        self.assertIsNone(process.poll(), "taken for a second signal")
        self.assertEqual(self.signal_until_gone(process, signal.SIGINT), 137)

    def test_control_c_at_a_terminal_reaches_the_job_once(self):
        self.write("trap.py", self.TRAP)
        pid, terminal = fork_at_a_terminal()
        if pid == 0:
            os.chdir(self.work)
            os.execve(GORDIAN, [GORDIAN, "run", "--quiet", "--session", "s", "--", sys.executable, "trap.py", "--stay"],
                      clean_environment())
        text = b""

        def read_for(seconds, until=None):
            nonlocal text
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and (until is None or until not in text):
                if select.select([terminal], [], [], 0.05)[0]:
                    try:
                        text += os.read(terminal, 4096)
                    except OSError:
                        return
        read_for(30, b"ready")
        self.assertIn(b"ready", text)
        os.write(terminal, b"\x03")
        read_for(30, b"got 2")
        read_for(0.7)
        self.assertEqual(text.count(b"got 2"), 1, text)
        status = None

        def ended():
            nonlocal status
            os.kill(pid, signal.SIGTERM)  # with the Ctrl-C, the second: kills
            read_for(0.5)
            gone, status = os.waitpid(pid, os.WNOHANG)
            return gone == pid
        self.assertTrue(wait_until(ended))
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 137)

    def test_a_terminal_that_goes_away_reaches_the_job(self):
        pid, terminal = fork_at_a_terminal()  # gordian leads the session, so it alone is told
        if pid == 0:
            os.chdir(self.work)
            os.execve(GORDIAN, [GORDIAN, "run", "--quiet", "--session", "s", "--", "sh", "-c",
                                "trap 'exit 6' HUP; : > ready; while :; do sleep 0.05; done"], clean_environment())
        ready = wait_until(lambda: os.path.exists(self.path("ready")))
        os.close(terminal)
        status = None

        def ended():
            nonlocal status
            gone, status = os.waitpid(pid, os.WNOHANG)
            return gone == pid
        if not wait_until(ended):
            for process in [*children_of(pid), pid]:
                os.kill(process, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.fail("the job was not told")
        self.assertTrue(ready)
        self.assertEqual(os.waitstatus_to_exitcode(status), 6)

    def test_what_the_caller_ignores_stays_ignored(self):
        done = subprocess.run(["sh", "-c", f"trap '' HUP INT; exec {GORDIAN} run --quiet --session s -- "
                               "sh -c 'kill -HUP $PPID; kill -INT $PPID; sleep 0.3; kill -HUP $$; exit 4'"],
                              cwd=self.work, env=clean_environment(), timeout=60)
        self.assertEqual(done.returncode, 4)

    def test_orphans_are_reaped_and_do_not_hold_the_end(self):
        done = self.gordian("run", "--quiet", "--session", "s", "--", "sh", "-c",
                            "(sleep 600 >/dev/null 2>&1 & echo $!)")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(alive(int(done.stdout)), "gordian has waited for it, or ended it")
        os.kill(int(done.stdout), signal.SIGKILL)
        self.assert_nothing_left(self.path("s"))


class Sessions(RunTest):
    def test_a_second_run_in_a_session_leaves_the_first_alone(self):
        self.gordian("run", "--quiet", "--session", "s", "--", "sh", "-c", "exit 1")
        with open(self.path("s/manifest.json")) as f:
            before = f.read()
        done = self.gordian("run", "--quiet", "--session", "s", "--", "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)
        self.assert_one_line(done.stderr, "already holds a session", "s.2", "gordian explain s")
        with open(self.path("s/manifest.json")) as f:
            self.assertEqual(f.read(), before)
        with open(self.path("s.2/manifest.json")) as f:
            self.assertEqual(json.load(f)["exit_code"], 7)

    def test_a_session_below_a_file_costs_the_session_only(self):
        self.write("file", "")
        done = self.gordian("run", "--quiet", "--session", "file/s", "--", "sh", "-c", "echo out; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "out\n"))
        self.assert_one_line(done.stderr, "file/s", "watches the job but keeps nothing", "--session")

    def mount(self, options):
        where = self.path("mnt")
        os.mkdir(where)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", where], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no mount allowed here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", where])
        return where

    def test_a_read_only_session_costs_the_session_only(self):
        where = self.mount("size=1m,ro")
        done = self.gordian("run", "--quiet", "--session", where + "/s", "--", "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)
        self.assert_one_line(done.stderr, "Read-only", "watches the job but keeps nothing")

    def test_a_full_disk_costs_the_files_only(self):
        where = self.mount("size=64k")
        try:
            with open(os.path.join(where, "filler"), "wb", buffering=0) as f:
                while f.write(b"x" * 4096) == 4096:
                    pass
        except OSError:
            pass
        done = self.gordian("run", "--quiet", "--session", where + "/s", "--", "sh", "-c", "echo out; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "out\n"))
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("runs on", done.stderr)
        for line in done.stderr.splitlines():
            self.assertTrue(line.startswith("gordian: "), line)


class Guardian(RunTest):
    def test_a_killed_run_leaves_the_job_running_and_then_nothing(self):
        process = self.start("run", "--quiet", "--session", "s", "--", sys.executable, "-c",
                             "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)",
                             start_new_session=True)
        job = int(process.stdout.readline())
        ring_dir = self.ring_dir(self.path("s"))
        helpers = [pid for pid in children_of(process.pid) if pid != job]
        self.assertEqual(len(helpers), 1, "one guardian")
        self.assertTrue(os.path.isdir(ring_dir))
        process.kill()
        process.wait(60)
        self.assertTrue(has_looked_again(helpers[0]), "the guardian left too early")
        self.assertTrue(alive(job), "the job went with gordian")
        self.assertTrue(alive(helpers[0]) and os.path.isdir(ring_dir), "the guardian left too early")
        os.kill(job, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not alive(helpers[0])), "the guardian outlived the job")
        self.assertFalse(os.path.exists(ring_dir))

    def test_the_guardian_survives_a_kill_of_the_group(self):
        process = self.start("run", "--quiet", "--session", "s", "--", "sh", "-c", "echo up; sleep 600",
                             start_new_session=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        ring_dir = self.ring_dir(self.path("s"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        self.assertTrue(wait_until(lambda: not os.path.exists(ring_dir)), ring_dir)

    def test_the_guardian_holds_no_file_of_the_caller(self):
        process = self.start("run", "--quiet", "--session", "s", "--", "sh", "-c", "echo $$; exec sleep 600",
                             start_new_session=True)
        job = int(process.stdout.readline())
        guard = [pid for pid in children_of(process.pid) if pid != job][0]
        pipe = os.readlink(f"/proc/{job}/fd/1")
        held = set()

        def lets_go():  # it may not have come to it yet
            held.clear()
            try:
                held.update(os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd"))
            except OSError:
                return False
            folders = (self.work, self.path("s"))  # where rings are kept, and what it lies in
            return pipe not in held and all(h.startswith(("/dev/null", "pipe:", "/dev/shm")) or h in folders for h in held)
        self.assertTrue(wait_until(lets_go), held)
        os.kill(job, signal.SIGKILL)
        self.assertEqual(process.wait(60), 137)
        self.assertIsNone(stat_fields(guard))


if __name__ == "__main__":
    main()
