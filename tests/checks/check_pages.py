#!/usr/bin/env python3
"""docs/checks against the catalogue: a page for each check and the table of the 49 kinds of hangs, made of what
`gordian checks --json` says and of the texts in tests/golden/checks.

  check_pages.py GORDIAN BUILD             compares; ids in the sources and names of tests, too
  check_pages.py GORDIAN BUILD --update    writes the pages
"""

import ast
import json
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = os.path.join(ROOT, "docs", "checks")
GOLDEN = os.path.join(ROOT, "tests", "golden", "checks")
CATALOGUE = "check_catalogue.cc"
GORDIAN, BUILD = "", ""


def catalogue():
    return json.loads(subprocess.run([GORDIAN, "checks", "--json"], check=True, capture_output=True, text=True,
                                     timeout=60).stdout)


def yields(check):
    return "a sign beside a verdict" if check["yields"] == "sign" else f"the verdict `{check['yields']}`"


def golden(name):
    with open(os.path.join(GOLDEN, name + ".txt"), encoding="utf-8") as f:
        return f.read()


def names_in(cell):
    return [name for name in cell.split(", ") if name]


def tests_cell(cell):
    return ", ".join(f"`{name}`" for name in names_in(cell))


def page(check, classes):
    rows = [row for row in classes if check["id"] in row["checks"]]
    out = [f"# {check['id']}", "", f"{check['title']}. Yields {yields(check)}.", "",
           "**What it says.** " + check["meaning"], "",
           f"**Threshold.** {check['threshold']} ({check['unit']}).", "",
           "**What it rests on.** " + check["evidence"], "",
           "**What can fool it.** " + check["fooled_by"], ""]
    if check["advice"]:
        out += ["**What to do.** " + check["advice"], ""]
    out += ["## An example", "", "As `gordian explain` prints it, of a simulated job (`server_checks_test`):", "", "```",
            golden(check["id"]).rstrip("\n"), "```", ""]
    if rows:
        out += ["## Kinds of hangs that it is about", "", "| | Kind | | Test | Innocent twin |", "|---|---|---|---|---|"]
        for row in rows:
            out.append(f"| {row['number']} | {row['title']} | {row['visibility']} | {tests_cell(row['test'])} | "
                       f"{tests_cell(row['twin'])} |")
        out.append("")
    return "\n".join(out)


def readme(data):
    counts = {kind: sum(row["visibility"] == kind for row in data["classes"]) for kind in ("detected", "inferred", "not visible")}
    out = ["# Checks", "",
           "What a verdict names under `check`, a page each; `gordian checks ID` says the same. A *sign* stands beside a",
           "verdict: it was seen and may be why, names no rank and changes nothing. The pages are made of the catalogue in",
           "`analyzer/model/verdict/check_catalogue.cc` and `hang_classes.cc` and of `tests/golden/checks` by",
           "`tests/golden/update.sh`; the test `docs.checks` holds them, the ids in the sources and the names of the tests",
           "against each other.", "", "| Check | Yields | Means |", "|---|---|---|"]
    for check in data["checks"]:
        what = "sign" if check["yields"] == "sign" else f"`{check['yields']}`"
        out.append(f"| [{check['id']}]({check['id']}.md) | {what} | {check['title']} |")
    out += ["", "## The 49 known kinds of hangs", "",
            f"{counts['detected']} are *detected*: a program that does it gets the verdict under the emulator, and its innocent",
            f"twin does not. {counts['inferred']} are *inferred*: shown by a made-up trace, or only as something wider, without the",
            f"rank. {counts['not visible']} are *not visible*: such a hang gets a verdict, which does not know the cause. The tests",
            "that a row names assert the checks that it names (`docs.checks`).", "",
            "| | Kind | | Checks | Test | Innocent twin | |", "|---|---|---|---|---|---|---|"]
    for row in data["classes"]:
        checks = ", ".join(f"[{c}]({c}.md)" for c in row["checks"] or names_in(row["instead"]))
        out.append(f"| {row['number']} | {row['title']} | {row['visibility']} | {'' if row['checks'] else 'said instead: '}{checks} | "
                   f"{tests_cell(row['test'])} | {tests_cell(row['twin'])} | {row['note']} |")
    return "\n".join(out + [""])


def pages():
    data = catalogue()
    out = {check["id"] + ".md": page(check, data["classes"]) for check in data["checks"]}
    out["README.md"] = readme(data)
    return out


def sources():
    for at, _, names in os.walk(os.path.join(ROOT, "analyzer")):
        for name in sorted(names):
            if name.endswith(".cc") and name not in (CATALOGUE, "hang_classes.cc"):
                with open(os.path.join(at, name), encoding="utf-8") as f:
                    yield os.path.relpath(os.path.join(at, name), ROOT), f.read()


def source(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def python_calls(tree, function):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id == function]


def strings_in(node):
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def asserted_of_jobs():
    """{job: checks that run_job.py wants}, of its table JOBS."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    import run_job  # noqa: E402
    return {job: {expect.check, *expect.signs} for job, expect in run_job.JOBS.items()}


def asserted_of_unseen():
    """{kind: checks that unseen.py wants}, of its cases."""
    out = {}
    for case in python_calls(ast.parse(source("tests", "e2e", "unseen.py")), "Case"):
        kinds = ast.literal_eval(case.args[0])
        signs = [ast.literal_eval(keyword.value) for keyword in case.keywords if keyword.arg == "signs"]
        for kind in kinds:
            out[kind] = {ast.literal_eval(case.args[3])}.union(*signs)
    return out


def asserted_of_python(name):
    """Strings in the assertions of a file, and in the constants that they name."""
    tree = ast.parse(source("tests", "e2e", name))
    constants = {node.targets[0].id: strings_in(node.value) for node in tree.body
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("assert"):
            out |= strings_in(node)
            for each in ast.walk(node):
                if isinstance(each, ast.Name):
                    out |= constants.get(each.id, set())
    return out


def asserted_of_googletest(suite, name):
    """Strings in the body of a test below tests/unit; None where there is no such test."""
    for at, _, names in os.walk(os.path.join(ROOT, "tests", "unit")):
        for file in names:
            if not file.endswith("_test.cc"):
                continue
            text = source(at, file)
            found = re.search(rf"^TEST(?:_F)?\({suite}, {name}\) {{$(.*?)^}}$", text, re.M | re.S)
            if found:
                return set(re.findall(r'"([^"]*)"', found.group(1)))
    return None


class Asserted:
    """The checks that a test of a kind asserts."""

    def __init__(self):
        self.jobs, self.unseen = asserted_of_jobs(), asserted_of_unseen()
        self.traces = set(re.findall(r'^      \{"([a-z-]+)",', source("tests", "unit", "analyzer", "report", "check_jobs.cc"), re.M))

    def of(self, test, kind):
        if test == "server_checks_test":
            return self.traces
        if test == "e2e.unseen":
            return self.unseen.get(kind, set())
        if ":" in test:
            return asserted_of_googletest(*test.split(":")[1].split("."))
        job = test.removeprefix("e2e.")
        if job in self.jobs:
            return self.jobs[job]
        return asserted_of_python(job + ".py")


class Checks(unittest.TestCase):
    maxDiff = None

    def test_the_tests_that_are_named_assert_the_checks(self):
        asserted = Asserted()
        for row in catalogue()["classes"]:
            with self.subTest(kind=row["number"], title=row["title"]):
                tests = names_in(row["test"])
                found = [asserted.of(test, row["number"]) for test in tests]
                wanted = set(row["checks"] or names_in(row["instead"]))
                self.assertNotIn(None, found, f"{tests}: one of them is not there")
                self.assertEqual(wanted - set().union(*found), set(), f"no assertion of {tests} is about these")
                for test, checks in zip(tests, found):
                    self.assertTrue(checks & wanted, f"{test} asserts none of {sorted(wanted)}")
                if row["visibility"] == "detected":
                    self.assertEqual(names_in(row["twin"]), [test if test + ".twin" not in row["twin"] else test + ".twin"
                                                             for test in tests])

    def test_no_two_kinds_rest_on_one_test_alone(self):
        seen = {}
        for row in catalogue()["classes"]:
            if row["visibility"] == "detected":
                self.assertNotIn(row["test"], seen, f"kinds {seen.get(row['test'])} and {row['number']}")
                seen[row["test"]] = row["number"]

    def test_pages_say_what_the_catalogue_says(self):
        expected = pages()
        for name, text in expected.items():
            with open(os.path.join(PAGES, name), encoding="utf-8") as f:
                self.assertEqual(f.read(), text, f"docs/checks/{name}: tests/golden/update.sh writes it anew")
        self.assertEqual(sorted(os.listdir(PAGES)), sorted(expected))
        texts = [name for name in os.listdir(GOLDEN)]
        self.assertEqual(sorted(texts), sorted(check["id"] + ".txt" for check in catalogue()["checks"]))

    def test_the_sources_and_the_catalogue_know_the_same_ids(self):
        ids = {check["id"] for check in catalogue()["checks"]}
        told = set()
        for name, text in sources():
            # Where a finding or a sign is made of a literal.
            for found in re.finditer(r'(?:MakeFinding|Make|make|Of|add)\(\s*\n?\s*(?:[\w.()&!=> ]+\?\s*)?"([a-z]+(?:-[a-z]+)+)"', text):
                self.assertIn(found.group(1), ids, name)
            told |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
        self.assertEqual(ids - told, set(), "no source gives these")

    def test_the_tests_that_are_named_exist(self):
        listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True, capture_output=True,
                                text=True, timeout=120)
        names = {test["name"] for test in json.loads(listed.stdout)["tests"]}
        for row in catalogue()["classes"]:
            for name in names_in(row["test"]) + names_in(row["twin"]):
                self.assertIn(name.split(":")[0], names, f"kind {row['number']}")
        # What a note refers to, too.
        for row in catalogue()["classes"]:
            for name in re.findall(r"e2e\.\w+(?:\.\w+)*", row["note"]):
                self.assertIn(name, names, f"kind {row['number']}")


if __name__ == "__main__":
    GORDIAN, BUILD = sys.argv[1], sys.argv[2]
    if sys.argv[3:] == ["--update"]:
        os.makedirs(PAGES, exist_ok=True)
        made = pages()
        for old in set(os.listdir(PAGES)) - set(made):
            os.unlink(os.path.join(PAGES, old))
        for page_name, page_text in made.items():
            with open(os.path.join(PAGES, page_name), "w", encoding="utf-8") as out_file:
                out_file.write(page_text)
    else:
        unittest.main(argv=sys.argv[:1])
