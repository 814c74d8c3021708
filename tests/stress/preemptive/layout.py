"""Where the operations of a program read and write in their rank's memory, from the executor's rules alone
(tests/corpus/executor): two buffers for each operation, one behind the other.
"""

import sys
from os.path import abspath, dirname, join

sys.path.insert(0, join(dirname(dirname(dirname(abspath(__file__)))), "corpus"))

from program import COLLECTIVES, ELEMENT, TRANSFERS, WIDE  # noqa: E402,F401

ALIGN = 256


def room_of(op):
    return (op.get("room", 0) + ALIGN - 1) // ALIGN * ALIGN


class Place:
    """Bytes [first, last) of a rank's memory."""

    def __init__(self, first, size):
        self.first, self.last = first, first + size

    def overlaps(self, other):
        return self.first < other.last and other.first < self.last

    def __bool__(self):
        return self.last > self.first


class Layout:
    def __init__(self, program, rank):
        self.program, self.rank = program, rank
        self.offset = {}
        self.ops = {}
        self.bytes = 0
        for op in program.operations(rank):
            room = room_of(op)
            if room:
                self.offset[op.label], self.ops[op.label] = self.bytes, op
                self.bytes += 2 * room

    def output_of(self, label):
        return self.offset[label] + room_of(self.ops[label])

    def index(self, op):
        return self.program.members(op["comm"]).index(self.rank)

    def places(self, op):
        """What it reads and what it writes: (Place, Place), empty where it has no such buffer at this rank."""
        first = self.offset[op.label]
        source, target = first, first + room_of(op)
        if "input" in op.values:
            source = self.output_of(op["input"])
        if op.kind == "copy":
            return Place(source, op["bytes"]), Place(target, op["bytes"])
        if "output" in op.values:
            target = self.output_of(op["output"])
        if "over_input" in op.values:
            target = self.offset[op["over_input"]]
        part = op["count"] * ELEMENT[op["type"]]
        if op.kind == "send":
            return Place(source, part), Place(target, 0)
        if op.kind == "recv":
            return Place(source, 0), Place(target, part)
        members = len(self.program.members(op["comm"]))
        mine = self.index(op)
        if "in_place" in op.values:
            source = target
            if op.kind == "all_gather":
                source += mine * part
            if op.kind == "reduce_scatter":
                target += mine * part
        root = op.get("root")
        reads, writes = part, part
        if op.kind in ("reduce_scatter", "all_to_all"):
            reads = members * part
        if op.kind in ("all_gather", "all_to_all"):
            writes = members * part
        if op.kind == "broadcast" and mine != root:
            reads = 0
        if op.kind == "reduce" and mine != root:
            writes = 0
        if op.kind == "gather":
            writes = members * part if mine == root else 0
        if op.kind == "scatter":
            reads = members * part if mine == root else 0
        return Place(source, reads), Place(target, writes)
