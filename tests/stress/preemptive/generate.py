"""Random jobs from a seed. Each rank calls the same operations in an order of its own, which keeps that of each
communicator, and puts work, events and waits of its own in between. No two streams of a rank share memory, so
results do not depend on who is faster.
"""

import random

from layout import ELEMENT, Layout, Place, room_of
from program import COLLECTIVES, REDUCING, ROOTED, TRANSFERS, WIDE, Program

# What a job is about; chances for each operation.
TEMPERS = {
    "order": {},
    "events": {"event": 0.35},
    "data": {"chain": 0.4, "over": 0.3, "in_place": 0.3},
    "work": {"kernel": 0.12, "host": 0.04, "event": 0.15},
    "training": {"ready": 0.8, "in_place": 0.5},
    "waits": {"sync": 0.12, "event": 0.1, "late": 0.05},
    "groups": {"group": 0.4, "chain": 0.1, "in_place": 0.2},
    "graphs": {"graph": 0.1, "event": 0.1},
    "late": {"sleep": 0.15, "event": 0.1},
    "all": {"event": 0.12, "chain": 0.15, "over": 0.15, "in_place": 0.2, "kernel": 0.04, "host": 0.02, "sync": 0.04,
            "group": 0.15, "ready": 0.1, "sleep": 0.02},
}


class Job:
    def __init__(self, seed, temper=None, together=False):
        self.together = together
        self.random = random.Random(seed)
        r = self.random
        self.temper = temper or r.choice(sorted(TEMPERS))
        self.chance = TEMPERS[self.temper]
        self.ranks = r.choices([2, 3, 4, 5, 6], [4, 4, 4, 1, 1])[0]
        self.program = Program(self.ranks)
        self.streams = r.randint(1, 3)
        self.next_event = [0] * self.ranks
        self.make_comms()
        self.make_instances()
        for rank in range(self.ranks):
            self.write_rank(rank)
        self.end_late()

    def flip(self, what):
        return self.random.random() < self.chance.get(what, 0)

    # --- Communicators: made by all in the same order, at the beginning ---

    def make_comms(self):
        r, p = self.random, self.program
        world = p.comm("world", range(self.ranks))
        self.comms = [world]
        for i in range(r.randint(1, 4)):
            members = r.sample(range(self.ranks), r.randint(2, self.ranks))
            if r.random() < 0.3:
                members.sort()
                self.comms.append(p.comm(f"s{i}", members, parent=world))
            else:
                self.comms.append(p.comm(f"c{i}", members))
        self.graph_comm = p.comm("graphs", range(self.ranks)) if "graph" in self.chance else None
        for rank in range(self.ranks):
            for comm, (name, members) in enumerate(p.comms):
                if p.made_by[comm] is None:
                    if rank in members:
                        p.add(rank, f"init:{name}", "init", comm=comm)
                elif rank in members:
                    p.add(rank, f"split:{name}", "split", parent=world, comm=comm, color=1, key=members.index(rank))
                else:
                    p.add(rank, f"split:{name}", "split", parent=world, color="none", key=0)
        if self.graph_comm is not None:  # the first use of NCCL's communicator is a meeting of the hosts
            for rank in range(self.ranks):
                p.collective(rank, "first", "all_reduce", self.graph_comm, 0, 4, type="i32")
                p.threads[rank][0][-1].values["room"] = 16
                self.capture(rank, p.threads[rank][0].pop(), 0, 0)
                p.add(rank, "first:sync", "device_sync")

    # --- What is called: parts of each instance by rank ---

    def make_instances(self):
        r = self.random
        self.instances = []
        for i in range(r.randint(6, 22)):
            comm = r.choice(self.comms)
            if self.flip("group"):
                self.instances.append(self.grouped(f"g{i}", comm))
            elif r.random() < 0.2 and not self.together:
                self.instances.append(self.transfer(f"t{i}", comm))
            elif self.graph_comm is not None and self.flip("graph"):
                self.instances.append(("graph", self.collective(f"a{i}", self.graph_comm)))
            else:
                self.instances.append(("one", self.collective(f"o{i}", comm)))

    def count(self):
        r = self.random
        return r.choices([r.randint(1, 40), r.randint(100, 3000), r.randint(9000, 40000)], [6, 3, 0.6])[0]

    def collective(self, label, comm):
        r = self.random
        weights = [6, 2, 1, 2, 2, 1, 1, 1]
        if self.together:
            weights = [weight * (kind in ("all_reduce", "all_gather", "reduce_scatter"))
                       for kind, weight in zip(COLLECTIVES, weights)]
        kind = r.choices(COLLECTIVES, weights)[0]
        values = dict(label=label, kind=kind, comm=comm, count=self.count(), type=r.choice(sorted(ELEMENT)))
        if kind in REDUCING:
            values["op"] = r.choice(["sum", "sum", "max", "min"])
        if kind in ROOTED:
            values["root"] = r.randrange(len(self.program.members(comm)))
        return {rank: [values] for rank in self.program.members(comm)}

    def pair(self, label, comm, sender, receiver):
        values = dict(label=label, comm=comm, count=self.count(), type=self.random.choice(sorted(ELEMENT)))
        members = self.program.members(comm)
        return (sender, dict(values, kind="send", peer=members.index(receiver)),
                receiver, dict(values, kind="recv", peer=members.index(sender)))

    def transfer(self, label, comm):
        sender, receiver = self.random.sample(self.program.members(comm), 2)
        a, send, b, recv = self.pair(label, comm, sender, receiver)
        return ("one", {a: [send], b: [recv]})

    def grouped(self, label, comm):
        """A shift around the communicator, or several collectives at once."""
        r, members = self.random, self.program.members(comm)
        parts = {rank: [] for rank in members}
        if r.random() < 0.5 and not self.together:
            shift = r.randrange(1, len(members))
            for i, rank in enumerate(members):
                a, send, b, recv = self.pair(f"{label}p{i}", comm, rank, members[(i + shift) % len(members)])
                parts[a].append(send)
                parts[b].append(recv)
        else:
            for i in range(r.randint(2, 3)):
                for rank, ops in self.collective(f"{label}c{i}", comm).items():
                    parts[rank] += ops
        return ("group", parts)

    # --- A rank's program ---

    def order(self, rank):
        """The rank's instances, in an order that keeps those of each communicator."""
        r = self.random
        mine = [i for i, (_, parts) in enumerate(self.instances) if rank in parts]
        style = r.choice(["same", "swaps", "shuffle", "shuffle"])
        comm = {i: next(iter(self.instances[i][1].values()))[0]["comm"] for i in mine}
        if style == "swaps":
            for _ in range(r.randint(1, 3)):
                if len(mine) > 1:
                    at = r.randrange(len(mine) - 1)
                    if comm[mine[at]] != comm[mine[at + 1]]:
                        mine[at], mine[at + 1] = mine[at + 1], mine[at]
        elif style == "shuffle":
            queues = {}
            for i in mine:
                queues.setdefault(comm[i], []).append(i)
            mine = []
            while queues:
                chosen = r.choice(sorted(queues))
                mine.append(queues[chosen].pop(0))
                if not queues[chosen]:
                    del queues[chosen]
        return mine

    def write_rank(self, rank):
        r, p = self.random, self.program
        home = {comm: r.randrange(self.streams) for comm in range(len(p.comms))}
        compute = self.streams  # a stream on which no operation is ever called
        self.touched = {}       # stream -> operations that left something, oldest first
        for index in self.order(rank):
            kind, parts = self.instances[index]
            ops = parts[rank]
            stream = home[ops[0]["comm"]] if r.random() < 0.9 else r.randrange(self.streams)
            self.before(rank, stream, compute, ops[0]["label"])
            if kind == "graph":
                self.operation(rank, ops[0], stream, plain=True)
                self.capture(rank, p.threads[rank][0].pop(), stream, 1 + index)
                continue
            if kind == "group":
                p.add(rank, ops[0]["label"] + ":group", "group_start")
            several = kind == "group" and r.random() < 0.25
            for values in ops:
                where = r.randrange(self.streams) if several else stream
                made = self.operation(rank, values, where, plain=len(ops) > 1)
                self.touched.setdefault(where, []).append(made)
            if kind == "group":
                p.add(rank, ops[0]["label"] + ":end", "group_end")
        p.add(rank, "end", "device_sync")

    def capture(self, rank, op, stream, graph):
        p = self.program
        op.values["stream"] = stream
        p.add(rank, op.label + ":begin", "capture_begin", graph=graph, stream=stream)
        p.threads[rank][0].append(op)
        p.add(rank, op.label + ":captured", "capture_end", graph=graph, stream=stream)
        p.add(rank, op.label + ":launch", "graph_launch", graph=graph, stream=stream)

    def before(self, rank, stream, compute, label):
        """What a rank does of its own in front of an operation."""
        r, p = self.random, self.program
        if self.flip("sleep"):
            p.add(rank, f"{label}:sleep", "sleep", ms=r.choice([5, 20, 20, 50, 1500, 3000]))
        if self.flip("kernel"):
            p.add(rank, f"{label}:kernel", "kernel", stream=r.choice([stream, compute, r.randrange(self.streams)]),
                  us=r.choice([50, 2000, 20000]))
        if self.flip("host"):
            p.add(rank, f"{label}:host", "host", stream=r.choice([stream, compute]), us=r.choice([50, 5000]))
        if self.flip("ready"):  # as training does: what is communicated is ready when its kernel is
            event = self.event(rank)
            p.add(rank, f"{label}:compute", "kernel", stream=compute, us=r.choice([20, 300, 3000]))
            p.add(rank, f"{label}:ready", "event_record", event=event, stream=compute)
            p.add(rank, f"{label}:wait", "stream_wait", event=event, stream=stream)
        if self.flip("event"):
            event, other = self.event(rank), r.randrange(self.streams + 1)
            p.add(rank, f"{label}:record", "event_record", event=event, stream=other)
            if r.random() < 0.8:
                p.add(rank, f"{label}:awaits", "stream_wait", event=event, stream=stream)
            elif r.random() < 0.3:
                p.add(rank, f"{label}:blocks", "event_sync", event=event)
        if self.flip("sync"):
            kind = r.choice(["stream_sync", "stream_sync", "device_sync", "read", "read_legacy"])
            values = {} if kind in ("device_sync", "read_legacy") else {"stream": r.randrange(self.streams)}
            p.add(rank, f"{label}:{kind}", kind, **values)

    def event(self, rank):
        """A new one, mostly; else one that is recorded again."""
        if self.next_event[rank] and self.random.random() < 0.2:
            return self.random.randrange(self.next_event[rank])
        self.next_event[rank] += 1
        return self.next_event[rank] - 1

    # --- Memory ---

    def operation(self, rank, values, stream, plain=False):
        r, p = self.random, self.program
        values = dict(values, stream=stream)
        label, kind = values.pop("label"), values.pop("kind")
        size = values["count"] * ELEMENT[values["type"]]
        values["room"] = size * (len(p.members(values["comm"])) if kind in WIDE else 1)
        op = p.add(rank, label, kind, **values)
        depth = 0
        if not plain:
            if kind in COLLECTIVES and kind not in ("all_to_all", "gather", "scatter") and self.flip("in_place"):
                op.values["in_place"] = 1
            depth = self.share(rank, op, stream)
        return op, depth

    def share(self, rank, op, stream):
        """Uses memory of operations in front of it on the same stream. Returns how many reductions led to its data."""
        r, layout = self.random, Layout(self.program, rank)
        reads, writes = (place.last - place.first for place in layout.places(op))
        if "in_place" in op.values:
            reads = writes = op["room"]
        earlier = [(other, depth) for other, depth in self.touched.get(stream, ())
                   if other["type"] == op["type"] and depth < 4 and "output" not in other.values
                   and "over_input" not in other.values]
        depth = 0
        if reads and earlier and self.flip("chain"):
            other, depth = r.choice(earlier)
            if room_of(other) >= reads:
                if r.random() < 0.2 and "in_place" not in op.values:
                    copied = self.program.add(rank, f"{op.label}:copy", "copy", stream=stream, input=other.label,
                                              bytes=reads, type=op["type"], room=reads)
                    thread = self.program.threads[rank][0]
                    thread.insert(len(thread) - 2, thread.pop())
                    other = copied
                op.values["output" if "in_place" in op.values else "input"] = other.label
                return depth + 1
        if writes and earlier and self.flip("over"):
            other, depth = r.choice(earlier)
            if room_of(other) >= writes:
                if "in_place" in op.values:
                    op.values["output"] = other.label
                    return depth + 1
                op.values[r.choice(["output", "over_input"])] = other.label
        return depth + 1

    # --- Late ---

    def end_late(self):
        """One rank comes seconds later than all others: nothing is said of those who wait for it."""
        if not self.flip("late") and not (self.temper == "late" and self.random.random() < 0.4):
            return
        rank = self.random.randrange(self.ranks)
        thread = self.program.threads[rank][0]
        first = next((i for i, op in enumerate(thread) if op.kind in COLLECTIVES + TRANSFERS + ("group_start",)), None)
        if first is not None:
            op = self.program.add(rank, "late", "sleep", ms=self.random.choice([2500, 4000]))
            thread.insert(first, thread.pop())
            assert thread[first] is op


def make(seed, temper=None, together=False):
    """`together`: with those collectives alone that end at all ranks or at none."""
    return Job(seed, temper, together)
