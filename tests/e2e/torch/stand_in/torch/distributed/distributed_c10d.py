"""Process groups over NCCL. A group makes its communicator at its first operation."""

import ctypes
import os
import sys

_cuda = ctypes.CDLL("libcudart.so.13")
_nccl = ctypes.CDLL("libnccl.so.2")
_store = ctypes.CDLL(sys.modules["torch._C"].__file__)  # releases the interpreter's lock, as PyTorch does


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


_nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                ctypes.c_void_p, ctypes.c_void_p]
_nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, _UniqueId, ctypes.c_int]


def _check(result):
    if result != 0:
        raise RuntimeError(f"{result}")


class GroupMember:
    WORLD = None


class Work:
    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return False


class ProcessGroup:
    stream = ctypes.c_void_p()
    memory = ctypes.c_void_p()

    def __init__(self, rank, size, name):
        self.rank, self.size, self.key, self.comm = rank, size, name.encode(), None

    def communicator(self):
        if self.comm is None:
            unique = _UniqueId()
            if self.rank == 0:
                _check(_nccl.ncclGetUniqueId(ctypes.byref(unique)))
                _store.store_set(self.key, ctypes.byref(unique), ctypes.c_size_t(128))
            else:
                _store.store_get(self.key, ctypes.byref(unique), ctypes.c_size_t(128))
            self.comm = ctypes.c_void_p()
            _check(_nccl.ncclCommInitRank(ctypes.byref(self.comm), self.size, unique, self.rank))
        return self.comm

    def issue(self):
        _check(_nccl.ncclAllReduce(self.memory, self.memory, 1024, 7, 0, self.communicator(), self.stream))

    def issue_by_engine(self):
        """In C++, in a thread of autograd."""
        _check(_store.engine_all_reduce(_nccl.ncclAllReduce, self.memory, ctypes.c_size_t(1024), self.communicator(),
                                        self.stream))

    def allreduce(self, tensors, options=None):
        self.issue()
        return Work()

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None):
        group = ProcessGroup(ranks.index(self.rank), len(ranks), group_name)
        group.communicator()
        return group


def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name=None,
                              group_desc=None):
    return ProcessGroup(group_rank, group_size, group_name)


def _store_based_barrier(*args):
    pass


def destroy_process_group(group=None):
    pass


def init_process_group(backend):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    _check(_cuda.cudaSetDevice(ctypes.c_int(rank)))
    _check(_cuda.cudaStreamCreateWithFlags(ctypes.byref(ProcessGroup.stream), ctypes.c_uint(1)))
    _check(_cuda.cudaMalloc(ctypes.byref(ProcessGroup.memory), ctypes.c_size_t(1 << 16)))
    GroupMember.WORLD = _new_process_group_helper(size, rank, [], backend, None, group_name="0",
                                                  group_desc="default_pg")


def new_group(name, group_desc=None):
    world = GroupMember.WORLD
    return _new_process_group_helper(world.size, world.rank, list(range(world.size)), "nccl", None, group_name=name,
                                     group_desc=group_desc)


def split_group(parent, split_ranks, group_desc=None):
    mine = next(ranks for ranks in split_ranks if parent.rank in ranks)
    return parent.split_group(mine, group_name=f"split {mine}", group_desc=group_desc)


def all_reduce(tensor, group=None):
    (group or GroupMember.WORLD).allreduce([tensor]).wait()


def synchronize():
    _check(_cuda.cudaStreamSynchronize(ProcessGroup.stream))
