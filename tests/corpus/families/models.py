"""dl2's Table 1: the communication of one training step of five models, tensor and data parallel.

Ranks are numbered as Megatron does: those of a tensor-parallel group are neighbours. Groups of 2, 4, 6 and 8
ranks, 32 jobs each.
"""

import job as jobs
from program import Program

SIZES = [2, 4, 6, 8]
LAYOUTS = {2: [(2, 1), (1, 2)], 4: [(2, 2), (1, 4)], 6: [(2, 3)], 8: [(2, 4)]}  # tensor, data parallel


class Step:
    """Says for all ranks at once what one step of a model communicates."""

    def __init__(self, ranks, random):
        self.random = random
        self.tp_size, self.dp_size = random.choice(LAYOUTS[ranks])
        self.p = Program(ranks)
        self.world = self.p.comm("world", range(ranks))
        self.tp = [self.p.comm(f"tp{d}", range(d * self.tp_size, (d + 1) * self.tp_size))
                   for d in range(self.dp_size)] if self.tp_size > 1 else []
        self.dp = [self.p.comm(f"dp{t}", range(t, ranks, self.tp_size))
                   for t in range(self.tp_size)] if self.dp_size > 1 else []
        self.p.init_all()
        # The stream of gradients beside that of computation, as DDP has it, or one for all.
        self.gradient_stream = random.choice([0, 1])
        self.synchronous = random.random() < 0.3  # waits on the host behind each layer
        self.p.everywhere("hello", "all_reduce", self.world, 0, 16)
        for rank in range(ranks):
            self.p.add(rank, "hello.sync", "stream_sync", stream=0)
        self.events = 0

    def _all(self, label, kind, **values):
        for rank in range(self.p.ranks):
            self.p.add(rank, label, kind, **values)

    def tensor(self, label, kind, count, **more):
        for comm in self.tp:
            self.p.everywhere(label, kind, comm, 0, count, **more)

    def compute(self, label, us=20):
        self._all(label, "kernel", stream=0, us=us)

    def layer_end(self, label):
        if self.synchronous:
            self._all(label, "stream_sync", stream=0)

    def gradient(self, label, count, kind="all_reduce"):
        if not self.dp:
            return
        if self.gradient_stream:
            event = self.events
            self.events += 1
            self._all(f"{label}.ready", "event_record", event=event, stream=0)
            self._all(f"{label}.wait", "stream_wait", event=event, stream=1)
        for comm in self.dp:
            self.p.everywhere(label, kind, comm, self.gradient_stream, count)

    def end(self, label):
        if self.dp and self.gradient_stream:
            event = self.events
            self.events += 1
            self._all(f"{label}.gradients", "event_record", event=event, stream=1)
            self._all(f"{label}.join", "stream_wait", event=event, stream=0)
        self.compute(f"{label}.optimizer")
        if self.random.random() < 0.5:
            self.p.everywhere(f"{label}.norm", "all_reduce", self.world, 0, 4)
        self._all(f"{label}.sync", self.random.choice(["stream_sync", "read"]), stream=0)


def mlp(step, s):  # 16 linear layers, column and row parallel in turn
    for pair in range(8):
        step.compute(f"{s}.fwd{pair}")
        step.tensor(f"{s}.fwd{pair}.out", "all_reduce", 256)
        step.layer_end(f"{s}.fwd{pair}.end")
    for pair in reversed(range(8)):
        step.compute(f"{s}.bwd{pair}")
        step.tensor(f"{s}.bwd{pair}.in", "all_reduce", 256)
        for half in ("b", "a"):
            step.gradient(f"{s}.grad{pair}{half}", 512)


def gpt2(step, s):  # 6 layers of 12 heads, vocabulary parallel loss, buckets of gradients
    step.tensor(f"{s}.embed", "all_reduce", 384)
    for layer in range(6):
        for part in ("attn", "mlp"):
            step.compute(f"{s}.fwd{layer}.{part}")
            step.tensor(f"{s}.fwd{layer}.{part}.out", "all_reduce", 384)
        step.layer_end(f"{s}.fwd{layer}.end")
    step.tensor(f"{s}.loss.max", "all_reduce", 64, op="max")
    step.tensor(f"{s}.loss.sum", "all_reduce", 64)
    for layer in reversed(range(6)):
        for part in ("mlp", "attn"):
            step.compute(f"{s}.bwd{layer}.{part}")
            step.tensor(f"{s}.bwd{layer}.{part}.in", "all_reduce", 384)
        if layer % 2 == 0:
            step.gradient(f"{s}.bucket{layer // 2}", 768)
    step.gradient(f"{s}.bucket.embed", 512)


def mbart(step, s):  # 2 encoder and 2 decoder layers, of 8 heads; weights shared by broadcast at the start
    if s == "s0":
        for comm in step.dp:
            step.p.everywhere("weights", "broadcast", comm, 0, 256)
    parts = [f"enc{n}.{part}" for n in range(2) for part in ("self", "mlp")]
    parts += [f"dec{n}.{part}" for n in range(2) for part in ("self", "cross", "mlp")]
    step.tensor(f"{s}.embed", "all_reduce", 128)
    for part in parts:
        step.compute(f"{s}.{part}")
        step.tensor(f"{s}.{part}.out", "all_reduce", 128)
        if part.endswith("mlp"):
            step.layer_end(f"{s}.{part}.end")
    for part in reversed(parts):
        step.compute(f"{s}.{part}.bwd")
        step.tensor(f"{s}.{part}.in", "all_reduce", 128)
        if part.endswith("self"):
            step.gradient(f"{s}.{part}.bucket", 512)


def swin(step, s):  # 4 stages of 8 heads; patches are merged between them
    for stage in range(4):
        for part in ("window", "mlp"):
            step.compute(f"{s}.fwd{stage}.{part}")
            step.tensor(f"{s}.fwd{stage}.{part}.out", "all_reduce", 512 >> stage)
        if stage < 3:
            step.tensor(f"{s}.merge{stage}", "all_gather", 128 >> stage)
        step.layer_end(f"{s}.fwd{stage}.end")
    for stage in reversed(range(4)):
        if stage < 3:
            step.tensor(f"{s}.split{stage}", "reduce_scatter", 128 >> stage)
        for part in ("mlp", "window"):
            step.compute(f"{s}.bwd{stage}.{part}")
            step.tensor(f"{s}.bwd{stage}.{part}.in", "all_reduce", 512 >> stage)
        step.gradient(f"{s}.grad{stage}", 256)


def openfold(step, s):  # 2 Evoformer blocks: rows and columns change places by all-to-all
    for block in range(2):
        for part in ("row", "column"):
            step.compute(f"{s}.b{block}.{part}")
            step.tensor(f"{s}.b{block}.{part}.turn", "all_to_all", 64)
        step.tensor(f"{s}.b{block}.outer", "all_gather", 64)
        for part in ("out", "in"):
            step.compute(f"{s}.b{block}.triangle.{part}")
            step.tensor(f"{s}.b{block}.triangle.{part}.gather", "all_gather", 64)
        for part in ("start", "end"):
            step.tensor(f"{s}.b{block}.attention.{part}.turn", "all_to_all", 64)
        step.layer_end(f"{s}.b{block}.end")
    for block in reversed(range(2)):
        for part in ("end", "start"):
            step.tensor(f"{s}.b{block}.attention.{part}.back", "all_to_all", 64)
        for part in ("in", "out"):
            step.compute(f"{s}.b{block}.triangle.{part}.bwd")
            step.tensor(f"{s}.b{block}.triangle.{part}.scatter", "reduce_scatter", 64)
        step.tensor(f"{s}.b{block}.outer.bwd", "reduce_scatter", 64)
        for part in ("column", "row"):
            step.tensor(f"{s}.b{block}.{part}.back", "all_to_all", 64)
        step.gradient(f"{s}.grad{block}", 256)


class Model:
    COUNT = 128

    def __init__(self, name, step, steps):
        self.name, self.step, self.steps = name, step, steps

    def job(self, index, random):
        step = Step(SIZES[index % 4], random)
        for s in range(random.randint(1, self.steps)):
            self.step(step, f"s{s}")
            step.end(f"s{s}.end")
        return jobs.mutated(self.name, index, step.p, random, chance=0.85)


FAMILIES = {f"dl2_{name}": Model(f"dl2_{name}", step, steps) for name, step, steps in
            (("mlp", mlp, 2), ("gpt2", gpt2, 2), ("mbart", mbart, 2), ("swin", swin, 2), ("openfold", openfold, 2))}
