"""As much of PyTorch as gordian's front end takes hold of, over NCCL by ctypes: gloo alone comes with
Debian's. What PyTorch does in C++, this does behind a function of ctypes."""

for _name in ("int8", "uint8", "bool", "int32", "int64", "float16", "float32", "float64", "bfloat16"):
    globals()[_name] = object()

from torch import autograd, distributed
