"""What the tests of `gordian export` share: real jobs under the emulator, each run once."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""


def gordian(*arguments, ok=True, text=True, cwd=None):
    done = subprocess.run([os.path.join(BUILD, "bin", "gordian"), *arguments], capture_output=True, text=text, timeout=120,
                          check=False, cwd=cwd)
    if ok and done.returncode != 0:
        raise AssertionError(f"gordian {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done


class ExportTest(unittest.TestCase):
    """What went wrong stays in the folder that is printed."""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="gordian-export-")
        cls.failed = False

    @classmethod
    def tearDownClass(cls):
        if cls.failed:
            print(f"evidence: {cls.work}\nrepeat: python3 {os.path.abspath(sys.argv[0])} {BUILD}")
        else:
            shutil.rmtree(cls.work, ignore_errors=True)

    def tearDown(self):
        type(self).failed |= any(error for _, error in self._outcome.result.failures + self._outcome.result.errors)

    def session(self, job, ranks=2, twin=False):
        path = os.path.join(self.work, f"{job}-{ranks}{'-twin' if twin else ''}")
        if not os.path.exists(path):
            gordian("run", "--emulator", "--session", path, "--on-verdict", "kill-suspected", "--suspect-after", "3", "--",
                    os.path.join(BUILD, "tests", "gordian_e2e_job"), job, "--ranks", str(ranks), *(["--twin"] if twin else []),
                    ok=False)
        return path

    def verdict(self, path):
        return json.loads(gordian("analyze", "--json", path, ok=False).stdout)


def main():
    if not BUILD:
        sys.exit(f"usage: {sys.argv[0]} BUILD [TEST]")
    del sys.argv[1]
    unittest.main(module="__main__", verbosity=2)
