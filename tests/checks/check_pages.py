#!/usr/bin/env python3
"""docs/checks against the catalogue: a page for each check and the table of the 49 kinds of hangs, made of what
`gordian checks --json` says and of the texts in tests/golden/checks.

  check_pages.py GORDIAN BUILD             compares; ids in the sources and names of tests, too
  check_pages.py GORDIAN BUILD --update    writes the pages
"""

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


def test_cell(row):
    if not row["test"]:
        return ""
    return f"`{row['test']}`"


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
            twin = f"`{row['twin']}`" if row["twin"] else ""
            out.append(f"| {row['number']} | {row['title']} | {row['visibility']} | {test_cell(row)} | {twin} |")
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
            f"twin does not. {counts['inferred']} are *inferred*: shown by a recorded or made-up trace, or told as something wider.",
            f"{counts['not visible']} are *not visible*; the table says what is said instead.", "",
            "| | Kind | | Checks | Test | Innocent twin | |", "|---|---|---|---|---|---|---|"]
    for row in data["classes"]:
        checks = ", ".join(f"[{c}]({c}.md)" for c in row["checks"]) or f"said instead: {row['instead']}"
        twin = f"`{row['twin']}`" if row["twin"] else ""
        out.append(f"| {row['number']} | {row['title']} | {row['visibility']} | {checks} | {test_cell(row)} | {twin} | {row['note']} |")
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


class Checks(unittest.TestCase):
    maxDiff = None

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
            for name in (row["test"], row["twin"]):
                if name:
                    self.assertIn(name, names, f"kind {row['number']}")
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
