"""Lives of processes that `gordian run` meets: a job that makes a daemon of itself, a program that runs with
somebody else's rights, a library beside the shim in LD_PRELOAD. The job is as it would be alone."""
import glob
import json
import os
import shutil
import subprocess

from cli_testing import BUILD, GORDIAN, JOB, CliTest, clean_environment, main, wait_until

BESIDE = os.path.join(BUILD, "tests", "libgordian_e2e_beside.so")
STARTER = os.path.join(BUILD, "tests", "gordian_e2e_starter")
HANG = [JOB, "inversion_one_stream", "--ranks", "2"]


class ProcessLife(CliTest):
    def manifest(self, session):
        with open(os.path.join(self.path(session), "manifest.json")) as f:
            return json.load(f)

    def test_a_job_that_makes_a_daemon_of_itself(self):
        # The launcher ends at once; what it has left in a session of its own goes on, and is not killed. It
        # begins once gordian is gone, with no folder for rings any more.
        gone = self.path("gone")
        script = ('setsid sh -c \'while [ ! -e "$0" ]; do sleep 0.05; done; "$@"; echo $? > code.part; mv code.part code\' '
                  f'{gone} "$@" >/dev/null 2>&1 </dev/null &')
        done = self.gordian("run", "--quiet", "--emulator", "--session", "s", "--", "sh", "-c", script, "sh", *HANG, "--twin",
                            env=clean_environment(GORDIAN_EMU_STATS=self.path("stats")))
        self.assertEqual(done.returncode, 0, done.stderr)
        ring_dir = self.manifest("s")["ring_dir"]
        self.assertTrue(wait_until(lambda: not os.path.exists(ring_dir)), ring_dir)
        open(gone, "w").close()
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("code")), seconds=60), "the daemon did not end")
        with open(self.path("code")) as f:
            self.assertEqual(f.read(), "0\n")
        self.assertTrue(glob.glob(self.path("stats.*")), "the daemon made no call")
        self.assertFalse(os.path.exists(ring_dir), "the daemon made a ring that nobody takes away")
        self.assertNotIn(self.verdict("s")["verdict"], ("deadlock", "mismatch", "rank_exited", "rank_not_joined"))

    def test_a_program_with_the_rights_of_another(self):
        # The loader ignores what a caller of fewer rights preloads: the program runs unseen, and that is said.
        if os.getuid() != 0:
            self.skipTest("making such a program takes root")
        nobody = {"user": 65533, "group": 65533}
        try:
            subprocess.run([GORDIAN, "version"], check=True, capture_output=True, **nobody)
        except (PermissionError, subprocess.CalledProcessError) as error:
            self.skipTest(f"another user cannot start gordian from here: {error}")
        os.chmod(self.work, 0o755)
        program = self.path("cat")
        shutil.copy(shutil.which("cat"), program)
        os.chmod(program, 0o4755)
        where = self.path("theirs")
        os.mkdir(where)
        os.chown(where, nobody["user"], nobody["group"])
        command = [program, "/proc/self/maps", "/proc/self/status"]
        done = self.gordian("run", "--session", where + "/s", "--", *command, cwd=where, **nobody)
        if "nosuid" in subprocess.run(["findmnt", "-no", "OPTIONS", "-T", program], capture_output=True, text=True).stdout:
            self.skipTest("this file system gives no such rights")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Uid:\t65533\t0\t", done.stdout)
        self.assertNotIn("libgordian_interpose", done.stdout)
        self.assertIn("no NCCL or CUDA calls", done.stderr)
        os.chmod(program, 0o755)  # the same program without them is seen
        done = self.gordian("run", "--session", where + "/t", "--", *command, cwd=where, **nobody)
        self.assertIn("libgordian_interpose", done.stdout)

    def test_a_library_beside_the_shim(self):
        self.need(BESIDE)
        for session, twin in (("s", []), ("t", ["--twin"])):
            env = clean_environment(LD_PRELOAD=BESIDE, BESIDE_FILE=self.path(session + "-beside"))
            done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", *HANG, *twin, env=env)
            self.assertEqual(done.returncode, 0 if twin else 137, done.stderr)
            verdict = self.verdict(session)
            self.assertEqual(verdict["verdict"], "finished" if twin else "deadlock")
            self.assertEqual(verdict["evidence"]["records_lost"], 0)
        # The parent of the twin's ranks ended by itself: the library was in it to its end.
        counts = [int(open(path).read()) for path in glob.glob(self.path("t-beside.*"))]
        self.assertTrue(counts and max(counts) > 0, counts)

    def rank_left_to_another(self, how, late):
        """Rank 1 calls NCCL, leaves its place to a shell and exits with 0, or becomes that shell."""
        rank = f"{JOB} missing_rank --elastic --twin"
        script = (f"RANK=0 {rank} & RANK=1 {STARTER} {how} sh -c 'sleep 2; {late}'\nwait")
        env = clean_environment(WORLD_SIZE="2", JOB_PROGRESS=self.path("progress"))
        return self.gordian("run", "--emulator", "--session", "s", "--on-verdict", "kill", "--suspect-after", "10", "--",
                            "sh", "-c", script, env=env)

    def test_a_rank_that_goes_on_in_another_process(self):
        for how in ("fork", "exec"):
            with self.subTest(how):
                shutil.rmtree(self.path("s"), ignore_errors=True)
                done = self.rank_left_to_another(how, f"exec {JOB} missing_rank --elastic --twin")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.verdict("s")["verdict"], "finished")

    def test_a_rank_whose_heir_ends_too(self):
        for how in ("fork", "exec"):
            with self.subTest(how):
                shutil.rmtree(self.path("s"), ignore_errors=True)
                done = self.rank_left_to_another(how, "exit 0")
                self.assertEqual(done.returncode, 137, done.stderr)
                verdict = self.verdict("s")
                self.assertEqual((verdict["verdict"], verdict["confidence"], verdict["culprit_ranks"]),
                                 ("rank_exited", "confirmed", [1]), done.stderr)

    def test_our_entry_only_is_ours(self):
        # A job that starts something without what is preloaded into itself: what it names stays.
        done = self.gordian("run", "--quiet", "--session", "s", "--", "sh", "-c", "echo $LD_PRELOAD",
                            env=clean_environment(LD_PRELOAD="libm.so.6 libdl.so.2"))
        entries = done.stdout.strip().replace(" ", ":").split(":")
        self.assertEqual(entries[:-1], ["libm.so.6", "libdl.so.2"])
        self.assertTrue(entries[-1].endswith("/libgordian_interpose.so"), entries)


if __name__ == "__main__":
    main()
