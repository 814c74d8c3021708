#!/usr/bin/env python3
"""Checkpoints of `gordian explore` that were cut, changed, swapped, or left by a search that was killed: each is refused by
name and stays as it was, or gives what one search without a break finds.

  checkpoints.py BUILD_FOLDER [--seed N] [TEST]
"""
import json
import os
import random
import shutil
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
SEED = int(sys.argv.pop(sys.argv.index("--seed") + 1)) if "--seed" in sys.argv else random.randrange(1 << 32)
if "--seed" in sys.argv:
    sys.argv.remove("--seed")
from cli_testing import EMULATOR, GORDIAN, JOB, CliTest, clean_environment, main  # noqa: E402

KILLS = 8
WITHOUT_ROOTS_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


class Checkpoints(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)
        self.rng = random.Random(SEED)

    def record(self, session, *job, ranks=2):
        done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", JOB, *job, "--ranks", str(ranks))
        self.assertEqual(done.returncode, 0, done.stderr)

    def explored(self, session, *options):
        done = self.gordian("explore", session, *options, "--json", timeout=200)
        self.assertIn(done.returncode, (0, 1), f"{done.stderr}\nseed {SEED}")
        return json.loads(done.stdout)

    def contents(self):
        with open(self.path("c"), "rb") as f:
            return f.read()

    def begun(self):
        """A checkpoint, c, of a search of s that is not done. Returns its bytes."""
        self.record("s", "near_miss")
        said = self.explored("s", "--checkpoint", "c", "--max-states", "8")
        self.assertEqual(said["stopped_by"], "states")
        return self.contents()

    def refused(self, why, session="s", prefix=()):
        done = subprocess.run([*prefix, GORDIAN, "explore", session, "--checkpoint", "c"], capture_output=True, text=True, timeout=60,
                              cwd=self.work, env=clean_environment(), stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (2, ""), f"{done.stderr}\nseed {SEED}")
        self.assert_one_line(done.stderr, why)
        self.assertRegex(done.stderr, r"\bc\b")

    def refuses(self, contents, why):
        with open(self.path("c"), "wb") as f:
            f.write(contents)
        self.refused(why)
        self.assertEqual(self.contents(), contents, "it changed what it refused")

    @staticmethod
    def sealed(head, search):
        """As gordian writes it, with a CRC that is right."""
        text = json.dumps(search).encode() + b"\n"
        return json.dumps({**head, "crc": zlib.crc32(text)}).encode() + b"\n" + text

    def test_cut_or_changed(self):
        whole = self.begun()
        for _ in range(12):
            length = self.rng.randrange(len(whole))
            with self.subTest(length=length):
                self.refuses(whole[:length], "")
        for _ in range(24):
            at, bit = self.rng.randrange(len(whole)), self.rng.randrange(8)
            with self.subTest(at=at, bit=bit):
                self.refuses(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1:], "")
        self.refuses(whole + b"\n", "is damaged")
        self.refuses(b"", "is no checkpoint")
        self.refuses(self.rng.randbytes(4096), "is no checkpoint")
        # The bytes that it wrote are taken.
        with open(self.path("c"), "wb") as f:
            f.write(whole)
        self.assertEqual(self.explored("s", "--checkpoint", "c"), self.explored("s"))

    def test_contents_that_no_search_has(self):
        head, search = (json.loads(line) for line in self.begun().splitlines())
        (window,) = search["windows"]
        self.assertTrue(window["open"])

        def changed(**more):
            return {**search, "windows": [{**window, **more}]}

        def opened(**more):
            return changed(open=[{**window["open"][0], **more}])
        for name, contents, why in (
                ("a large actor", opened(then=[2**32 - 1]), "another trace"),
                ("a larger actor", opened(then=[2**32]), "is damaged"),
                ("no actor", opened(then=[-1]), "is damaged"),
                ("half an actor", opened(then=[0.5]), "is damaged"),
                ("a huge actor", opened(then=[1e300]), "is damaged"),
                ("a truth", opened(then=[True]), "is damaged"),
                ("a long way", opened(then=[0] * 100_000), "another trace"),
                ("a way of another one", opened(same=1), "another trace"),
                ("a way of none", opened(same=2**64 - 1), "another trace"),
                ("sleepers", opened(asleep=[7]), "another trace"),
                ("preemptions", opened(preemptions=2**63), "another trace"),
                ("a huge branch", opened(branch=2**32), "is damaged"),
                ("few counts", changed(counts=[1]), "is damaged"),
                ("an end", changed(ends=[{"number": 0, "path": [9]}]), "another trace"),
                ("an end at the beginning", changed(ends=[{"number": 0, "path": []}]), "another trace"),
                ("calls of others", changed(calls=1), "another trace"),
                ("no list", changed(open=7), "is damaged"),
                ("no windows", {"bounds": search["bounds"]}, "is damaged"),
                ("no bounds", {"windows": search["windows"]}, "is damaged"),
                ("a bound for all", {**search, "bounds": 1}, "is damaged"),
                ("no object", [], "is damaged"),
                ("more windows", {**search, "windows": [window] * 2}, "another trace")):
            with self.subTest(name):
                self.refuses(self.sealed(head, contents), why)
        self.refuses(self.sealed({**head, "gordian_version": "0.0.1"}, search), "is of another version of gordian: remove it")
        self.refuses(self.sealed({**head, "schema": "gordian.explore.v1"}, search), "is no checkpoint of gordian explore")
        self.refuses(self.sealed(head, {**search, "bounds": {**search["bounds"], "--depth": 10**18}}),
                     "was begun with another --depth: 1000000000000000000, now none")
        # Counts that wrap are wrong counts, and harm nothing else.
        with open(self.path("c"), "wb") as f:
            f.write(self.sealed(head, changed(counts=[2**64 - 1] * 5)))
        self.assertEqual(self.explored("s", "--checkpoint", "c")["stopped_by"], "states")

    def test_of_another_session(self):
        self.begun()
        for name, job in (("twin", ("near_miss", "--twin")), ("other", ("near_miss_loader",))):
            self.record(name, *job)
            self.refused("c is of another trace", session=name)
        self.record("more", "near_miss", ranks=3)
        self.refused("c is of another trace", session="more")

    def test_no_file_of_its_own(self):
        whole = self.begun()
        with open(self.path("held"), "wb") as f:
            f.write(whole)
        os.remove(self.path("c"))
        for target in ("held", "nowhere", "/dev/null"):
            os.symlink(target, self.path("c"))
            self.refused("c is a link")
            self.assertTrue(os.path.islink(self.path("c")))
            os.remove(self.path("c"))
        with open(self.path("held"), "rb") as f:
            self.assertEqual(f.read(), whole)
        os.mkdir(self.path("c"))
        self.refused("c: Is a directory")
        os.rmdir(self.path("c"))
        os.mkfifo(self.path("c"))
        self.refused("c: not a regular file")
        os.remove(self.path("c"))
        shutil.copy(self.path("held"), self.path("c"))
        os.chmod(self.path("c"), 0)
        prefix = WITHOUT_ROOTS_RIGHTS if os.geteuid() == 0 else []
        if prefix and subprocess.run([*prefix, "cat", self.path("c")], capture_output=True).returncode == 0:
            self.skipTest("nothing is unreadable here")
        self.refused("c: Permission denied", prefix=prefix)
        done = self.gordian("explore", "s", "--checkpoint", "nowhere/c")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "cannot write nowhere/c")

    def test_killed_at_any_moment(self):
        # Where gordian saw the helper thread of a rank end before the main thread's call, their order is fixed.
        for _ in range(5):
            shutil.rmtree(self.path("s"), ignore_errors=True)
            self.record("s", "near_miss", ranks=6)
            began = time.monotonic()
            whole = self.explored("s")
            longest = time.monotonic() - began
            if whole["tried"]["states"] > 1000:
                break
        self.assertGreater(whole["tried"]["states"], 1000, "the record leaves too few orders")
        self.assertTrue(whole["found"])
        kills, left = 0, 0
        while True:
            search = self.start("explore", "s", "--checkpoint", "c", "--checkpoint-every", "0", "--json",
                                "--jobs", str(self.rng.choice((1, 2))))
            try:
                out, err = search.communicate(timeout=self.rng.uniform(0.02, longest) if kills < KILLS else 200)
                break
            except subprocess.TimeoutExpired:
                search.kill()
                search.communicate()
                kills += 1
                left += os.path.exists(self.path("c"))
        self.assertIn(search.returncode, (0, 1), f"{err}\nseed {SEED}")
        self.assertGreater(left, 0, f"no kill left a checkpoint; seed {SEED}")
        self.assertEqual(json.loads(out), whole, f"after {kills} kills; seed {SEED}")



if __name__ == "__main__":
    print(f"seed {SEED}")
    main()
