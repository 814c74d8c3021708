"""What gordian must say of each job of tests/torch, and what it does without gordian.

The truth, without gordian, with gloo of PyTorch 1.13 and with NCCL of PyTorch 2.11 on two H100s (those of two
ranks): every job hangs, and every twin ends. Of `os_exit` gloo tells the others, which end with an error; NCCL tells
none.
"""

EVERY = "every rank"
LAST = "the last rank"


class Expect:
    def __init__(self, verdicts, culprits, line, confirmed=None, communicators=0, ranks=2, ends=(), pending=""):
        self.verdicts = verdicts            # accepted values of "verdict"
        self.culprits = culprits            # accepted culprit sets: lists of ranks, EVERY, LAST
        self.line = line                    # file in jobs/ whose line `# guilty: NAME` the report must name
        self.confirmed = confirmed          # True, False: what the confidence must be; None: either
        self.communicators = communicators  # at least so many among its operations and in its cycle
        self.ranks = ranks
        self.ends = ends                    # backends with which it ends by itself, with an error
        self.pending = pending              # why gordian cannot say it yet; "": it does, and CTest asserts it


NOT_SEEN = "calls of torch.distributed are not recorded"

JOBS = {
    # data_parallel.py. Two ranks: which of them is one batch short, no call tells.
    "uneven_inputs": Expect(["deadlock", "rank_not_joined", "host_blocked"], [LAST, EVERY], "data_parallel.py",
                            pending=NOT_SEEN),
    "unused_parameters": Expect(["deadlock", "rank_not_joined", "host_blocked"], [LAST, EVERY], "data_parallel.py",
                                pending=NOT_SEEN),
    "empty_expert": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", confirmed=True, communicators=2,
                           pending=NOT_SEEN),
    "crashed_loader": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", communicators=2, pending=NOT_SEEN),
    "autograd_hooks": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", communicators=2, pending=NOT_SEEN),
    "checkpoint_thread": Expect(["mismatch", "deadlock"], [LAST, EVERY], "data_parallel.py", pending=NOT_SEEN),
    # groups.py
    "opposite_groups": Expect(["deadlock"], [EVERY], "groups.py", confirmed=True, communicators=2, pending=NOT_SEEN),
    "set_order": Expect(["deadlock"], [EVERY], "groups.py", confirmed=True, communicators=2, pending=NOT_SEEN),
    "engines_join": Expect(["init_hang", "deadlock"], [EVERY, LAST], "groups.py", pending=NOT_SEEN),
    "gathers_behind_broadcasts": Expect(["deadlock"], [[0], EVERY], "groups.py", confirmed=True, communicators=3,
                                        ranks=3, pending=NOT_SEEN),
    # mistakes.py
    "rank_conditional": Expect(["deadlock"], [[0], EVERY], "mistakes.py", confirmed=True, communicators=2,
                               pending=NOT_SEEN),
    "checkpoint_barrier": Expect(["mismatch"], [[0], EVERY], "mistakes.py", pending=NOT_SEEN),
    "reduce_for_all_reduce": Expect(["mismatch"], [LAST, EVERY], "mistakes.py", pending=NOT_SEEN),
    # outside.py
    "store_key": Expect(["rank_not_joined", "host_blocked"], [[0]], "outside.py", pending=NOT_SEEN),
    "gil_held": Expect(["rank_not_joined", "host_blocked"], [LAST], "outside.py", pending=NOT_SEEN),
    "os_exit": Expect(["rank_exited"], [LAST], "", ends=("gloo",), pending=NOT_SEEN),
    # transfers.py
    "swapped_transfers": Expect(["deadlock"], [EVERY], "transfers.py", confirmed=True, pending=NOT_SEEN),
}


def culprit_sets(expect):
    named = {EVERY: list(range(expect.ranks)), LAST: [expect.ranks - 1]}
    return [ranks if isinstance(ranks, list) else named[ranks] for ranks in expect.culprits]
