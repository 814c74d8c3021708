#!/usr/bin/env python3
"""Every symbol of a real library is in the emulated one: it works, or a list says that it does not.

usage: emulator_symbols.py NAMES_FILE EMULATED_LIBRARY NOT_EMULATED_DEF|- [INSTALLED_LIBRARY...]
"""
import os
import re
import subprocess
import sys


def exported(path):
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True,
                          text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) > 2 and row[-2] != "A"}


def main():
    names_file, emulated_path, list_path, *installed = sys.argv[1:]
    with open(names_file, encoding="utf-8") as file:
        lines = file.read().splitlines()
    about = lines[0].lstrip("# ")
    names = set(lines[1:])
    emulated = exported(emulated_path)
    not_emulated = []
    if list_path != "-":
        with open(list_path, encoding="utf-8") as file:
            not_emulated = re.findall(r"^GORDIAN_EMU_NOT_EMULATED\((\w+)\)", file.read(), re.M)
    failures = [f"{name}: in {about}, not in {emulated_path}" for name in sorted(names - emulated)]
    failures += [f"{name}: on the list of what is not emulated, but not in {about}"
                 for name in sorted(set(not_emulated) - names)]
    failures += [f"{name}: twice on the list" for name in sorted(set(not_emulated))
                 if not_emulated.count(name) > 1]
    absent = 0
    for path in installed:
        if not os.path.exists(path):
            print(f"not installed here, so not compared: {path}")
            absent += 1
            continue
        missing = exported(path) - emulated
        print(f"compared with {path}")
        # Another version may have others; that is no fault.
        new = sorted(missing - names)
        if new:
            print(f"  it has {len(new)} symbols that {about} has not: {' '.join(new[:20])}")
        failures += [f"{name}: in {path}, not in {emulated_path}" for name in sorted(missing & names)]
    print(f"{about}: {len(names)} symbols, {len(names) - len(not_emulated)} emulated, "
          f"{len(not_emulated)} answer that they are not")
    print("\n".join(failures))
    if absent and not failures:
        print(f"OK (skipped={absent})")
    return 1 if failures else 0


sys.exit(main())
