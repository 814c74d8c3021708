"""`gordian demo`: the hang, live and recorded, and the twin that ends; and what it says when that is not what comes.

  cli_demo.py BUILD
"""
import json
import os
import signal

from cli_testing import BUILD, CliTest, clean_environment, job_below, main, wait_until


class Demo(CliTest):
    def temporary(self):
        folder = self.path("temporary")
        os.makedirs(folder, exist_ok=True)
        return folder

    def library_folder(self, job):
        """A GORDIAN_LIB_DIR whose job is the script `job`."""
        folder = self.path("lib")
        os.makedirs(os.path.join(folder, "demo"))
        for name in ("libgordian_interpose.so", "emulator"):
            os.symlink(os.path.join(BUILD, "lib", name), os.path.join(folder, name))
        self.write("lib/demo/hybrid_training", job, 0o755)
        return folder

    def test_it_shows_the_verdict_and_what_to_try(self):
        done = self.gordian("demo", env=clean_environment(TMPDIR=self.temporary()))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gordian: DEADLOCK (confirmed", done.stderr)
        self.assertRegex(done.stderr, r"at train\.cc:\d+ ")
        self.assertIn("gordian: DEADLOCK (confirmed", done.stdout)  # from the recording
        for words in (" run --emulator ", " analyze ", " explain ", " doctor ", "report.html", "finished"):
            self.assertIn(words, done.stdout + done.stderr)
        (folder,) = os.listdir(self.temporary())
        session = os.path.join(self.temporary(), folder, "hung")
        again = self.gordian("explain", session)
        self.assertEqual(again.returncode, 1, again.stderr)

    def test_json_is_alone_on_standard_output(self):
        # What the caller has set for jobs of their own changes nothing.
        done = self.gordian("demo", "--json", "--folder", "here", env=clean_environment(
            GORDIAN_ANALYZER="127.0.0.1:1", GORDIAN_ON_VERDICT="report", GORDIAN_QUIET="1", GORDIAN_EMU_KERNEL_US="nonsense"))
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertTrue(document["as_expected"])
        said = [(step["name"], step["exit_code"], step["verdict"]["verdict"]) for step in document["steps"]]
        self.assertEqual(said, [("live", 137, "deadlock"), ("recorded", 1, "deadlock"), ("repaired", 0, "finished")])
        self.assertEqual(document["folder"], self.path("here"))
        self.assertEqual(self.verdict("here/hung"), document["steps"][0]["verdict"])

    def test_another_end_than_the_hang_is_said(self):
        library = self.library_folder("#!/bin/sh\nexit 0\n")
        done = self.gordian("demo", "--json", env=clean_environment(TMPDIR=self.temporary(), GORDIAN_LIB_DIR=library))
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("expected deadlock", done.stderr)
        self.assertFalse(json.loads(done.stdout)["as_expected"])

    def test_a_missing_job_names_the_package(self):
        library = self.library_folder("")
        os.remove(os.path.join(library, "demo", "hybrid_training"))
        done = self.gordian("demo", env=clean_environment(TMPDIR=self.temporary(), GORDIAN_LIB_DIR=library))
        self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
        self.assertIn("install gordian-emulator", done.stderr)

    def test_a_folder_that_holds_something_is_refused(self):
        os.makedirs(self.path("full"))
        self.write("full/file", "")
        done = self.gordian("demo", "--folder", "full")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "full", "not empty")
        self.assertEqual(os.listdir(self.path("full")), ["file"])

    def test_a_signal_ends_it_with_its_job(self):
        library = self.library_folder("#!/bin/sh\nexec sleep 600\n")
        demo = self.start("demo", env=clean_environment(TMPDIR=self.temporary(), GORDIAN_LIB_DIR=library))
        self.assertTrue(wait_until(lambda: len(job_below(demo.pid)) >= 2))
        below = job_below(demo.pid)
        self.assertEqual(self.signal_until_gone(demo, signal.SIGTERM), 128 + signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below)))


if __name__ == "__main__":
    main()
