"""As much of torch as replays use, without a GPU: notes what is called, on which stream, and does nothing.

FAKE_TORCH_LOG: the file that calls are noted in, a line of JSON each. FAKE_TORCH_STUCK: a name under which calls are
noted ("Stream.synchronize"); such a call does not return.
"""

import json
import os
import threading

_lock = threading.Lock()


def _note(name, *arguments):
    with _lock, open(os.environ["FAKE_TORCH_LOG"], "a") as log:
        log.write(json.dumps([threading.current_thread().name, cuda._current().name, name, *map(str, arguments)]) + "\n")
    if name == os.environ.get("FAKE_TORCH_STUCK"):
        threading.Event().wait()


class dtype:
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return self.name


for _name, _size in {"int8": 1, "uint8": 1, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
                     "float8_e4m3fn": 1, "float8_e5m2": 1}.items():
    globals()[_name] = dtype(_name, _size)


class device:
    def __init__(self, kind, index=0):
        self.kind, self.index = kind, index


class Tensor:
    def __init__(self, size, of):
        self.size, self.dtype = size, of

    def __getitem__(self, key):
        assert isinstance(key, slice) and key.start is None and key.step is None
        assert 0 <= key.stop <= self.size, f"{key.stop} of {self.size} elements"
        return Tensor(key.stop, self.dtype)

    def view(self, of):
        assert self.size * self.dtype.itemsize % of.itemsize == 0
        return Tensor(self.size * self.dtype.itemsize // of.itemsize, of)

    def chunk(self, parts):
        assert self.size % parts == 0
        return tuple(Tensor(self.size // parts, self.dtype) for _ in range(parts))

    def zero_(self):
        _note("zero_", self)
        return self

    def cpu(self):
        _note("cpu", self)
        return self

    def __repr__(self):
        return f"{self.size} {self.dtype}"


def zeros(size, dtype, device):
    return Tensor(size, dtype)


def empty(size, dtype, device):
    return Tensor(size, dtype)


from . import cuda  # noqa: E402
