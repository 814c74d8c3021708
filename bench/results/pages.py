#!/usr/bin/env python3
"""Writes the tables of bench/results/*.json into the pages that show them, or checks them there.

  pages.py [--root DIR]             compares; exits 1 and names each page, block and file at fault
  pages.py [--root DIR] --update    writes the blocks; still exits 1 where it cannot

bench/results/README.md describes the files and the blocks.
"""

import argparse
import json
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH = 100
OPEN = re.compile(r"<!-- results: ([\w-]+)#([\w-]+) -->")
CLOSE = "<!-- /results -->"
CONDITIONS = ("machine", "revision", "date", "command")
FILE_FIELDS = ("title", *CONDITIONS, "notes", "tables")
TABLE_FIELDS = ("id", "caption", "columns", "rows")
UNKNOWN = "not recorded"
REVISION = re.compile(r"[0-9a-f]{7,40}(, [0-9a-f]{7,40})*|by row|" + UNKNOWN)


def bad_texts(values, what):
    return [f"{what}: `{name}` has to be a text that is not empty" for name, value in values
            if not isinstance(value, str) or not value.strip()]


def bad_fields(holder, required, optional, what):
    missing = [f"{what}: field `{name}` is missing" for name in required if name not in holder]
    return missing + [f"{what}: no field `{name}` is known"
                      for name in holder if name not in (*required, *optional)]


def bad_conditions(holder, what):
    """What is wrong with the conditions that `holder`, a file or a table, states."""
    problems = bad_texts([(name, holder[name]) for name in CONDITIONS if name in holder], what)
    if problems:
        return problems
    if not re.fullmatch(r"\d{4}-\d\d-\d\d|" + UNKNOWN, holder.get("date", UNKNOWN)):
        problems.append(f'{what}: `date` has to be YYYY-MM-DD or "{UNKNOWN}"')
    if not REVISION.fullmatch(holder.get("revision", UNKNOWN)):
        problems.append(f'{what}: `revision` has to be commit ids, "by row" or "{UNKNOWN}"')
    return problems


def bad_table(table, what):
    problems = bad_fields(table, TABLE_FIELDS, (*CONDITIONS, "notes"), what)
    if problems:
        return problems
    problems += bad_texts([("id", table["id"]), ("caption", table["caption"])], what)
    problems += bad_texts([("notes", note) for note in table.get("notes", [])], what)
    problems += bad_conditions(table, what)
    if not table["columns"] or not table["rows"]:
        problems.append(f"{what}: it has no columns or no rows")
    for number, row in enumerate(table["rows"], 1):
        if len(row) != len(table["columns"]):
            problems.append(
                f"{what}: row {number} has {len(row)} cells, not {len(table['columns'])}")
        if any(isinstance(cell, bool) or not isinstance(cell, (str, int, float)) for cell in row):
            problems.append(f"{what}: a cell of row {number} is neither a text nor a number")
    return problems


def load(folder):
    """Returns {"NAME#ID": (file, table)} of all data files, and what is wrong with them."""
    tables, problems = {}, []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        what = f"bench/results/{name}"
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                data = json.load(f)
        except ValueError as error:
            problems.append(f"{what}: {error}")
            continue
        found = bad_fields(data, FILE_FIELDS, (), what)
        if not found:
            found += bad_texts([("title", data["title"])], what)
            found += bad_texts([("notes", note) for note in data["notes"]], what)
            found += bad_conditions(data, what)
            if not data["tables"]:
                found.append(f"{what}: it holds no table")
            for table in data["tables"]:
                where = f"{what}, table {table.get('id', 'without an id')}"
                found += bad_table(table, where)
                key = f"{name[:-len('.json')]}#{table.get('id')}"
                if key in tables:
                    found.append(f"{where}: the id occurs twice")
                tables[key] = (data, table)
        problems += found
    return tables, problems


def cell_text(cell):
    text = f"{cell:,}" if isinstance(cell, int) else str(cell)
    return re.sub(r"(?<!\\)\|", r"\|", text)


def render(data, table):
    """The lines of a block: the caption, the table, its notes and its conditions."""
    state = {name: table.get(name, data[name]) for name in CONDITIONS}
    numeric = [not any(isinstance(cell, str) for cell in column) for column in zip(*table["rows"])]
    out = ["", *textwrap.wrap(f"**{table['caption']}**", WIDTH), ""]
    out.append("| " + " | ".join(cell_text(column) for column in table["columns"]) + " |")
    out.append("|" + "|".join("--:" if number else "---" for number in numeric) + "|")
    out += ["| " + " | ".join(cell_text(cell) for cell in row) + " |" for row in table["rows"]]
    command = state["command"]
    if command != UNKNOWN and "`" not in command:
        command = f"`{command}`"
    date = "" if state["date"] == UNKNOWN else f", {state['date']}"
    line = f"Machine: {state['machine']}. Revision: {state['revision']}{date}. Command: {command}."
    for text in (*table.get("notes", []), line):
        out += ["", *textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return out + [""]


def pages(root):
    """The Markdown files that may hold blocks: those of the root, of docs and of bench."""
    names = [name for name in os.listdir(root) if name.endswith(".md")]
    for top in ("docs", "bench"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            names += [os.path.relpath(os.path.join(folder, f), root)
                      for f in files if f.endswith(".md")]
    return sorted(names)


def fill(name, text, tables, shown):
    """Returns the page's text with all blocks as the data has them, and what is wrong with it.

    Adds the keys of the tables that the page shows to `shown`. Blocks in fenced code are examples.
    """
    out, problems, key, old, fenced = [], [], None, [], False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        opened = OPEN.fullmatch(line)
        if key is None:
            out.append(line)
            if opened and not fenced:
                key, old = f"{opened[1]}#{opened[2]}", []
            elif line == CLOSE and not fenced:
                problems.append(f"{name}: `{CLOSE}` closes no block")
        elif opened:
            return text, problems + [f"{name}: block {key} is not closed"]
        elif line == CLOSE:
            shown.add(key)
            if key not in tables:
                problems.append(f"{name}: block {key} names no table of bench/results")
                out += old
            else:
                out += render(*tables[key])
            out.append(line)
            key = None
        else:
            old.append(line)
    if key is not None:
        return text, problems + [f"{name}: block {key} is not closed"]
    return "\n".join(out), problems


def stale_blocks(old, new):
    def blocks(text):
        return re.findall(OPEN.pattern + r"\n(.*?)" + re.escape(CLOSE), text, re.DOTALL)
    return [f"{name}#{table}"
            for (name, table, was), (_, _, now) in zip(blocks(old), blocks(new)) if was != now]


def run(root, update):
    tables, problems = load(os.path.join(root, "bench", "results"))
    if problems:
        return problems  # Pages made of wrong data would be wrong, too.
    shown = set()
    for name in pages(root):
        path = os.path.join(root, name)
        with open(path, encoding="utf-8") as f:
            old = f.read()
        new, found = fill(name, old, tables, shown)
        problems += found
        if new == old:
            continue
        if update:
            with open(path, "w", encoding="utf-8") as f:
                f.write(new)
        else:
            problems += [f"{name}: block {key} is not what the data says; run pages.py --update"
                         for key in stale_blocks(old, new)]
    return problems + [f"bench/results: no page shows table {key}"
                       for key in sorted(set(tables) - shown)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    problems = run(args.root, args.update)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
