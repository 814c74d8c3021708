"""Names the job's line where it calls NCCL or CUDA through ctypes, as vLLM does: the shim sees no other
caller there than libffi.

`CDLL[name]`, which attribute look-ups end in, gives such a function a class whose call sets the line
first. The class is below the function's own, so that argtypes, restype and isinstance stay as they are.
"""

import ctypes
import os
import sys

from gordian_torch.shim import FAILED, OUTSIDE_OF_PYTORCH, Shim
from gordian_torch.sites import Sites

_PREFIXES = ("nccl", "cuda")


def install():
    """Once. Does nothing in a process without the shim."""
    try:
        shim = Shim()
    except (OSError, AttributeError):
        return
    sites = Sites(shim, (os.path.dirname(os.path.abspath(__file__)),))
    line_of = sites.line_of
    get_frame = sys._getframe
    classes = {}

    def with_line(*arguments, **keywords):
        try:
            return OUTSIDE_OF_PYTORCH | line_of(get_frame(1))
        except Exception:
            return None

    def wanted(library, name):
        return name if isinstance(name, str) and name.startswith(_PREFIXES) else None

    def found(name, function):
        try:
            if function is FAILED:
                return
            kind = type(function)
            if kind not in classes:
                call = shim.method_around(with_line, kind.__call__, None, name, seen=True)
                classes[kind] = type(kind)(kind.__name__, (kind,), {
                    "__call__": call, "__module__": kind.__module__, "__qualname__": kind.__qualname__,
                    "_flags_": kind._flags_})  # which each class of functions must say itself
            function.__class__ = classes[kind]
        except Exception:
            pass

    ctypes.CDLL.__getitem__ = shim.method_around(wanted, ctypes.CDLL.__getitem__, found, "__getitem__")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=sites.forget)
