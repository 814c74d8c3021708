"""What each rank's memory holds when a program has ended: serially, operation by operation, in the order of their data."""

from array import array

from layout import COLLECTIVES, ELEMENT, TRANSFERS, Layout, room_of

CODES = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "u8": "B"}
BITS = {"i32": 32, "i64": 64, "u8": 8}


def fill(op, rank, room):
    """As tests/corpus/executor/rank.cc fills an operation's buffers."""
    code = CODES[op["type"]]
    hashed = 0xCBF29CE484222325
    for byte in op.get("data", op.label).encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    start = hashed % 1000 + 7 * rank
    period = [(start + 3 * i) % 13 + 1 for i in range(13)]
    count = room // ELEMENT[op["type"]]
    return array(code, (period * (count // 13 + 1))[:count]).tobytes()


def combine(op, inputs):
    kind = op["type"]
    columns = [array(CODES[kind], each) for each in inputs]
    if op["op"] == "max":
        out = list(map(max, *columns))
    elif op["op"] == "min":
        out = list(map(min, *columns))
    else:
        out = columns[0].tolist()
        for column in columns[1:]:
            out = [a + b for a, b in zip(out, column)]
        if kind in BITS:
            top = 1 << BITS[kind]
            out = [value % top for value in out]
            if kind != "u8":
                out = [value - top if value >= top // 2 else value for value in out]
    return array(CODES[kind], out).tobytes()


class Reference:
    def __init__(self, program):
        self.program = program
        self.layouts = [Layout(program, rank) for rank in range(program.ranks)]
        # By rank: what writes memory, in the order of calls. Sharing is within a stream, so that is the order of turns.
        self.writers = [[op for op in program.operations(rank)
                         if op.kind in COLLECTIVES or op.kind in TRANSFERS or op.kind == "copy"]
                        for rank in range(program.ranks)]
        self.known = {}
        self.start = [self.initial(rank) for rank in range(program.ranks)]

    def initial(self, rank):
        memory = bytearray(self.layouts[rank].bytes)
        for label, op in self.layouts[rank].ops.items():
            at, room = self.layouts[rank].offset[label], room_of(op)
            memory[at:at + room] = fill(op, rank, room)
            if "in_place" in op.values:
                memory[at + room:at + 2 * room] = fill(op, rank, room)
        return memory

    def read(self, rank, place, before):
        """The bytes of a place at the turn of the rank's operation number `before`."""
        out = bytearray(self.start[rank][place.first:place.last])
        for number in range(before):
            op = self.writers[rank][number]
            target = self.layouts[rank].places(op)[1]
            if target.overlaps(place):
                data = self.written(rank, number)
                first, last = max(target.first, place.first), min(target.last, place.last)
                out[first - place.first:last - place.first] = data[first - target.first:last - target.first]
        return bytes(out)

    def written(self, rank, number):
        if (rank, number) not in self.known:
            self.known[rank, number] = self.make(rank, number)
        return self.known[rank, number]

    def input_of(self, rank, label, kinds):
        number = next(i for i, op in enumerate(self.writers[rank]) if op.label == label and op.kind in kinds)
        return self.read(rank, self.layouts[rank].places(self.writers[rank][number])[0], number)

    def make(self, rank, number):
        op = self.writers[rank][number]
        if op.kind == "copy":
            return self.read(rank, self.layouts[rank].places(op)[0], number)
        members = self.program.members(op["comm"])
        if op.kind == "recv":
            return self.input_of(members[op["peer"]], op.label, ("send",))
        part = op["count"] * ELEMENT[op["type"]]
        mine = members.index(rank)

        def of(member):
            return self.input_of(member, op.label, (op.kind,))

        def share(data, index):
            return data[index * part:(index + 1) * part]

        if op.kind in ("all_reduce", "reduce"):
            return combine(op, [of(member) for member in members])
        if op.kind == "reduce_scatter":
            return combine(op, [share(of(member), mine) for member in members])
        if op.kind in ("all_gather", "gather"):
            return b"".join(of(member) for member in members)
        if op.kind == "all_to_all":
            return b"".join(share(of(member), mine) for member in members)
        if op.kind == "broadcast":
            return of(members[op["root"]])
        return share(of(members[op["root"]]), mine)  # scatter

    def final(self, rank):
        memory = bytearray(self.start[rank])
        for number, op in enumerate(self.writers[rank]):
            target = self.layouts[rank].places(op)[1]
            if target:
                memory[target.first:target.last] = self.written(rank, number)
        return bytes(memory)

    def difference(self, rank, memory):
        """None, or what is wrong with the bytes that the rank left."""
        expected = self.final(rank)
        if expected == memory:
            return None
        if len(expected) != len(memory):
            return f"rank {rank} left {len(memory)} bytes, not {len(expected)}"
        at = next(i for i in range(len(expected)) if expected[i] != memory[i])
        layout = self.layouts[rank]
        label = max((label for label, offset in layout.offset.items() if offset <= at), key=lambda l: layout.offset[l])
        inside = at - layout.offset[label]
        room = room_of(layout.ops[label])
        which = "output" if inside >= room else "input"
        return (f"rank {rank}: byte {inside % room} of the {which} of {label} is {memory[at]}, not {expected[at]} "
                f"({sum(a != b for a, b in zip(expected, memory))} bytes differ)")
