"""A rank that is inside real MPI while the others wait for it in NCCL, and the twin. Needs Open MPI.

  mpi.py BUILD
"""
import os
import shutil

from cli_testing import BUILD, CliTest, clean_environment, main

RANK = os.path.join(BUILD, "tests", "gordian_mpi_rank")
# What the verdict and its signs say.
CHECKS = {"rank-not-joined", "waits-in-mpi"}


class Mpi(CliTest):
    def run_ranks(self, *options, threshold="1"):
        self.need(RANK)
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("mpirun is not installed (openmpi-bin)")
        # Of one machine without a network.
        env = clean_environment(OMPI_MCA_btl="self,vader", OMPI_MCA_plm="isolated", OMPI_MCA_rmaps_base_oversubscribe="1")
        done = self.gordian("run", "--emulator", "--session", self.path("s"), "--on-verdict", "kill-suspected", "--suspect-after", threshold,
                            "--", mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", RANK, *options, env=env)
        return done, self.verdict("s")

    def test_a_rank_in_a_barrier(self):
        done, verdict = self.run_ranks()
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(verdict["culprit_ranks"], [1], done.stderr)
        said = {verdict["check"], *(sign["check"] for sign in verdict["signs"])}
        self.assertLessEqual(CHECKS, said, done.stderr)

    def test_the_twin(self):
        done, verdict = self.run_ranks("--twin", threshold="60")
        self.assertEqual((done.returncode, verdict["verdict"], verdict["findings"], verdict["signs"]), (0, "finished", [], []),
                         done.stderr)


if __name__ == "__main__":
    main()
