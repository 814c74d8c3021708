import os

import torch


class ReduceOp:
    SUM, PRODUCT, MAX, MIN, AVG = "sum", "product", "max", "min", "avg"


class Group:
    def __init__(self, ranks):
        self.ranks = ranks

    def __repr__(self):
        return "{" + " ".join(map(str, self.ranks)) + "}"


class Work:
    def wait(self):
        pass


class P2POp:
    def __init__(self, op, tensor, peer, group):
        assert op in (isend, irecv) and peer in group.ranks and get_rank() in group.ranks
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group


def init_process_group(backend, device_id):
    assert backend == "nccl" and device_id.kind == "cuda"


def get_rank():
    return int(os.environ["RANK"])


def new_group(ranks):
    assert ranks == sorted(ranks)
    torch._note("new_group", ranks)
    return Group(ranks)


def isend():
    raise NotImplementedError


def irecv():
    raise NotImplementedError


def batch_isend_irecv(operations):
    torch._note("batch", operations[0].group, *(f"{o.op.__name__} {o.tensor} {o.peer}" for o in operations))
    return [Work() for _ in operations]


def _collective(name, group, *arguments):
    assert get_rank() in group.ranks
    torch._note(name, group, *arguments)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    _collective("all_reduce", group, tensor, op)


def all_gather_into_tensor(output, tensor, group):
    assert output.size == tensor.size * len(group.ranks)
    _collective("all_gather", group, tensor)


def reduce_scatter_tensor(output, tensor, op, group):
    assert tensor.size == output.size * len(group.ranks)
    _collective("reduce_scatter", group, output, op)


def broadcast(tensor, src, group):
    assert src in group.ranks
    _collective("broadcast", group, tensor, src)


def reduce(tensor, dst, op, group):
    assert dst in group.ranks
    _collective("reduce", group, tensor, dst, op)


def all_to_all_single(output, tensor, group):
    assert tensor.size == output.size and tensor.size % len(group.ranks) == 0
    _collective("all_to_all", group, tensor)


def gather(tensor, gather_list, dst, group):
    assert (gather_list is not None) == (get_rank() == dst)
    assert gather_list is None or [t.size for t in gather_list] == [tensor.size] * len(group.ranks)
    _collective("gather", group, tensor, dst)


def scatter(tensor, scatter_list, src, group):
    assert (scatter_list is not None) == (get_rank() == src)
    assert scatter_list is None or [t.size for t in scatter_list] == [tensor.size] * len(group.ranks)
    _collective("scatter", group, tensor, src)
