#!/usr/bin/env python3
"""ThreadSanitizer sees the ring's orders: it reports nothing of the shim's sources as they are, and a race once one
order is taken out. usage: race_test.py SOURCE COMPILER"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, COMPILER = "", ""
HERE = os.path.dirname(os.path.abspath(__file__))
WITHOUT = {"ring.publish": "interpose/state/ring_client.h", "ring.room": "interpose/state/ring_client.cc"}


def build(folder, weakened=None):
    """The program, with the order at marker `weakened` relaxed."""
    files = {}
    for path in sorted(set(WITHOUT.values())):
        with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
            files[path] = f.read()
    if weakened:
        path = WITHOUT[weakened]
        files[path], count = re.subn(r"(// litmus: %s\n[^;]*memory_order_)(?:release|acquire)" % re.escape(weakened),
                                     r"\1relaxed", files[path])
        if count != 1:
            raise AssertionError(f"{weakened} was not found in {path}")
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "w", encoding="utf-8") as f:
            f.write(text)
    program = os.path.join(folder, "race")
    made = subprocess.run([COMPILER, "-std=c++20", "-O1", "-w", "-fsanitize=thread", "-I", folder, "-I", SOURCE,
                           os.path.join(HERE, "race.cc"), os.path.join(folder, "interpose/state/ring_client.cc"),
                           "-o", program, "-pthread"], capture_output=True, text=True)
    if made.returncode != 0 and "tsan" in made.stderr:
        raise unittest.SkipTest("this compiler has no ThreadSanitizer")
    if made.returncode != 0:
        raise AssertionError(made.stderr)
    return program


def run(program):
    done = subprocess.run([program], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TSAN_OPTIONS": "exitcode=66 report_bugs=1"})
    if "unexpected memory mapping" in done.stderr:
        raise unittest.SkipTest("ThreadSanitizer does not run under this kernel")
    return done


class Races(unittest.TestCase):
    def test_none_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(build(folder))
            self.assertEqual((done.returncode, done.stdout), (0, "taken\n"), done.stderr)

    def test_one_without_an_order(self):
        for weakened in WITHOUT:
            with self.subTest(weakened), tempfile.TemporaryDirectory() as folder:
                done = run(build(folder, weakened))
                self.assertEqual(done.returncode, 66, done.stdout)
                self.assertIn("WARNING: ThreadSanitizer: data race", done.stderr)


if __name__ == "__main__":
    SOURCE, COMPILER = sys.argv[1], sys.argv[2]
    unittest.main(argv=sys.argv[:1])
