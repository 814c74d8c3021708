"""`gordian run` around real jobs under the emulator: what it says and does on a verdict, and what can be
read back from the session, whole or damaged."""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess

from cli_testing import (EMULATOR, JOB, RPATH_JOB, CliTest, alive, children_of, has_looked_again, main, tree_below,
                         wait_until)

HANG = [JOB, "inversion_one_stream", "--ranks", "2"]
TWIN = HANG + ["--twin"]
MISMATCH_ENDS = [JOB, "mismatch_count_ends", "--ranks", "2"]


class RecordingTest(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)

    def run_job(self, *arguments, **options):
        return self.gordian("run", "--emulator", *arguments, **options)

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()


class OnVerdict(RecordingTest):
    def test_a_healthy_job_is_called_so_and_keeps_its_code(self):
        done = self.run_job("--session", "s", "--error-exitcode", "9", "--", *TWIN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_one_line(done.stderr, "finished, 2 ranks", "NCCL calls, session s")
        manifest = json.loads(self.read("s/manifest.json"))
        self.assertEqual(len(manifest["processes"]), len(glob.glob(self.path("s/rings/*.ring"))))
        self.assertGreaterEqual(len(manifest["processes"]), 2)
        for verb in ["analyze", "explain"]:
            done = self.gordian(verb, "s")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_kill_reports_once_and_exits_137(self):
        done = self.run_job("--session", "s", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertEqual(done.stderr.count("DEADLOCK"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("gordian: DEADLOCK (confirmed"), done.stderr)
        self.assertNotIn("\x1b", done.stderr, "colours without a terminal")
        self.assertTrue(done.stderr.endswith("next: gordian explain s\n"), done.stderr)
        self.assertEqual(self.verdict("s")["verdict"], "deadlock")
        manifest = json.loads(self.read("s/manifest.json"))
        self.assertTrue(manifest["killed_by_gordian"])
        self.assertFalse(os.path.exists(manifest["ring_dir"]))

    def test_what_was_recorded_gives_the_same_verdict_again(self):
        self.run_job("--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        live = self.verdict("s")
        for arguments in [["analyze", "s"], ["analyze", "s/trace.gtrace"], ["explain", "s"], ["explain", "s/"]]:
            done = self.gordian(*arguments, "--json")
            self.assertEqual(done.returncode, 1, arguments)
            again = json.loads(done.stdout)
            for key in ["verdict", "check", "confidence", "culprit_ranks"]:
                self.assertEqual(again[key], live[key], arguments)
            self.assertEqual(done.stderr, "", arguments)
            self.assertEqual(self.gordian(*arguments).returncode, 1)
        self.assertIn("job.cc", self.gordian("explain", "s").stdout)

    def test_quiet_says_nothing(self):
        done = self.run_job("--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual((done.returncode, done.stderr), (137, ""))

    def test_error_exitcode(self):
        done = self.run_job("--quiet", "--session", "s", "--error-exitcode", "9", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual(done.returncode, 9)

    def test_a_mismatch_that_ends_is_reported_but_not_killed(self):
        done = self.run_job("--session", "s", "--on-verdict", "kill", "--error-exitcode", "9", "--", *MISMATCH_ENDS)
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertFalse(json.loads(self.read("s/manifest.json"))["killed_by_gordian"])
        self.assertIn("MISMATCH", done.stderr)
        self.assertIn("job ended with 0", done.stderr)

    def test_report_lets_the_job_hang_as_it_would_alone(self):
        process = self.start("run", "--emulator", "--session", "s", "--", *HANG)
        line = process.stderr.readline()
        self.assertIn("DEADLOCK", line)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("s/verdict.json"))
                                   and self.verdict("s")["verdict"] == "deadlock"))
        done = self.gordian("explain", "s")  # while it hangs
        self.assertEqual(done.returncode, 1)
        self.assertIsNone(process.poll())
        self.assertIn(self.signal_until_gone(process, signal.SIGTERM), (137, 143))
        self.assertEqual(self.verdict("s")["verdict"], "deadlock", "ended ranks changed a confirmed verdict")

    def test_exec_runs_the_command_once(self):
        process = self.start("run", "--emulator", "--session", "s", "--on-verdict",
                             "exec:echo $GORDIAN_CULPRIT_PIDS > pids; "
                             "for pid in $GORDIAN_CULPRIT_PIDS; do cat /proc/$pid/comm >> names; done; "
                             "echo $GORDIAN_CULPRIT_NODES > nodes; echo loud; "
                             "echo \"$GORDIAN_VERDICT $GORDIAN_CULPRIT_RANKS $GORDIAN_SESSION $LD_PRELOAD\" >> hook",
                             "--", *HANG)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("hook")) and self.read("hook").endswith("\n")))
        self.assertIsNone(process.poll())
        self.signal_until_gone(process, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(self.read("hook"), f"deadlock 0 1 {self.path('s')} \n")
        culprits = self.verdict("s")["culprit_processes"]
        self.assertEqual([culprit["rank"] for culprit in culprits], [0, 1])
        self.assertEqual(self.read("pids").split(), [str(culprit["pid"]) for culprit in culprits])
        self.assertEqual(len(set(self.read("pids").split())), 2)
        self.assertEqual(set(self.read("names").split()), {os.path.basename(HANG[0])[:15]}, "not the job's processes")
        self.assertEqual(self.read("nodes").split(), [socket.gethostname()] * 2)
        self.assertNotIn("loud", out, "the command wrote into the job's output")
        self.assertIn("loud", err)

    def test_interrupting_a_healthy_job_is_no_finding(self):
        process = self.start("run", "--emulator", "--session", "s", "--error-exitcode", "9", "--",
                             *TWIN, "--busy", "0:8")
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("s/verdict.json"))
                                   and self.verdict("s")["evidence"]["ranks_seen"] == 2))
        self.signal_until_gone(process, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (130, 137), err)
        self.assertNotIn("EXITED", err)


class Damage(RecordingTest):
    def name_of(self, pid):
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()

    def test_a_cut_trace_is_read_to_its_last_whole_chunk(self):
        self.run_job("--quiet", "--session", "s", "--on-verdict", "kill", "--", *HANG)
        with open(self.path("s/trace.gtrace"), "rb") as f:
            whole = f.read()
        with open(self.path("cut.gtrace"), "wb") as f:
            f.write(whole[:-40])
        done = self.gordian("analyze", "cut.gtrace", "--json")
        self.assertIn(done.returncode, (1, 3))
        self.assert_one_line(done.stderr, "incomplete", "cut.gtrace")
        self.assertTrue(any("trace" in what for what in json.loads(done.stdout)["evidence"]["not_visible"]))

    def test_a_ring_of_random_bytes_hurts_nobody(self):
        process = self.start("run", "--emulator", "--session", "s", "--", "sh", "-c",
                             "head -c 65536 /dev/urandom > $GORDIAN_RING_DIR/$$.1.ring; "
                             "head -c 10 /dev/urandom > $GORDIAN_RING_DIR/1.1.ring; exec \"$@\"", "sh", *TWIN)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("finished, 2 ranks", err)
        self.assertFalse(os.path.exists(json.loads(self.read("s/manifest.json"))["ring_dir"]))
        self.assertEqual(self.verdict("s")["verdict"], "finished")

    def test_a_session_that_cannot_be_written_still_gets_a_verdict(self):
        self.write("file", "")
        done = self.run_job("--session", "file/s", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual(done.returncode, 137)
        lines = done.stderr.splitlines()
        self.assertIn("cannot write session", lines[0])
        self.assertIn("DEADLOCK", lines[1])

    def test_a_full_disk_still_gets_a_verdict(self):
        where = self.path("mnt")
        os.mkdir(where)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", where], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no mount allowed here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", where])
        try:
            with open(os.path.join(where, "filler"), "wb", buffering=0) as f:
                while f.write(b"x" * 4096) == 4096:
                    pass
        except OSError:
            pass
        done = self.run_job("--session", where + "/s", "--on-verdict", "kill", "--", *HANG)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("DEADLOCK", done.stderr)
        done = self.run_job("--session", where + "/t", "--", *TWIN)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_killed_run_leaves_readable_rings_and_a_trace(self):
        process = self.start("run", "--emulator", "--quiet", "--session", "s", "--", *HANG)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("s/verdict.json"))
                                   and self.verdict("s")["verdict"] == "deadlock"))
        ring_dir = json.loads(self.read("s/manifest.json"))["ring_dir"]
        rings = {os.path.basename(p) for p in glob.glob(ring_dir + "/*.ring")}
        ranks = [int(name.split(".")[0]) for name in rings]
        tree = tree_below(process.pid)
        guard = [pid for pid in children_of(process.pid) if self.name_of(pid) == "gordian-guard"]
        process.kill()
        process.wait(60)
        self.assertTrue(has_looked_again(guard[0]), "the guardian went with gordian")
        self.assertTrue(all(alive(pid) for pid in ranks), "ranks went with gordian")
        for pid in set(tree) - set(guard):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # a parent that ended once its ranks had
        self.assertTrue(wait_until(lambda: not os.path.exists(ring_dir)), ring_dir)
        self.assertEqual({os.path.basename(p) for p in glob.glob(self.path("s/rings/*.ring"))}, rings)
        for path in glob.glob(self.path("s/rings/*.ring")):
            self.assertFalse(os.path.islink(path))
            with open(path, "rb") as f:
                self.assertEqual(f.read(8), b"gdring01")
        done = self.gordian("analyze", "s")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_one_line(done.stderr, "incomplete")


class EmulatorReached(RecordingTest):
    """The program's DT_RPATH leads to other libraries, here copies of the emulator's own."""

    def setUp(self):
        super().setUp()
        self.need(RPATH_JOB)
        shutil.copy(RPATH_JOB, self.path("job"))
        os.mkdir(self.path("foreign"))
        shutil.copy(os.path.join(EMULATOR, "libcudart.so.13"), self.path("foreign"))

    def test_a_program_with_an_rpath_gets_the_emulator_preloaded(self):
        done = self.run_job("--", "./job", "--linger", "0.5")
        self.assertEqual((done.returncode, done.stdout), (0, "job done\n"), done.stderr)
        self.assert_one_line(done.stderr, "finished")

    def test_a_launcher_of_such_a_program_is_started_again(self):
        done = self.run_job("--session", "s", "--", "sh", "-c", "./job --linger 3; exit $?")
        self.assertEqual((done.returncode, done.stdout), (0, "job done\n"), done.stderr)
        self.assertIn("foreign/libcudart.so.13", done.stderr)
        self.assertIn("again", done.stderr)
        self.assertIn(self.verdict("s")["verdict"], ("finished", "inconclusive", "healthy"))

    def test_a_library_opened_by_its_path_is_refused(self):
        done = self.run_job("--quiet", "--", "sh", "-c", "./job --open $PWD/foreign/libcudart.so.13 --linger 20; exit $?")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn("foreign/libcudart.so.13", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    main()
