"""As much of PyTorch as gordian's front end takes hold of, over NCCL by ctypes: gloo alone comes with
Debian's. What PyTorch does in C++, this does behind a function of ctypes."""

import os
import sys
import types

for _name in ("int8", "uint8", "bool", "int32", "int64", "float16", "float32", "float64", "bfloat16"):
    globals()[_name] = object()

_C = sys.modules["torch._C"] = types.ModuleType("torch._C")
_C.__file__ = os.environ["JOB_STORE"]  # store.cc

from torch import autograd, distributed
