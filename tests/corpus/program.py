"""Corpus jobs as data: what each rank's host threads call, in their order, and the text that the executor reads.

A line of an operation is `LABEL KIND KEY=VALUE...`. Labels are unique within a rank and equal at all ranks for what
belongs together. With ROOM bytes for input and output each an operation leaves a result; two runs ended alike when
all results are equal.

  init comm= | split parent= comm= color= key= | finalize, destroy, abort comm= | group_start | group_end
  all_reduce reduce_scatter reduce all_gather broadcast all_to_all gather scatter
             comm= stream= count= type=f32|f64|i32|i64|u8 [op=sum|max|min] [root=] room=
  send recv  comm= stream= count= type= peer= room=
             both: [input=LABEL] it reads what LABEL has written; [output=LABEL, over_input=LABEL] it writes over what
             LABEL writes, or reads; [in_place=1] as NCCL defines it, in its own output; [site=NAME] the line that
             calls it, else its label
  copy stream= input=LABEL bytes= type=u8 room= (on the device) | host stream= us= (a host function)
  event_record event= stream= | stream_wait event= stream= | kernel stream= us=
  stream_sync stream= | event_sync event= | device_sync | read stream= | read_legacy
  malloc block= bytes= | free block= | sleep ms= | exit code=
  capture_begin graph= stream= | capture_end graph= stream= | graph_launch graph= stream=
  meet meeting= count= (ranks, through shared memory) | post flag= | wait flag= [count=] (threads of a rank)
  poll flag= ms= (as wait, but looks every so often) | start thread= | join thread=

`stream=legacy` is the default stream. Threads that no `start` names begin with the program. Any operation may have
[after=LABEL patience=]: it waits until that operation of its rank has returned, for so many milliseconds at most.
"""

import copy

ELEMENT = {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "u8": 1}
WIDE = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
COLLECTIVES = ("all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast", "all_to_all", "gather", "scatter")
TRANSFERS = ("send", "recv")
SYNCS = ("stream_sync", "event_sync", "device_sync", "read", "read_legacy", "free", "meet", "wait")


class Op:
    def __init__(self, label, kind, **values):
        self.label, self.kind, self.values = label, kind, values

    def __getitem__(self, key):
        return self.values[key]

    def get(self, key, otherwise=None):
        return self.values.get(key, otherwise)

    def copy(self, **changes):
        other = copy.copy(self)
        other.values = dict(self.values)
        other.label = changes.pop("label", self.label)
        other.kind = changes.pop("kind", self.kind)
        other.values.update(changes)
        return other

    @property
    def communicates(self):
        return self.kind in COLLECTIVES or self.kind in TRANSFERS

    def line(self):
        return " ".join([self.label, self.kind] + [f"{k}={v}" for k, v in self.values.items()])


class Program:
    """Ranks of threads of operations. Builders below add to thread 0 unless told otherwise."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.comms = []        # (name, members)
        self.made_by = []      # None, or the number of the parent
        self.environment = {}
        self.threads = [[[]] for _ in range(ranks)]
        self.blocking = [set() for _ in range(ranks)]
        self._labels = [dict() for _ in range(ranks)]

    # --- Building ---

    def comm(self, name, members, parent=None):
        self.comms.append((name, list(members)))
        self.made_by.append(parent)
        return len(self.comms) - 1

    def members(self, comm):
        return self.comms[comm][1]

    def add(self, rank, label, kind, thread=0, **values):
        seen = self._labels[rank].get(label, 0)
        self._labels[rank][label] = seen + 1
        op = Op(label if seen == 0 else f"{label}.{seen}", kind, **values)
        while len(self.threads[rank]) <= thread:
            self.threads[rank].append([])
        self.threads[rank][thread].append(op)
        return op

    def init_all(self, comms=None, ranks=None, thread=0):
        """Every rank makes its communicators in the order of their numbers."""
        for rank in ranks if ranks is not None else range(self.ranks):
            for comm in comms if comms is not None else range(len(self.comms)):
                if rank in self.members(comm) and self.made_by[comm] is None:
                    self.add(rank, f"init:{self.comms[comm][0]}", "init", thread, comm=comm)

    def collective(self, rank, label, kind, comm, stream, count, type="f32", op="sum", root=0, thread=0):
        values = dict(comm=comm, stream=stream, count=count, type=type)
        if kind in REDUCING:
            values["op"] = op
        if kind in ROOTED:
            values["root"] = root
        # Room for whatever a mutation makes of it: twice the count, eight bytes each, of all members.
        values["room"] = 2 * count * 8 * max(len(members) for _, members in self.comms)
        return self.add(rank, label, kind, thread, **values)

    def everywhere(self, label, kind, comm, stream, count, **more):
        for rank in self.members(comm):
            self.collective(rank, label, kind, comm, stream, count, **more)

    def transfer(self, rank, label, kind, comm, stream, count, peer, type="f32", thread=0):
        return self.add(rank, label, kind, thread, comm=comm, stream=stream, count=count, type=type, peer=peer,
                        room=2 * count * 8)

    # --- Using ---

    def copy(self):
        other = copy.copy(self)
        other.threads = [[list(thread) for thread in rank] for rank in self.threads]
        return other

    def with_ranks_of(self, original, ranks):
        """This program, with the programs of `ranks` as they are in `original`."""
        other = self.copy()
        for rank in ranks:
            other.threads[rank] = [list(thread) for thread in original.threads[rank]]
        return other

    def operations(self, rank):
        return [op for thread in self.threads[rank] for op in thread]

    def find(self, rank, label):
        """(thread, index) or None."""
        for t, thread in enumerate(self.threads[rank]):
            for i, op in enumerate(thread):
                if op.label == label:
                    return t, i
        return None

    def text(self):
        lines = [f"ranks {self.ranks}"]
        lines += [f"environment {k}={v}" for k, v in sorted(self.environment.items())]
        lines += [f"comm {name} {','.join(map(str, members))}" for name, members in self.comms]
        for rank in range(self.ranks):
            lines.append(f"rank {rank}")
            lines += [f"blocking {stream}" for stream in sorted(self.blocking[rank])]
            for thread in self.threads[rank]:
                lines.append("thread")
                lines += [op.line() for op in thread]
        return "\n".join(lines) + "\n"
