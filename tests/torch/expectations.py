"""What gordian must say of each job of tests/torch, and what it does without gordian.

The truth, without gordian, with gloo of PyTorch 1.13 and with NCCL of PyTorch 2.11 on two H100s (those of two
ranks): every job hangs, and every twin ends. Of `os_exit` gloo tells the others, which end with an error; NCCL tells
none.
"""

EVERY = "every rank"
LAST = "the last rank"


class Expect:
    def __init__(self, verdicts, culprits, line, confirmed=None, communicators=0, ranks=2, ends=(), says=(),
                 pending=""):
        self.verdicts = verdicts            # accepted values of "verdict"
        self.culprits = culprits            # accepted culprit sets: lists of ranks, EVERY, LAST
        self.line = line                    # file in jobs/ whose line `# guilty: NAME` the report must name
        self.confirmed = confirmed          # True, False: what the confidence must be; None: either
        self.communicators = communicators  # at least so many among its operations and in its cycle
        self.ranks = ranks
        self.ends = ends                    # backends with which it ends by itself, with an error
        self.says = says                    # what else the report must say
        self.pending = pending              # why gordian cannot say it yet; "": it does, and CTest asserts it


JOBS = {
    # data_parallel.py. Two ranks: which of them is one batch short, no call tells.
    "uneven_inputs": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", confirmed=True, communicators=2),
    "unused_parameters": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", confirmed=True, communicators=2),
    "empty_expert": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", confirmed=True, communicators=2),
    "crashed_loader": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", confirmed=True, communicators=2),
    "autograd_hooks": Expect(["deadlock"], [LAST, EVERY], "data_parallel.py", confirmed=True, communicators=2),
    "checkpoint_thread": Expect(["mismatch"], [LAST, EVERY], "data_parallel.py", confirmed=True),
    # groups.py
    "opposite_groups": Expect(["deadlock"], [EVERY], "groups.py", confirmed=True, communicators=2),
    "set_order": Expect(["deadlock"], [EVERY], "groups.py", confirmed=True, communicators=2),
    "engines_join": Expect(["init_hang", "deadlock"], [EVERY, LAST], "groups.py", confirmed=True,
                           says=("actor", "critic")),
    "gathers_behind_broadcasts": Expect(["deadlock"], [[0], EVERY], "groups.py", confirmed=True, communicators=3,
                                        ranks=3),
    # mistakes.py
    "rank_conditional": Expect(["deadlock"], [[0], EVERY], "mistakes.py", confirmed=True, communicators=2),
    "checkpoint_barrier": Expect(["mismatch"], [[0], EVERY], "mistakes.py", confirmed=True),
    "reduce_for_all_reduce": Expect(["mismatch"], [LAST, EVERY], "mistakes.py", confirmed=True),
    # outside.py. The rank that might set the key waits for the one that waits for the key.
    "store_key": Expect(["deadlock"], [[0], EVERY], "outside.py", confirmed=True, says=('"schedule"',)),
    "gil_held": Expect(["rank_not_joined", "host_blocked"], [LAST], "outside.py", confirmed=False),
    "os_exit": Expect(["rank_exited"], [LAST], "", ends=("gloo",),
                      pending="gloo ends the other rank within milliseconds, and gordian says only how the job ended"),
    # transfers.py
    "swapped_transfers": Expect(["deadlock"], [EVERY], "transfers.py", confirmed=True),
}


def culprit_sets(expect):
    named = {EVERY: list(range(expect.ranks)), LAST: [expect.ranks - 1]}
    return [ranks if isinstance(ranks, list) else named[ranks] for ranks in expect.culprits]
