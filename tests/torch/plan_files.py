"""The plan.json files that gordian.torch.plan reads: those of `gordian plan` have the hash that they say, and their
iterations are the file's; others are refused. Needs no PyTorch.

  plan_files.py BUILD
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(BUILD, "lib", "python"))
from gordian.torch.plan_file import PlanError, PlanFile, hash_of  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VGG19 = os.path.join(ROOT, "examples", "plan-vgg19", "buckets.csv")
SMALL = {"buckets": [{"forward_us": 10, "backward_us": 10, "comm_us": 39, "elements": 1000, "name": f"layer {i}"}
                     for i in range(3)]}


class PlanFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gordian-plan-files-")
        self.addCleanup(folder.cleanup)
        self.work = folder.name

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, document):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(document, file)
        return self.path(name)

    def plan(self, table, *options):
        path = self.path("plan.json")
        done = subprocess.run([os.path.join(BUILD, "bin", "gordian"), "plan", table, "-o", path, *options],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            return path, json.load(file)

    def small(self, *options):
        return self.plan(self.write("table.json", SMALL), *options)

    def test_hashes_are_those_of_gordian(self):
        for options in ([], ["--links", "2"], ["--scale", "2"], ["--merge", "mean"], ["--partition", "300"],
                        ["--links", "2", "--solver", "greedy"]):
            with self.subTest(options=options):
                path, document = self.small(*options)
                self.assertEqual(hash_of(document), document["hash"])
                self.assertEqual(PlanFile(path).hash, document["hash"])
        sums, means = self.small()[1]["hash"], self.small("--merge", "mean")[1]["hash"]
        self.assertNotEqual(sums, means)

    def test_names_and_sizes_reach_the_plan(self):
        path, _ = self.small()
        plan = PlanFile(path)
        self.assertEqual((plan.names, plan.elements), (["layer 0", "layer 1", "layer 2"], [1000] * 3))

    def test_iterations_far_on_are_those_of_the_period(self):
        """Against a reading of the file that keeps every gradient: each is applied once, in order, all items sent."""
        for options in ([], ["--links", "2"], ["--scale", "1.3"], ["--partition", "300"]):
            with self.subTest(options=options):
                plan = PlanFile(self.small(*options)[0])
                gradients, sent, applied = {}, {}, []
                for t in range(200):
                    now = plan.iteration(t)
                    for send in now.forward + now.backward:
                        self.assertLess(max(gradients[send.generation]), t)
                        self.assertNotIn(send.item, sent.setdefault(send.generation, set()))
                        sent[send.generation].add(send.item)
                    gradients.setdefault(now.generation, []).append(t)
                    for bucket, sends in now.ready.items():
                        self.assertTrue(now.formed)
                        for send in sends:
                            self.assertEqual((plan.items[send.item].bucket, send.generation), (bucket, now.generation))
                            sent.setdefault(send.generation, set()).add(send.item)
                    for update in now.updates:
                        self.assertEqual(len(sent[update.generation]), len(plan.items))
                        self.assertEqual(len(gradients[update.generation]), update.merged)
                        applied += gradients[update.generation]
                self.assertEqual(applied, list(range(len(applied))))
                self.assertGreater(len(applied), 190)

    def refused(self, document, *says):
        with self.assertRaises(PlanError) as caught:
            PlanFile(self.write("changed.json", document))
        for text in ("changed.json", *says):
            self.assertIn(text, str(caught.exception))

    def test_what_cannot_be_followed_is_refused(self):
        _, document = self.small()
        copy = lambda: json.loads(json.dumps(document))  # noqa: E731
        self.refused(dict(document, schema="gordian.plan.v2"), "gordian.plan.v2", "gordian.plan.v1")
        self.refused([], "no plan")
        self.refused(dict(document, hash="0" * 16), "0" * 16, document["hash"], "by hand")
        without = copy()
        del without["items"][1]["bucket"]
        self.refused(without, "bucket")
        refused = copy()
        refused["proof"].update(result="refused", refusal="cycle")
        self.refused(refused, "cycle")

        def changed(change):
            other = copy()
            change(other)
            return dict(other, hash=hash_of(other))

        shape = lambda d: next(i for i in d["warm_up"] + d["period"] if i["sends"])  # noqa: E731
        self.refused(changed(lambda d: shape(d)["sends"].append(shape(d)["sends"][0])), "second time")
        self.refused(changed(lambda d: shape(d)["sends"].pop()), "without item")
        self.refused(changed(lambda d: shape(d)["sends"][0].update(link=2)), "over link 2")
        self.refused(changed(lambda d: shape(d)["sends"][0].update(when="begin")), "last gradient")
        self.refused(changed(lambda d: d["period"][-1]["updates"].clear() or d["period"][0]["updates"].clear()), "iteration")
        self.refused(changed(lambda d: d["items"][0].update(elements=7)), "begins at element")
        self.refused(changed(lambda d: d["items"][-1].update(elements=7)), "items of bucket 3")
        self.refused(changed(lambda d: d["items"][2].update(bucket=9)), "bucket 9")

    def test_pieces_of_unknown_size_are_refused(self):
        path, document = self.plan(VGG19)
        self.assertGreater(len(document["items"]), len(document["inputs"]["buckets"]))
        with self.assertRaisesRegex(PlanError, "does not say where"):
            PlanFile(path)

    def test_a_table_with_two_names_for_a_bucket_is_refused(self):
        other = [dict(bucket, name="x") for bucket in SMALL["buckets"]]
        table = self.write("ranks.json", {"ranks": [SMALL["buckets"], other]})
        done = subprocess.run([os.path.join(BUILD, "bin", "gordian"), "plan", table], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("different names", done.stderr)


if __name__ == "__main__":
    unittest.main()
