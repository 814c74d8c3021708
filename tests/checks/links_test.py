#!/usr/bin/env python3
"""Every link in a Markdown page leads to a file and a heading, and every page that a source file
names is there. First on small made-up trees with one fault each, then on the repository.

  links_test.py ROOT
"""

import os
import re
import sys
import tempfile
import unittest

ROOT = sys.argv[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdocs/[\w./-]+?\.md\b")
SOURCES = (".h", ".cc", ".cu", ".cuh", ".def", ".py", ".sh", ".txt", ".cmake", ".proto")
SKIPPED = ("build", ".git", "__pycache__", "node_modules")
HERE = os.path.dirname(os.path.abspath(__file__))  # Tests here make pages up.


def files(root):
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED]
        for name in names:
            yield os.path.join(folder, name)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:  # Tests hold bytes of any kind.
        return f.read()


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text):
    """The anchors that GitHub makes of the headings."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def broken_links(page, root):
    name = os.path.relpath(page, root)
    for link in LINK.findall(without_code(read(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            yield f"{name}: {link} leads to no file"
        elif anchor and anchor not in anchors(read(target)):
            yield f"{name}: {link} leads to no heading"


def problems(root):
    found = []
    for path in files(root):
        if path.endswith(".md"):
            found += broken_links(path, root)
        elif path.endswith(SOURCES) and os.path.dirname(path) != HERE:
            found += [f"{os.path.relpath(path, root)}: names {page}, which is not there"
                      for page in NAMED.findall(read(path))
                      if not os.path.exists(os.path.join(root, page))]
    return sorted(found)


class Links(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        os.mkdir(os.path.join(self.root, "docs"))

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as f:
            f.write(text)

    def test_good_links(self):
        self.write("docs/a.md", "# A page: `x`\n\n[b](b.md#what-is-it) [c](../c.h) [](#a-page-x)\n")
        self.write("docs/b.md", "# B\n\n## What is it?\n\n```\n[no](link.md)\n```\n")
        self.write("c.h", "// docs/b.md has the rest.\n")
        self.assertEqual(problems(self.root), [])

    def test_no_file(self):
        self.write("docs/a.md", "[b](b.md)\n")
        self.assertEqual(problems(self.root), ["docs/a.md: b.md leads to no file"])

    def test_no_heading(self):
        self.write("docs/a.md", "# A\n\n```\n# B\n```\n[b](#b)\n")
        self.assertEqual(problems(self.root), ["docs/a.md: #b leads to no heading"])

    def test_a_source_names_no_page(self):
        self.write("c.cc", "// See docs/gone.md.\n")
        self.assertEqual(problems(self.root), ["c.cc: names docs/gone.md, which is not there"])

    def test_the_repository(self):
        self.assertEqual(problems(os.path.abspath(ROOT)), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
