#!/usr/bin/env python3
"""bench/results/pages.py on the repository's pages, and on small made-up trees with one fault each.

  results_pages_test.py ROOT
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv[1]
PAGES = os.path.join(ROOT, "bench", "results", "pages.py")
BLOCK = "<!-- results: speed#calls -->\n<!-- /results -->\n"


def result():
    return {"title": "Speed", "machine": "one H200", "revision": "47b1e53", "date": "2026-11-22",
            "command": "bench --all", "notes": [],
            "tables": [{"id": "calls", "caption": "Calls", "columns": ["Bytes", "us"],
                        "rows": [[4096, "1.5"]]}]}


class ResultsPages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        for folder in ("docs", "bench/results"):
            os.makedirs(os.path.join(self.root, folder))
        self.write_data(result())
        self.write_page("# A page\n\n" + BLOCK)

    def write_data(self, data):
        with open(os.path.join(self.root, "bench/results/speed.json"), "w", encoding="utf-8") as f:
            json.dump(data, f)

    def write_page(self, text):
        with open(os.path.join(self.root, "docs/page.md"), "w", encoding="utf-8") as f:
            f.write(text)

    def page(self):
        with open(os.path.join(self.root, "docs/page.md"), encoding="utf-8") as f:
            return f.read()

    def run_pages(self, *args, root=None):
        done = subprocess.run([sys.executable, PAGES, "--root", root or self.root, *args],
                              capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    def assert_fails(self, *said):
        code, errors = self.run_pages()
        self.assertEqual(code, 1)
        for text in said:
            self.assertIn(text, errors)

    def test_the_repository_shows_its_results(self):
        self.assertEqual(self.run_pages(root=ROOT), (0, ""))

    def test_update_writes_table_and_conditions_and_then_nothing_is_stale(self):
        self.assertEqual(self.run_pages("--update"), (0, ""))
        self.assertIn("| Bytes | us |\n|--:|---|\n| 4,096 | 1.5 |\n", self.page())
        self.assertIn("Machine: one H200. Revision: 47b1e53, 2026-11-22. Command: `bench --all`.",
                      self.page())
        self.assertEqual(self.run_pages(), (0, ""))

    def test_a_tables_own_conditions_replace_the_files(self):
        data = result()
        data["tables"][0]["machine"] = "two B200"
        self.write_data(data)
        self.assertEqual(self.run_pages("--update"), (0, ""))
        self.assertIn("Machine: two B200. Revision: 47b1e53", self.page())

    def test_a_stale_block_is_found_and_named(self):
        self.assertEqual(self.run_pages("--update"), (0, ""))
        self.write_page(self.page().replace("1.5", "0.5"))
        self.assert_fails("docs/page.md", "speed#calls", "not what the data says")

    def test_an_unknown_table_is_found(self):
        self.write_page(BLOCK + BLOCK.replace("calls", "bytes"))
        self.assertEqual(self.run_pages("--update")[0], 1)
        self.assert_fails("docs/page.md: block speed#bytes names no table")

    def test_each_missing_field_is_found(self):
        for field in result():
            data = result()
            del data[field]
            self.write_data(data)
            self.assert_fails(f"speed.json: field `{field}` is missing")
        for field in result()["tables"][0]:
            data = result()
            del data["tables"][0][field]
            self.write_data(data)
            self.assert_fails(f"field `{field}` is missing")

    def test_what_is_no_revision_or_date_is_found(self):
        for field, value in (("revision", "main"), ("date", "yesterday"), ("machine", "")):
            data = result()
            data[field] = value
            self.write_data(data)
            self.assert_fails(f"`{field}` has to be")

    def test_a_short_row_and_an_unknown_field_are_found(self):
        data = result()
        data["tables"][0]["rows"].append(["8"])
        self.write_data(data)
        self.assert_fails("row 2 has 1 cells, not 2")
        data = result()
        data["tables"][0]["note"] = "x"
        self.write_data(data)
        self.assert_fails("no field `note` is known")

    def test_a_table_that_no_page_shows_is_found(self):
        self.write_page("# A page\n\n```\n" + BLOCK + "```\n")
        self.assert_fails("no page shows table speed#calls")

    def test_a_block_without_an_end_is_found_and_the_page_is_kept(self):
        text = "<!-- results: speed#calls -->\nprose\n"
        self.write_page(text)
        self.assertEqual(self.run_pages("--update")[0], 1)
        self.assertEqual(self.page(), text)
        self.assert_fails("block speed#calls is not closed")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
