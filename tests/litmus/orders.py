"""The memory order of each marked access in the C++ sources.

`// litmus: NAME`, on a line of its own, marks the statement behind it. Its order is read from that statement: a
memory_order_* or __ATOMIC_*; without one, seq_cst of an atomic's own functions, that of a helper whose definition
is marked itself, or plain memory.
"""

import os
import re

from explorer import PLAIN, SEQ_CST

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Folders whose protocols are in protocols.py: no marker and no fence of theirs goes unread.
FOLDERS = ["interpose/state", "interpose/progress", "interpose/entry", "interpose/sources",
           "interpose/describe", "collector/rings", "runtime/core",
           "runtime/cpu", "emulator/nccl", "emulator/engine"]

# Called in marked statements: what decides their order is the marked statement inside.
HELPERS = {"LoadAcquire": "collector.load_acquire", "Load": "collector.load", "LoadWords": "collector.words",
           "Put": "shim.put", "Add": "shim.add", "Acquire": "lanes.acquire", "Release": "lanes.release",
           "LoadRelaxed": "lanes.load_relaxed", "StoreRelaxed": "lanes.store_relaxed", "Insert": "table.insert"}

MARKER = re.compile(r"^\s*// litmus: ([a-z_]+\.[a-z_]+)$")
FENCE = re.compile(r"\batomic_thread_fence\(|\b__atomic_thread_fence\(|\b__sync_synchronize\(")
ORDER = re.compile(r"memory_order(?:::|_)([a-z_]+)|__ATOMIC_([A-Z_]+)")
ATOMIC = re.compile(r"[.>](load|store|exchange|fetch_\w+|compare_exchange_\w+)\(")
CALL = re.compile(r"(?<![.>:\w])(" + "|".join(HELPERS) + r")\(|[.>](Insert)\(")
CLASS = re.compile(r"^(class|struct) .*\{$")


class Wrong(Exception):
    """What is wrong with the markers in the sources."""


def sources():
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith((".h", ".cc")):
                    path = os.path.join(at, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), file.read().split("\n")


def statement(lines, at):
    """From a line to the ';' or the ") {" that ends a statement, comments left out."""
    depth, text = 0, ""
    for line in lines[at:]:
        for letter in line.split("//")[0]:
            if depth <= 0 and (letter == ";" or letter == "{" and text.rstrip().endswith(")")):
                return text
            text += letter
            depth += (letter in "([") - (letter in ")]")
        text += " "
    return text


def order_in(text):
    """The order of a statement; the name of the helper that decides it, in brackets; "" if there are several."""
    orders = {(a or b).lower() for a, b in ORDER.findall(text)}
    if orders:
        return orders.pop() if len(orders) == 1 else ""
    if ATOMIC.search(text):
        return SEQ_CST
    call = CALL.search(text)
    return f"({HELPERS[call.group(1) or call.group(2)]})" if call else PLAIN


def lines_by_function(files=None):
    """{(path, function): {name: line}} of the markers: which of one function stands before which."""
    out = {}
    for path, lines in files if files is not None else sources():
        function, in_class = 0, False
        for at, line in enumerate(lines):
            marker = MARKER.match(line)
            if marker is not None:
                out.setdefault((path, function), {})[marker.group(1)] = at + 1
            in_class = in_class and not line.startswith("}") or CLASS.match(line) is not None
            if line.startswith("}") or in_class and line == "  }":
                function += 1
    return out


def read(files=None):
    """{name: order} of all markers. `files`: [(path, lines)] in place of the sources."""
    found, places, wrong = {}, {}, []
    for path, lines in files if files is not None else sources():
        for at, line in enumerate(lines):
            marker = MARKER.match(line)
            if marker is None:
                if "litmus:" in line:
                    wrong.append(f"{path}:{at + 1}: not a marker: {line.strip()}")
                if FENCE.search(line.split("//")[0]) and not (at > 0 and MARKER.match(lines[at - 1])):
                    wrong.append(f"{path}:{at + 1}: a fence without a marker")
                continue
            name = marker.group(1)
            if name in found:
                wrong.append(f"{path}:{at + 1}: {name} is at {places[name]} already")
            found[name] = order_in(statement(lines, at + 1))
            places[name] = f"{path}:{at + 1}"
            if found[name] == "":
                wrong.append(f"{path}:{at + 1}: {name} marks accesses of several orders")
    for name, order in found.items():
        if order.startswith("("):
            helper = order[1:-1]
            found[name] = found.get(helper, "")
            if found[name] == "" or found[name].startswith("("):
                wrong.append(f"{places[name]}: {name} goes by {helper}, which has no order of its own")
    if wrong:
        raise Wrong("\n".join(wrong))
    return found
