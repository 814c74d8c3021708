#!/usr/bin/env python3
"""gordian simulate from outside: what it takes, what it prints, how it refuses."""

import json
import os
import subprocess
import tempfile
import unittest

from cli_testing import GORDIAN, JOB, clean_environment, schemas

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "03-simulation")
TOML = """
disorder_prob = 0.1
sync_prob = 0.1
model = "StreamWithSync"
grouping_policy = "Arbitrary"
resource_limit = 50
gpu_num = 8
group_num = 4
gpu_per_group = [[0, 1, 2], [2, 3, 5], [4, 5, 6], [6, 7, 0, 1, 3]]
coll_cnt_per_group = [10, 9, 8, 7]
total_rounds = 100
num_process = 2
fix_seed = 1
"""


def simulate(*arguments, text=None):
    return subprocess.run([GORDIAN, "simulate", *arguments], input=text, capture_output=True, text=True, timeout=120,
                          env=clean_environment())


class Simulate(unittest.TestCase):
    def result(self, *arguments, text=None):
        done = simulate(*arguments, "--json", text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        schemas.check(done.stdout)
        return json.loads(done.stdout)

    def write(self, text, suffix):
        with tempfile.NamedTemporaryFile("w", suffix=suffix, delete=False) as f:
            f.write(text)
        self.addCleanup(os.unlink, f.name)
        return f.name

    def test_the_examples_as_published(self):
        for name, hits in (("megatron", 4), ("arbitrary", 18)):
            got = self.result(os.path.join(EXAMPLES, f"{name}_example.json"), "--engine", "replay", "--detector", "default")
            self.assertEqual((got["default"]["hits"], got["distinct_rounds"], got["rounds"]), (hits, 100, 200))

    def test_toml_means_the_same(self):
        toml = self.result(self.write(TOML, ".toml"), "--engine", "replay", "--detector", "default")
        own = self.result(os.path.join(EXAMPLES, "arbitrary_example.json"), "--engine", "replay", "--detector", "default")
        for key in ("configuration", "configuration_hash", "default"):
            self.assertEqual(toml[key], own[key])
        self.assertEqual(self.result("-", "--engine", "replay", "--detector", "default", text=TOML)["default"], own["default"])

    def test_threads_change_nothing(self):
        example = os.path.join(EXAMPLES, "megatron_example.json")
        one, two = (self.result(example, "--rounds", "20000", "--threads", n) for n in ("1", "3"))
        for volatile in ("seconds", "rounds_per_second"):
            del one[volatile], two[volatile]
        self.assertEqual(one, two)
        self.assertGreater(one["exact"]["hits"], 100)

    def test_refusals_name_the_key(self):
        with open(os.path.join(EXAMPLES, "arbitrary_example.json")) as f:
            good = json.load(f)
        for key, value, complaint in (("coll_cnt_per_group", [1, 2], "coll_cnt_per_group has 2 entries"),
                                      ("gpu_per_group", [[0, 0], [1], [2], [3]], "names GPU 0 twice"),
                                      ("disorder_prob", 2, "disorder_prob is a probability"),
                                      ("disorder", 2, "unknown key 'disorder'")):
            done = simulate("-", text=json.dumps(dict(good, **{key: value})))
            self.assertEqual(done.returncode, 2)
            self.assertIn(complaint, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        huge = json.dumps(good).replace('"disorder_prob": 0.1', '"disorder_prob": 1e400')
        nan = json.dumps(good).replace('"disorder_prob": 0.1', '"disorder_prob": NaN')
        self.assertNotEqual(huge, json.dumps(good))
        deep = json.dumps(dict(good, gpu_per_group="deep")).replace('"deep"', "[" * 100000 + "]" * 100000)
        for arguments, complaint in (([self.write("x = [", ".toml")], "line 1"), ([self.write('{"a":', ".json")], "not JSON"),
                                     ([self.write(huge, ".json")], "1e400"), ([self.write(nan, ".json")], "disorder_prob"),
                                     ([self.write(deep, ".json")], "gpu_per_group: lists and objects"),
                                     ([self.write("[" * 100000 + "]" * 100000, ".json")], "more than 64 deep"),
                                     ([self.write(TOML.replace("sync_prob = 0.1", "sync_prob = nan"), ".toml")],
                                      "sync_prob is a probability"),
                                     (["/nowhere"], "cannot open /nowhere"), (["/tmp"], "is a folder"),
                                     (["/tmp", "--from-trace"], "trace.gtrace"),
                                     ([self.write(TOML, ".toml"), "--svg", "x.svg"], "are for sweeps")):
            done = simulate(*arguments)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(complaint, done.stderr)

    def test_a_time_limit_leaves_what_was_counted_and_says_so(self):
        got = self.result(os.path.join(EXAMPLES, "megatron_example.json"), "--rounds", "1000000000", "--time-limit", "0.5")
        self.assertFalse(got["complete"])
        self.assertGreater(got["exact"]["n"], 0)
        self.assertLess(got["exact"]["n"], 1000000000)

    def test_a_recorded_job(self):
        with tempfile.TemporaryDirectory() as work:
            session = os.path.join(work, "session")
            subprocess.run([GORDIAN, "run", "--emulator", "--quiet", "--session", session, "--", JOB, "three_comm_cycle",
                            "--twin", "--ranks", "3"], check=True, timeout=60, env=clean_environment())
            got = self.result(session, "--from-trace", "--disorder-prob", "0.2", "--sync-prob", "0.2", "--rounds", "20000")
            config = got["configuration"]
            self.assertEqual(sorted(map(tuple, config["gpu_per_group"])), [(0, 1), (0, 2), (1, 2)])
            for gpu, order in enumerate(config["group_order_per_gpu"]):
                counts = {g: n for g, n in enumerate(config["coll_cnt_per_group"]) if gpu in config["gpu_per_group"][g]}
                self.assertEqual({g: order.count(g) for g in set(order)}, counts)
            printed = simulate(session, "--from-trace", "--disorder-prob", "0.2", "--sync-prob", "0.2", "--print-config")
            again = self.result("-", "--rounds", "20000", text=printed.stdout)
            self.assertEqual(again["exact"], got["exact"])

    def test_help_has_an_example(self):
        self.assertIn("Example: gordian simulate", simulate("--help").stdout)


if __name__ == "__main__":
    unittest.main()
