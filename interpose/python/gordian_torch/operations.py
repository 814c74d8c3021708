"""What the arguments of a ProcessGroup's methods say: root or peer, elements, types, tag.

Each function takes (args, kwargs) of one method, without the group, and gives (root or peer, count,
types, tag), or None for a call that is not followed. `types` is as gordian_torch_operation takes it.
"""

import ctypes

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


def is_short(timeout=None):
    return timeout is not None and 0 < timeout.total_seconds() < _LONG_SECONDS


def _monitored_barrier(args, kwargs):
    if is_short(_argument(args, kwargs, 0, "timeout")):
        return None
    return _barrier(args, kwargs)


def _transfer(args, kwargs):
    tag = _argument(args, kwargs, 2, "tag") or 0
    peer = _argument(args, kwargs, 1, "dstRank", "srcRank")
    return _of(_first(_argument(args, kwargs, 0, "tensors")), int(peer), int(tag))


def _any_source(args, kwargs):
    tag = _argument(args, kwargs, 1, "tag") or 0
    return _of(_first(_argument(args, kwargs, 0, "tensors")), -1, int(tag))


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
    "allgather_into_tensor_coalesced": ("all_gather", _input(1, "inputs"), False),
    "gather": ("gather", _rooted(1, "input_tensors", "input_tensor"), False),
    "scatter": ("scatter", _scatter, False),
    "reduce_scatter": ("reduce_scatter", _input(0, "output_tensors", "output"), False),
    "_reduce_scatter_base": ("reduce_scatter", _input(0, "outputTensor"), False),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", _input(0, "outputs"), False),
    "alltoall": ("all_to_all", _unequal, False),
    "alltoall_base": ("all_to_all", _unequal, False),
    "barrier": ("barrier", _barrier, False),
    "monitored_barrier": ("barrier", _monitored_barrier, True),
    "send": ("send", _transfer, False),
    "recv": ("recv", _transfer, False),
    "recv_anysource": ("recv", _any_source, False),
}

# Operators of torch.ops._c10d_functional: what they are shown as; "": a wait, as itself.
FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_reduce_coalesced_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
    "wait_tensor": "",
}


def tensor_layout():
    """Where a tensor in memory has its number of elements, its type, and what the type's numbers stand
    for, as gordian_torch_layout takes them; False: not to be found."""
    words = 24  # as many has every version's TensorImpl

    def memory(tensor, kind, count):
        return list((kind * count).from_address(tensor._cdata))

    kept = [torch.empty(shape) for shape in ((3, 5), (7, 11), (2, 13))]
    counts = [memory(tensor, ctypes.c_int64, words) for tensor in kept]
    places = [at for at in range(words) if all(c[at] == t.numel() for c, t in zip(counts, kept))]
    if len(places) != 1:
        return False
    elements_at = 8 * places[0]
    seen = {}
    for dtype in _TYPES:
        for shape in ((3, 5), (2, 2)):
            tensor = torch.empty(shape, dtype=dtype)
            seen.setdefault(dtype, []).append(memory(tensor, ctypes.c_uint16, 4 * words))
    for at in range(elements_at // 2 + 4, 4 * words):
        numbers = {dtype: {memory[at] for memory in memories} for dtype, memories in seen.items()}
        flat = {min(values) for values in numbers.values()}
        if all(len(v) == 1 for v in numbers.values()) and len(flat) == len(numbers) and max(flat) < 64:
            types = bytearray(b"\xff" * 64)
            for dtype, values in numbers.items():
                types[min(values)] = _TYPES[dtype] & 0xff
            return elements_at, 2 * at, bytes(types)
    return False
