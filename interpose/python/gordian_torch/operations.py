"""What the arguments of a ProcessGroup's methods say: root or peer, elements, types, tag.

Each function takes (args, kwargs) of one method, without the group, and gives (root or peer, count,
types, tag), or None for a call that is not followed. `types` is as gordian_torch_operation takes it.
"""

import torch

# ncclDataType_t, as the shim's records have it; 255: another one.
_OTHER = 255
_NO_OPERATOR = 255 << 8
_UNKNOWN = _OTHER | _NO_OPERATOR
_TYPES = {
    torch.int8: 0, torch.uint8: 1, torch.bool: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6,
    torch.float32: 7, torch.float64: 8, torch.bfloat16: 9,
}
_TYPES = {of: number | _NO_OPERATOR for of, number in _TYPES.items()}


def _first(value):
    """The tensor, or the first of a list, or of a list of lists."""
    while isinstance(value, (list, tuple)):
        value = value[0]
    return value


def _argument(args, kwargs, place, *names):
    if len(args) > place:
        return args[place]
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return None


def _of(tensor, root=-1, tag=0):
    if not tensor.is_cpu:
        return None
    return root, tensor.numel(), _TYPES.get(tensor.dtype, _UNKNOWN), tag


def _all_reduce(args, kwargs):
    try:
        return _of(args[0][0])  # as torch.distributed calls it
    except (IndexError, AttributeError):
        return _of(_first(_argument(args, kwargs, 0, "tensors", "tensor")))


def _input(place, *names):
    def describe(args, kwargs):
        return _of(_first(_argument(args, kwargs, place, *names)))
    return describe


def _rooted(place, *names):
    def describe(args, kwargs):
        options = _argument(args, kwargs, 2 if place else 1, "opts")
        root = getattr(options, "rootRank", None)
        if root is None:
            root = kwargs.get("root", _argument(args, kwargs, 1))
        return _of(_first(_argument(args, kwargs, place, *names)), int(root))
    return describe


def _scatter(args, kwargs):
    options = _argument(args, kwargs, 2, "opts")
    root = getattr(options, "rootRank", None)
    if root is None:
        root = _argument(args, kwargs, 2, "root")
    return _of(_first(_argument(args, kwargs, 0, "output_tensors", "output_tensor")), int(root))


def _one_tensor_rooted(args, kwargs):
    options = _argument(args, kwargs, 1, "opts", "root")
    root = getattr(options, "rootRank", options)
    return _of(_first(_argument(args, kwargs, 0, "tensors", "tensor")), int(root))


def _unequal(args, kwargs):
    tensor = _first(_argument(args, kwargs, 0, "output_tensor", "output_tensors"))
    if not tensor.is_cpu:
        return None
    # Which members exchange anything depends on the sizes.
    return -1, 0, _UNKNOWN, 0


def _barrier(args, kwargs):
    return -1, 1, _UNKNOWN, 0


# Shorter limits are the program's own way to go on.
_LONG_SECONDS = 300


def _monitored_barrier(args, kwargs):
    limit = _argument(args, kwargs, 0, "timeout")
    if limit is not None and limit.total_seconds() < _LONG_SECONDS:
        return None
    return _barrier(args, kwargs)


def _transfer(args, kwargs):
    tag = _argument(args, kwargs, 2, "tag") or 0
    peer = _argument(args, kwargs, 1, "dstRank", "srcRank")
    return _of(_first(_argument(args, kwargs, 0, "tensors")), int(peer), int(tag))


# Name of the method: row of proto/ring/torch_calls.def, what its arguments say, and whether it
# returns only when it is done.
METHODS = {
    "allreduce": ("all_reduce", _all_reduce, False),
    "allreduce_coalesced": ("all_reduce", _input(0, "tensors"), False),
    "broadcast": ("broadcast", _one_tensor_rooted, False),
    "reduce": ("reduce", _one_tensor_rooted, False),
    "allgather": ("all_gather", _input(1, "input_tensors", "input_tensor"), False),
    "allgather_coalesced": ("all_gather", _input(1, "input_list", "input_tensors"), False),
    "_allgather_base": ("all_gather", _input(1, "input"), False),
    "gather": ("gather", _rooted(1, "input_tensors", "input_tensor"), False),
    "scatter": ("scatter", _scatter, False),
    "reduce_scatter": ("reduce_scatter", _input(0, "output_tensors", "output"), False),
    "_reduce_scatter_base": ("reduce_scatter", _input(0, "outputTensor"), False),
    "alltoall": ("all_to_all", _unequal, False),
    "alltoall_base": ("all_to_all", _unequal, False),
    "barrier": ("barrier", _barrier, False),
    "monitored_barrier": ("barrier", _monitored_barrier, True),
    "send": ("send", _transfer, False),
    "recv": ("recv", _transfer, False),
}
