#!/usr/bin/env python3
"""docs/schemas: each allows what gordian writes, of real sessions and in golden files, and nothing more.

  schemas_test.py BUILD [TEST]
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import schemas

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
GORDIAN = os.path.join(BUILD, "bin", "gordian")


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.jsonschema = schemas.jsonschema()
        except schemas.Missing as missing:
            raise unittest.SkipTest(str(missing)) from missing
        cls.work = tempfile.mkdtemp(prefix="gordian-schemas-")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.env = {**os.environ, "XDG_STATE_HOME": os.path.join(cls.work, "state")}
        for name, job, more in (("hung", "inversion_sync", []), ("late", "missing_rank", []), ("ends", "inversion_sync", ["--twin"]),
                                ("near", "near_miss", [])):
            cls.gordian("run", "--emulator", "--session", name, "--on-verdict", "kill-suspected", "--suspect-after", "3", "--",
                        os.path.join(BUILD, "tests", "gordian_e2e_job"), job, *more)

    @classmethod
    def gordian(cls, *arguments):
        return subprocess.run([GORDIAN, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=cls.work,
                              env=cls.env).stdout

    def read(self, name):
        with open(os.path.join(self.work, name), encoding="utf-8") as f:
            return json.load(f)

    def documents(self):
        """By schema what gordian writes with it."""
        found = {}

        def add(document, name=None):
            found.setdefault(name or document["schema"], []).append(document)

        for session in ("hung", "late", "ends", "near"):
            for words in (["analyze"], ["explain"], ["status"], ["predict"], ["explore"]):
                add(json.loads(self.gordian(*words, session, "--json")))
            add(self.read(f"{session}/verdict.json"))
            for line in self.gordian("export", session, "-f", "jsonl").splitlines():
                add(json.loads(line), "gordian.operations.v1")
            add(json.loads(self.gordian("replay", session, "-o", f"replay-{session}", "--json")))
        for verb in ("predict", "explore"):  # what a baseline adds
            with open(os.path.join(self.work, "known.json"), "w", encoding="utf-8") as f:
                f.write(self.gordian(verb, "near", "--json"))
            add(json.loads(self.gordian(verb, "near", "--json", "--baseline", "known.json")))
        self.gordian("explore", "near", "-o", "explored")
        add(self.read("explored/explored-1.json"))
        for words in (["export", "hung", "-f", "csv", "-o", "x.csv"], ["checks"], ["doctor"], ["hooks"], ["demo"], ["incidents"],
                      ["report", "hung", "-o", "x.html"], ["attach", str(os.getpid())]):
            add(json.loads(self.gordian(*words, "--json")))
        for path in glob.glob(os.path.join(schemas.SOURCES, "tests", "golden", "report", "*.json")):
            with open(path, encoding="utf-8") as f:
                add(json.load(f))
        return found

    def test_what_gordian_writes(self):
        documents = self.documents()
        self.assertEqual(sorted(documents), schemas.names())  # each schema is tried
        for name, written in documents.items():
            for document in written:
                self.assertEqual(schemas.problems(document, name), [], document)
            # A field that the schema does not have is found, wherever it is.
            for document in written[:3]:
                for path, changed in schemas.with_a_new_field(document):
                    self.assertTrue(schemas.problems(changed, name), f"{name}: a new field at /{'/'.join(map(str, path))}")
            # And so is one that is gone, or of another type.
            document = written[0]
            for key in document:
                self.assertTrue(schemas.problems({k: v for k, v in document.items() if k != key} | {"schema": name}, name)
                                or key in ("schema", "recovery", "revision", "written", "closed"), f"{name} without {key}")

    def test_they_are_schemas(self):
        for name in schemas.names():
            with self.subTest(name):
                self.jsonschema.Draft202012Validator.check_schema(schemas.schema(name))
                self.assertEqual(schemas.schema(name)["$id"], name)

    def test_all_objects_are_closed(self):
        def walk(value, path):
            if isinstance(value, dict):
                names_are_data = isinstance(value.get("additionalProperties"), dict)
                if value.get("type") == "object" and "oneOf" not in value and not names_are_data:
                    self.assertIs(value.get("additionalProperties"), False, path)
                    self.assertLessEqual(set(value["required"]), set(value["properties"]), path)
                for key, inner in value.items():
                    walk(inner, f"{path}/{key}")
            elif isinstance(value, list):
                for inner in value:
                    walk(inner, path)
        for name in schemas.names():
            walk(schemas.schema(name), name)

    def test_each_name_in_the_sources_is_known(self):
        used = set()
        for folder in ("analyzer", "cli", "collector", "common", "dashboard/src", "planner", "replayer", "simulator"):
            for at, _, files in os.walk(os.path.join(schemas.SOURCES, folder)):
                for name in files:
                    if name.endswith((".cc", ".h")):
                        with open(os.path.join(at, name), encoding="utf-8") as f:
                            used |= set(re.findall(r'"(gordian\.[a-z_]+\.v\d+)"', f.read()))
        self.assertTrue(used)
        self.assertEqual(used - set(schemas.names()) - schemas.WITHOUT, set(), "write its schema into docs/schemas")
        self.assertEqual(schemas.WITHOUT & set(schemas.names()), set())
        self.assertEqual(schemas.WITHOUT - used, set())


if __name__ == "__main__":
    if not BUILD:
        sys.exit(f"usage: {sys.argv[0]} BUILD [TEST]")
    del sys.argv[1]
    unittest.main(verbosity=2)
