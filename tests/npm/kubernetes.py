"""The objects of deploy/kubernetes, against the Kubernetes API's schema. Needs npm and its registry, once.

  kubernetes.py BUILD [Class.test]
"""
import glob
import os
import sys
import unittest

import packages

BUILD = os.path.abspath(sys.argv.pop(1))
FOLDER = os.path.join(packages.HERE, os.pardir, os.pardir, "deploy", "kubernetes")


def read(name):
    with open(os.path.join(FOLDER, name)) as f:
        return f.read()


class Objects(unittest.TestCase):
    def check(self, text):
        try:
            return packages.run(BUILD, "kubernetes_objects.cjs", text)
        except packages.Missing as why:
            return self.skipTest(str(why))

    def test_all_are_what_the_api_takes(self):
        names = [os.path.basename(path) for path in glob.glob(os.path.join(FOLDER, "*.yaml"))]
        self.assertGreaterEqual(len(names), 3)
        for name in names:
            with self.subTest(name):
                text = read(name)
                objects = text.count("\nkind: ")
                self.assertGreater(objects, 0)
                self.assertEqual(self.check(text), (0, f"{objects} objects, 0 problems\n"))

    def test_a_mistake_is_found(self):
        for name, right, wrong, words in (
                ("job.yaml", "  backoffLimit:", "  backofLimit:", "additional properties (backofLimit)"),
                ("job.yaml", "sizeLimit: 16Gi", "sizelimit: 16Gi", "additional properties (sizelimit)"),
                ("job.yaml", "mountPath: /copy", "path: /copy", "required property 'mountPath'"),
                ("server.yaml", "replicas: 1", 'replicas: "1"', "/spec/replicas must be integer"),
                ("server.yaml", "apiVersion: apps/v1", "apiVersion: app/v1", "the API has no such version"),
                ("server.yaml", "kind: Deployment", "kind: Deploy", "the API has no such kind"),
                ("networkpolicy.yaml", "namespaceSelector:", "namespaceSelectors:",
                 "additional properties (namespaceSelectors)"),
                ("networkpolicy.yaml", "  name: gordian\n", "  name: gordian\n  team: x\n",
                 "/metadata must NOT have additional properties (team)")):
            with self.subTest(words):
                text = read(name)
                self.assertIn(right, text)
                code, said = self.check(text.replace(right, wrong, 1))
                self.assertEqual(code, 1, said)
                self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
