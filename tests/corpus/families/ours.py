"""What dl2 has not: streams, events, host waits, cudaFree, graphs, communicators that overlap or are split, sends and
receives, exhausted resources, threads, ends of ranks and communicators. 1,024 jobs.

A program without mutations ends because there is one order of all steps, of the whole job, that every rank follows:
whatever a step waits for is a step before it. Which stream it is on, and what else waits for it, is random.
"""

import job as jobs
from program import Program

SYMMETRIC = ("all_reduce", "all_reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all")
ANY = SYMMETRIC + ("broadcast", "reduce", "gather", "scatter")


class Steps:
    def __init__(self, ranks, random, streams=1, kinds=SYMMETRIC):
        self.p, self.random, self.streams, self.kinds = Program(ranks), random, streams, kinds
        self.number = 0
        self.events = 0
        self.everybody = range(ranks)
        # Which stream a rank uses for a communicator, where they are told apart.
        self.stream_of = {}

    def world_and(self, others):
        world = self.p.comm("world", self.everybody)
        return [world] + [self.p.comm(name, members) for name, members in others]

    def label(self, what):
        self.number += 1
        return f"n{self.number}.{what}"

    def some(self, chance):
        return [rank for rank in self.everybody if self.random.random() < chance]

    def stream(self, comm, rank):
        return self.stream_of.setdefault((comm, rank), self.random.randrange(self.streams))

    def warm(self, comms):
        for comm in comms:
            self.p.everywhere(f"warm{comm}", "all_reduce", comm, 0, 8)
        for rank in self.everybody:
            self.p.add(rank, "warm.sync", "device_sync")

    def collective(self, comm, thread=0, stream=None):
        kind = self.random.choice(self.kinds)
        label = self.label(kind)
        count = self.random.choice([16, 64, 256])
        root = self.random.randrange(len(self.p.members(comm)))
        type = self.random.choice(["f32", "f32", "i64"])
        for rank in self.p.members(comm):
            on = stream if stream is not None else self.stream(comm, rank)
            self.p.collective(rank, label, kind, comm, on, count, type=type, root=root, thread=thread)

    def send(self, comm, source, target, stream=None, count=64):
        """Ranks within the communicator."""
        label = self.label("transfer")
        members = self.p.members(comm)
        for rank, kind, peer in ((members[source], "send", target), (members[target], "recv", source)):
            self.p.transfer(rank, label, kind, comm, stream if stream is not None else self.stream(comm, rank), count,
                            peer)

    def grouped(self, comms):
        label = self.label("group")
        inside = [rank for rank in self.everybody if any(rank in self.p.members(c) for c in comms)]
        for rank in inside:
            self.p.add(rank, f"{label}.start", "group_start")
        for comm in comms:
            self.collective(comm)
        for rank in inside:
            self.p.add(rank, f"{label}.end", "group_end")

    def kernel(self, ranks, us=30):
        label = self.label("kernel")
        for rank in ranks:
            self.p.add(rank, label, "kernel", stream=self.random.randrange(self.streams), us=us)

    def link(self, ranks):
        """A stream waits for what another has so far."""
        if self.streams < 2:
            return
        label, event = self.label("event"), self.events
        self.events += 1
        for rank in ranks:
            a, b = self.random.sample(range(self.streams), 2)
            self.p.add(rank, f"{label}.record", "event_record", event=event, stream=a)
            self.p.add(rank, f"{label}.wait", "stream_wait", event=event, stream=b)

    def chain(self, before, after):
        """The stream of one communicator waits for that of another, on all ranks."""
        label, event = self.label("event"), self.events
        self.events += 1
        for rank in self.everybody:
            self.p.add(rank, f"{label}.record", "event_record", event=event, stream=self.stream(before, rank))
            self.p.add(rank, f"{label}.wait", "stream_wait", event=event, stream=self.stream(after, rank))

    def wait(self, ranks, kinds=("stream_sync", "device_sync", "event_sync", "read"), thread=0):
        label = self.label("wait")
        for rank in ranks:
            kind = self.random.choice(kinds)
            if kind == "device_sync" or kind == "read_legacy":
                self.p.add(rank, label, kind, thread)
            elif kind == "event_sync":
                event, self.events = self.events, self.events + 1
                self.p.add(rank, f"{label}.record", "event_record", thread, event=event,
                           stream=self.random.randrange(self.streams))
                self.p.add(rank, label, kind, thread, event=event)
            elif kind == "free":
                block = self.number
                self.p.add(rank, f"{label}.malloc", "malloc", thread, block=block, bytes=4096)
                self.p.add(rank, label, kind, thread, block=block)
            else:
                self.p.add(rank, label, kind, thread, stream=self.random.randrange(self.streams))

    def end(self):
        for rank in self.everybody:
            self.p.add(rank, "end.sync", "device_sync")


def pairs_and_halves(steps, random):
    """Communicators that overlap: what every rank is in differs."""
    ranks = steps.p.ranks
    others = []
    for i in range(random.randint(1, 3)):
        size = random.randint(2, ranks)
        others.append((f"g{i}", sorted(random.sample(range(ranks), size))))
    return steps.world_and(others)


def streams(random):
    s = Steps(random.randint(2, 5), random, streams=random.randint(1, 3), kinds=ANY)
    comms = s.world_and([(f"c{i}", range(s.p.ranks)) for i in range(random.randint(1, 2))])
    s.p.init_all()
    if random.random() < 0.7:
        s.warm(comms)
    for _ in range(random.randint(5, 12)):
        s.collective(random.choice(comms))
        if random.random() < 0.3:
            s.kernel(s.some(0.6))
        if random.random() < 0.2:
            s.link(s.everybody)
    s.end()
    return s.p, dict(chance=0.75)


def events(random):
    s = Steps(random.randint(2, 4), random, streams=random.randint(2, 3))
    comms = s.world_and([("side", range(s.p.ranks))])
    s.p.init_all()
    s.warm(comms)
    for _ in range(random.randint(4, 9)):
        s.collective(random.choice(comms))
        s.link(s.some(0.7))
    s.end()
    return s.p, dict(chance=0.75, eligible=lambda op: op.communicates or op.kind in ("event_record", "stream_wait"),
                     names=["drop", "duplicate", "swap", "group", "across"], second=0.3)


def syncs(random):
    s = Steps(random.randint(2, 5), random, streams=random.randint(1, 2))
    comms = s.world_and([("side", range(s.p.ranks))])
    s.p.init_all()
    if random.random() < 0.5:
        s.warm(comms)
    for _ in range(random.randint(4, 9)):
        s.collective(random.choice(comms))
        if random.random() < 0.6:
            s.wait(s.some(0.6))
    s.end()
    return s.p, dict(chance=0.75, names=["across", "across", "swap", "drop", "delay"])


def frees(random):
    s = Steps(random.randint(2, 4), random, streams=2)
    comms = s.world_and([("side", range(s.p.ranks))])
    s.p.init_all()
    s.warm(comms)
    for _ in range(random.randint(4, 8)):
        s.collective(random.choice(comms))
        if random.random() < 0.6:
            s.wait(s.some(0.7), kinds=("free", "free", "read_legacy"))
    s.end()
    return s.p, dict(chance=0.75, names=["across", "across", "swap", "drop", "delay"])


def graphs(random):
    s = Steps(random.randint(2, 4), random, streams=2)
    comms = s.world_and([("side", range(s.p.ranks))])
    s.p.init_all()
    s.warm(comms)
    for graph in range(random.randint(1, 2)):
        label = s.label("capture")
        for rank in s.everybody:
            s.p.add(rank, f"{label}.begin", "capture_begin", stream=0)
        for _ in range(random.randint(2, 4)):
            s.kinds = ("all_reduce", "all_gather", "reduce_scatter")  # connected by the warm-up
            s.collective(random.choice(comms), stream=0)
        for rank in s.everybody:
            s.p.add(rank, f"{label}.end", "capture_end", graph=graph, stream=0)
        for _ in range(random.randint(1, 4)):
            launch = s.label("launch")
            for rank in s.everybody:
                s.p.add(rank, launch, "graph_launch", graph=graph, stream=0)
            if random.random() < 0.5:
                s.collective(random.choice(comms))
            if random.random() < 0.3:
                s.wait(s.some(0.5), kinds=("stream_sync", "device_sync"))
    s.end()
    return s.p, dict(chance=0.75, eligible=lambda op: op.communicates or op.kind == "graph_launch",
                     names=["drop", "duplicate", "swap", "group", "size", "across", "delay"])


def subcomms(random):
    s = Steps(random.randint(3, 6), random, streams=random.randint(1, 2), kinds=ANY)
    comms = pairs_and_halves(s, random)
    s.p.init_all()
    if random.random() < 0.6:
        s.warm(comms)
    for _ in range(random.randint(6, 12)):
        if random.random() < 0.15:
            s.kinds = SYMMETRIC
            s.grouped(random.sample(comms, min(2, len(comms))))
            s.kinds = ANY
        else:
            s.collective(random.choice(comms))
        if random.random() < 0.2:
            s.wait(s.some(0.5))
    s.end()
    return s.p, dict(chance=0.8)


def splits(random):
    ranks = random.choice([2, 4, 4, 6])
    s = Steps(ranks, random, streams=random.randint(1, 2))
    world = s.p.comm("world", s.everybody)
    s.p.init_all()
    s.warm([world])
    comms = [world]
    for turn in range(random.randint(1, 2)):
        colors = random.choice([1, 2])
        members = [[r for r in s.everybody if r % colors == c] for c in range(colors)]
        made = [s.p.comm(f"s{turn}c{c}", each, parent=world) for c, each in enumerate(members)]
        label = s.label("split")
        for rank in s.everybody:
            s.p.add(rank, label, "split", parent=world, comm=made[rank % colors], color=rank % colors, key=rank)
        comms += made
        for _ in range(random.randint(2, 4)):
            s.collective(random.choice(comms))
        if random.random() < 0.5:
            s.wait(s.some(0.5))
    s.end()
    return s.p, dict(chance=0.8, eligible=lambda op: op.communicates or op.kind == "split",
                     names=["drop", "swap", "swap", "duplicate", "group", "across", "color"])


def pipeline(s, random, comm, microbatches, count=64):
    """Stages pass activations down and gradients up: all forward, then all backward, or one of each in turn."""
    stages = s.p.ranks
    order = []
    if random.random() < 0.5:
        order += [(m, True) for m in range(microbatches)] + [(m, False) for m in range(microbatches)]
    else:
        for m in range(microbatches):
            order += [(m, True), (m, False)]
    for m, down in order:
        hops = [(i, i + 1) for i in range(stages - 1)]
        if not down:
            hops = [(b, a) for a, b in reversed(hops)]
        for a, b in hops:
            s.send(comm, a, b, count=count)


def p2p(random):
    s = Steps(random.randint(2, 4), random, streams=random.randint(1, 2))
    comms = s.world_and([("pipe", range(s.p.ranks))])
    s.p.init_all()
    if random.random() < 0.5:
        s.warm(comms)
    pipeline(s, random, comms[1], random.randint(1, 3))
    if random.random() < 0.5:  # an exchange of neighbours in one group a rank
        label = s.label("exchange")
        n = s.p.ranks
        for rank in s.everybody:
            s.p.add(rank, f"{label}.start", "group_start")
        for a in range(n):
            s.send(comms[1], a, (a + 1) % n, stream=0)
        for rank in s.everybody:
            s.p.add(rank, f"{label}.end", "group_end")
    for _ in range(random.randint(0, 2)):
        s.collective(random.choice(comms))
    pipeline(s, random, comms[1], 1)
    s.end()
    return s.p, dict(chance=0.8, names=["drop", "duplicate", "swap", "peer", "size", "across", "group", "delay"])


def resources(random):
    what = random.choice(["queues", "processors", "buffers"])
    s = Steps(random.randint(2, 3), random, streams=3)
    comms = s.world_and([("a", range(s.p.ranks)), ("b", range(s.p.ranks))])
    for comm in comms:
        for rank in s.everybody:
            s.stream_of[(comm, rank)] = comm
    s.p.init_all()
    s.kinds = ("all_reduce", "all_gather")
    s.warm(comms)
    if what == "buffers":
        s.p.environment["GORDIAN_EMU_P2P_BUFFER"] = "64"
        pipeline(s, random, comms[1], 2, count=128)
        s.end()
        return s.p, dict(chance=0.8, names=["swap", "swap", "across", "drop"])
    if what == "queues":
        s.p.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    else:
        s.p.environment["GORDIAN_EMU_SMS"] = "1"
    last = None
    for _ in range(random.randint(4, 8)):
        comm = random.choice(comms)
        # Only one kernel fits: were the streams not ordered, each rank could run another one first.
        if what == "processors" and last not in (None, comm):
            s.chain(last, comm)
        s.collective(comm)
        last = comm
    s.end()
    return s.p, dict(chance=0.8, names=["swap", "swap", "across"])


def threads(random):
    s = Steps(random.randint(2, 4), random, streams=1)
    comms = [s.p.comm(f"t{i}", s.everybody) for i in range(2)]
    s.p.init_all()
    shared = random.random() < 0.3  # a stream for both: then only what the flags order is ordered
    for comm in comms:
        s.p.everywhere(f"warm{comm}", "all_reduce", comm, comm, 8)
    for rank in s.everybody:
        s.p.add(rank, "warm.sync", "device_sync")
        s.p.add(rank, "warm.post", "post", flag=0)
        s.p.add(rank, "warm.wait", "wait", 1, flag=0)
    flag, last = 1, 0
    for _ in range(random.randint(4, 9)):
        thread = random.randrange(2)
        if shared and thread != last or random.random() < 0.25:
            label = s.label("turn")
            for rank in s.everybody:
                s.p.add(rank, f"{label}.post", "post", last, flag=flag)
                s.p.add(rank, f"{label}.wait", "wait", 1 - last, flag=flag)
            flag += 1
            thread = 1 - last
        last = thread
        s.collective(comms[thread], thread=thread, stream=0 if shared else thread)
        if random.random() < 0.3:
            label = s.label("wait")
            for rank in s.some(0.6):
                s.p.add(rank, label, "stream_sync", thread, stream=0 if shared else thread)
    for rank in s.everybody:
        for thread in range(2):
            s.p.add(rank, f"end{thread}.sync", "device_sync", thread)
    return s.p, dict(chance=0.8, eligible=lambda op: op.communicates or op.kind in ("post", "wait"),
                     names=["drop", "swap", "across", "group", "size", "delay", "duplicate"])


def ends(random):
    s = Steps(random.randint(2, 4), random, streams=1)
    comms = pairs_and_halves(s, random)
    s.p.init_all()
    s.warm(comms)
    for _ in range(random.randint(3, 7)):
        s.collective(random.choice(comms))
        if random.random() < 0.3:
            s.wait(s.some(0.5))
    s.end()
    for comm in reversed(comms):
        for rank in s.p.members(comm):
            s.p.add(rank, f"destroy{comm}", "destroy", comm=comm)
    return s.p, dict(chance=0.85, eligible=lambda op: op.communicates or op.kind == "destroy",
                     names=["exit", "block", "abort", "drop", "swap", "duplicate"], second=0)


class Ours:
    def __init__(self, name, make, count):
        self.name, self.make, self.COUNT = name, make, count

    def job(self, index, random):
        program, how = self.make(random)
        made = jobs.mutated(self.name, index, program, random, **how)
        made.resources = self.make is resources
        return made


FAMILIES = {f"ours_{make.__name__}": Ours(f"ours_{make.__name__}", make, count) for make, count in
            ((streams, 128), (events, 96), (syncs, 96), (frees, 64), (graphs, 128), (subcomms, 96), (splits, 96),
             (p2p, 128), (resources, 64), (threads, 64), (ends, 64))}
