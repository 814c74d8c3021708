"""The process groups of this process, as the shim's records name them."""

import hashlib
import os


def hash_of(*parts):
    """64 bits, the same in every process and never 0."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1


class Group:
    """What is known of one process group. Members are numbered as in the group."""

    __slots__ = ("comm", "uid", "rank", "size", "ranks", "host", "bound", "named", "upper")

    def __init__(self, comm, uid, rank, size, ranks, host):
        self.comm = comm  # the shim's id
        self.uid = uid
        self.rank = rank
        self.size = size
        self.ranks = ranks  # of the whole job, by member
        self.host = host  # gloo carries operations on host memory out
        self.bound = False  # the shim sees the calls on it in C++
        self.named = False
        self.upper = comm << 32  # as gordian_torch_method takes it


class Groups:
    def __init__(self):
        self.forget()

    def forget(self):
        self.by_group = {}  # the ProcessGroup itself: it hashes by identity
        self.own = {}  # id of one that the job has made from the class -> weak reference
        self.prefixes = {}  # id of a PrefixStore -> (weak reference, its prefix)
        self.made = {}  # (prefix, size) -> how often the job has made a group so
        self.world = None
        self.generation = 0  # of the default group
        self.barriers = 0
        self.meetings = 0  # of the job's ranks, each before a default group

    def begun(self):
        """Whether the process has met the job's other ranks, or tries to."""
        return self.world is not None or self.meetings > 0

    def job(self):
        """Tells jobs apart, and the runs of one that restarts. The same at all ranks."""
        names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
        return [os.environ.get(name, "") for name in names]
