"""dl2's Table 2: collectives made of collectives within nodes and of sends and receives between them.

Nodes of two ranks (of one, in jobs of two ranks). 64 jobs each, of 2, 4, 6 and 8 ranks.
"""

import job as jobs
from program import Program

SIZES = [2, 4, 6, 8]


class Nodes:
    def __init__(self, ranks, random):
        self.random = random
        self.p = Program(ranks)
        self.width = 1 if ranks == 2 else 2
        self.nodes = ranks // self.width
        self.world = self.p.comm("world", range(ranks))
        self.inner = [self.p.comm(f"node{n}", range(n * self.width, (n + 1) * self.width)) for n in range(self.nodes)]
        self.outer = [self.p.comm(f"rail{l}", range(l, ranks, self.width)) for l in range(self.width)]
        self.p.init_all()
        # Whether transfers between nodes have a stream of their own, joined by events.
        self.outer_stream = random.choice([0, 1])
        self.grouped = random.random() < 0.6
        self.events = 0

    def within(self, label, kind, count, **more):
        for comm in self.inner:
            self.p.everywhere(label, kind, comm, 0, count, **more)

    def over(self, stream, after):
        """What follows on `stream` follows what is on `after`."""
        if stream == after:
            return
        event, self.events = self.events, self.events + 1
        for rank in range(self.p.ranks):
            self.p.add(rank, f"e{event}.record", "event_record", event=event, stream=after)
            self.p.add(rank, f"e{event}.wait", "stream_wait", event=event, stream=stream)

    def exchange(self, label, pairs, count):
        """`pairs` of (sender, receiver) nodes, of every rail; in one group a rank, or sends and receives in an order
        that ends without buffers too: by the numbers of the transfers."""
        for rank in range(self.p.ranks):
            node, rail = divmod(rank, self.width)
            mine = [(a, b) for a, b in pairs if node in (a, b)]
            if not mine:
                continue
            if self.grouped:
                self.p.add(rank, f"{label}.start", "group_start")
            for a, b in mine:
                kind, peer = ("send", b) if a == node else ("recv", a)
                self.p.transfer(rank, f"{label}.{a}to{b}", kind, self.outer[rail], self.outer_stream, count, peer)
            if self.grouped:
                self.p.add(rank, f"{label}.end", "group_end")

    def ring(self, label, count):
        for turn in range(self.nodes - 1):
            pairs = sorted((n, (n + 1) % self.nodes) for n in range(self.nodes))
            self.exchange(f"{label}.{turn}", pairs, count)

    def all_pairs(self, label, count):
        self.exchange(label, [(a, b) for a in range(self.nodes) for b in range(self.nodes) if a != b], count)


def all_to_all(n, r):
    n.within(f"{r}.inner", "all_to_all", 32)
    n.over(n.outer_stream, 0)
    n.all_pairs(f"{r}.outer", 64)
    n.over(0, n.outer_stream)


def all_reduce(n, r):
    n.within(f"{r}.scatter", "reduce_scatter", 64)
    n.over(n.outer_stream, 0)
    n.ring(f"{r}.ring", 64)
    n.over(0, n.outer_stream)
    n.within(f"{r}.gather", "all_gather", 64)


def all_gather(n, r):
    n.over(n.outer_stream, 0)
    n.ring(f"{r}.ring", 48)
    n.over(0, n.outer_stream)
    n.within(f"{r}.inner", "all_gather", 48)


def broadcast(n, r):
    n.over(n.outer_stream, 0)
    source = 0
    while source + 1 < n.nodes:  # from node to node
        n.exchange(f"{r}.hop{source}", [(source, source + 1)], 96)
        source += 1
    n.over(0, n.outer_stream)
    n.within(f"{r}.inner", "broadcast", 96, root=0)


def reduce_scatter(n, r):
    n.within(f"{r}.inner", "reduce_scatter", 48)
    n.over(n.outer_stream, 0)
    n.all_pairs(f"{r}.pairs", 48)
    n.over(0, n.outer_stream)
    n.p.everywhere(f"{r}.check", "all_reduce", n.world, 0, 4, op="max")


class Hierarchical:
    COUNT = 64

    def __init__(self, name, body):
        self.name, self.body = name, body

    def job(self, index, random):
        nodes = Nodes(SIZES[index % 4], random)
        for r in range(random.randint(2, 4)):
            self.body(nodes, f"r{r}")
            if random.random() < 0.5:
                for rank in range(nodes.p.ranks):
                    nodes.p.add(rank, f"r{r}.sync", "stream_sync", stream=random.choice([0, nodes.outer_stream]))
        for rank in range(nodes.p.ranks):
            nodes.p.add(rank, "end.sync", "device_sync")
        return jobs.mutated(self.name, index, nodes.p, random, chance=0.85)


FAMILIES = {f"dl2_{name}": Hierarchical(f"dl2_{name}", body) for name, body in
            (("all_to_all", all_to_all), ("all_reduce", all_reduce), ("all_gather", all_gather),
             ("broadcast", broadcast), ("reduce_scatter", reduce_scatter))}
