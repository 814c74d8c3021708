#!/usr/bin/env python3
"""Holds docs/wait-model.md, the files of its rules and the comments that cite it together.

  check_wait_model.py

Each rule of the page's table has a statement on the page, a file that begins with the same
sentence, and tests that exist; each file of a rule is in the table. Comments that cite a rule or a
section cite one that there is.
"""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULES = os.path.join(ROOT, "analyzer", "model", "waits", "rules")
TESTS = os.path.join(ROOT, "tests", "unit", "model")
# Where W<n> is a rule. Elsewhere it may be the name of something else.
CITING = ("analyzer", "planner", "replayer", "interpose", "collector", "proto", "cli", "tests/unit",
          "bench/analyze", "docs")
SOURCES = (".h", ".cc", ".def", ".py", ".md", ".proto")
RULE = r"W\d+[a-z]?"


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


PAGE = read("docs", "wait-model.md")


def table():
    """(rule, file, tests) of each row."""
    rows = re.findall(rf"^\| ({RULE}) \| (\w+\.cc) \| ([\w., ]+) \|$", PAGE, re.M)
    return [(rule, name, tests.split(", ")) for rule, name, tests in rows]


def statements():
    """The text of each rule's entry, in one line."""
    entries = re.findall(rf"^- \*\*({RULE})\*\* (.*(?:\n  .*)*)", PAGE, re.M)
    return {rule: " ".join(text.split()) for rule, text in entries}


def comment_text(text):
    """A citation may go over the end of a line."""
    return re.sub(r"\s*\n\s*(?://|#)?\s*", " ", text)


def citing_files():
    for folder in CITING:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                path = os.path.join(at, name)
                if name.endswith(SOURCES) and path != os.path.abspath(__file__):
                    yield os.path.relpath(path, ROOT)


class WaitModel(unittest.TestCase):
    def test_each_rule_has_one_statement_and_one_row(self):
        rules = [rule for rule, _, _ in table()]
        self.assertGreater(len(rules), 15)
        self.assertEqual(len(rules), len(set(rules)))
        self.assertEqual(rules, list(statements()))

    def test_each_file_begins_with_its_rule(self):
        for rule, name, _ in table():
            with open(os.path.join(RULES, name), encoding="utf-8") as f:
                first = f.readline().rstrip("\n")
            found = re.fullmatch(rf"// ({RULE}): (.+\.)", first)
            self.assertIsNotNone(found, f"{name}: the first line is '// {rule}: SENTENCE.'")
            self.assertEqual(found.group(1), rule, name)
            self.assertTrue(statements()[rule].startswith(found.group(2)),
                            f"{name} says '{found.group(2)}', the page '{statements()[rule]}'")

    def test_each_file_is_in_the_table(self):
        files = {name for name in os.listdir(RULES) if name.endswith(".cc")}
        self.assertEqual(files, {name for _, name, _ in table()})

    def test_each_file_is_compiled(self):
        listed = read("analyzer", "model", "CMakeLists.txt")
        for _, name, _ in table():
            self.assertRegex(listed, rf"\bwaits/rules/{re.escape(name)}[\n)]")

    def test_each_test_exists(self):
        have = set()
        for name in os.listdir(TESTS):
            if name.endswith(".cc"):
                for suite, test in re.findall(r"^TEST\w*\(\s*(\w+),\s*(\w+)\)",
                                              read(TESTS, name), re.M):
                    have.add(f"{suite}.{test}")
        for rule, _, tests in table():
            for test in tests:
                self.assertIn(test, have, f"{rule} names it")

    def test_citations_exist(self):
        rules = {rule for rule, _, _ in table()}
        sections = set(re.findall(r"^## (\d+)\.", PAGE, re.M))
        cited = 0
        for path in citing_files():
            text = comment_text(read(path))
            for rule in re.findall(rf"\b{RULE}\b", text):
                self.assertIn(rule, rules, path)
                cited += 1
            for section in re.findall(r"wait-model(?:\.md)?\)?,?\s*§\s*([\d.]*\d)", text):
                self.assertIn(section, sections, f"{path} cites a section")
                cited += 1
        self.assertGreater(cited, 50, "no citations found: has a folder moved?")


if __name__ == "__main__":
    unittest.main()
