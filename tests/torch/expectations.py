"""What gordian must say of each job of tests/torch, and what it does without gordian.

The truth, without gordian, with gloo of PyTorch 1.13 and with NCCL of PyTorch 2.11 on two H100s (those of two
ranks) and two H200s (those of parallel.py): every job hangs, and every twin ends. Of `os_exit` gloo
tells the others, which end with an error; NCCL tells none.
"""

EVERY = "every rank"
LAST = "the last rank"


class Expect:
    def __init__(self, verdicts, culprits, line, confirmed=None, communicators=0, ranks=2, ends=(), says=(),
                 pending="", backend=""):
        self.verdicts = verdicts            # accepted values of "verdict"
        self.culprits = culprits            # accepted culprit sets: lists of ranks, EVERY, LAST
        self.line = line                    # file in jobs/ whose line `# guilty: NAME` the report must name
        self.confirmed = confirmed          # True, False: what the confidence must be; None: either
        self.communicators = communicators  # at least so many among its operations and in its cycle
        self.ranks = ranks
        self.ends = ends                    # backends with which it ends by itself, with an error
        self.says = says                    # what else the report must say
        self.backend = backend              # the only one that it runs on; "": either
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
    # Over NCCL the last rank waits, in C++, for a key that rank 0 sets before it makes the communicator.
    "engines_join": Expect(["init_hang", "deadlock"], [EVERY, LAST], "groups.py", confirmed=True, says=("critic",)),
    # The root of NCCL's broadcast does not wait.
    "gathers_behind_broadcasts": Expect(["deadlock"], [[0], EVERY], "groups.py", confirmed=True, communicators=3,
                                        ranks=3, backend="gloo"),
    # mistakes.py
    "rank_conditional": Expect(["deadlock"], [[0], EVERY], "mistakes.py", confirmed=True, communicators=2,
                               says=("on world",)),
    "checkpoint_barrier": Expect(["mismatch"], [[0], EVERY], "mistakes.py", confirmed=True),
    "reduce_for_all_reduce": Expect(["mismatch"], [LAST, EVERY], "mistakes.py", confirmed=True),
    "members_alone": Expect(["init_hang"], [[0]], "mistakes.py", confirmed=True, ranks=4, backend="gloo",
                            says=("Have every rank of the job call new_group",)),
    # outside.py. The rank that might set the key waits for the one that waits for the key.
    "store_key": Expect(["deadlock"], [[0], EVERY], "outside.py", confirmed=True, says=('"schedule"',)),
    "gil_held": Expect(["rank_not_joined", "host_blocked"], [LAST], "outside.py", confirmed=False),
    "os_exit": Expect(["rank_exited"], [LAST], "", ends=("gloo",),
                      pending="gloo ends the other rank within milliseconds, and gordian says only how the job ended"),
    # transfers.py
    "swapped_transfers": Expect(["deadlock"], [EVERY], "transfers.py", confirmed=True),
    # NCCL knows no tags.
    "crossed_tags": Expect(["deadlock"], [EVERY], "transfers.py", confirmed=True, backend="gloo",
                           says=("(tag 2)", "(tag 3)", "which has not sent", "Compare the tags first")),
    # parallel.py, on GPUs alone: what PyTorch 2 parallelizes itself.
    "fsdp_branch": Expect(["deadlock"], [LAST, EVERY], "parallel.py", confirmed=True, communicators=2, backend="nccl"),
    "tensor_parallel": Expect(["deadlock"], [LAST, EVERY], "parallel.py", confirmed=True, communicators=2, backend="nccl"),
    "pipeline": Expect(["deadlock"], [[0], EVERY], "parallel.py", confirmed=True, communicators=2, backend="nccl"),
    "compiled": Expect(["deadlock"], [EVERY], "parallel.py", confirmed=True, communicators=2, backend="nccl"),
    "graph_replays": Expect(["deadlock"], [EVERY], "parallel.py", confirmed=True, communicators=2, backend="nccl"),
    # mesh.py. The last rank alone departs; the circle is closed by the one that waits for it.
    "mesh_tp": Expect(["deadlock"], [LAST, [2, 3]], "mesh.py", confirmed=True, communicators=2, ranks=4),
    "mesh_pp": Expect(["deadlock"], [LAST, [2, 3]], "mesh.py", confirmed=True, communicators=2, ranks=4),
    "mesh_dp": Expect(["deadlock"], [LAST, [1, 3]], "mesh.py", confirmed=True, communicators=2, ranks=4),
}


def jobs_of(backend):
    """Those that two GPUs can run, if each rank needs one."""
    return {name: expect for name, expect in JOBS.items()
            if expect.backend in ("", backend) and (backend != "nccl" or expect.ranks <= 2)}


def culprit_sets(expect):
    named = {EVERY: list(range(expect.ranks)), LAST: [expect.ranks - 1]}
    return [ranks if isinstance(ranks, list) else named[ranks] for ranks in expect.culprits]
