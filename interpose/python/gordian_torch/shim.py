"""The shim's C API, as interpose/torch/torch_api.cc and python_call.cc define it."""

import ctypes

VERSION = 6
# In place of a group: the call runs others, which count for themselves.
RUNS_OTHERS = 0xffffffff << 32
# The same where no call of PyTorch is around it, whose line would stand.
OUTSIDE_OF_PYTORCH = 0xfffffffe << 32
# What the second half gets in place of a result, when the function has raised.
FAILED = object()

# In the order of proto/ring/torch_calls.def.
_CALLS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather",
          "scatter", "barrier", "send", "recv", "init_process_group", "new_group",
          "destroy_process_group", "wait", "store_wait", "site", "group", "exception", "key")

_u32, _u64, _i32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
_SIGNATURES = {
    "group": (_u32, ()),
    "init": (None, (_u32, _u32, _u64, _i32, _i32, _u32, _i32, _u64)),
    "made": (None, (_u32, _u32, _i32, _i32, _i32)),
    "destroyed": (None, (_u32, _u32, _u64)),
    "backward": (None, (_u64,)),
    "name": (None, (_u32, ctypes.c_char_p, _u64)),
    "bound": (_u32, (_u32,)),
    "layout": (None, (_u32, _u32, ctypes.c_char_p, _u32)),
    "gloo": (ctypes.c_char_p, (ctypes.c_char_p,)),
    "store": (_u32, (ctypes.c_char_p,)),
    "seen": (None, (_u32, _u32, _u64, _u32, _u64, _u64)),
    "text": (None, (_u32, _u64, ctypes.c_char_p, _u64)),
}


class _Functions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in (
        "tuple_item", "call", "call_with", "fetch", "restore", "clear", "increase", "decrease", "number",
        "make_number", "type", "thread", "enter_tracing", "leave_tracing", "none", "long_type", "failed")]


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value if function is not None else None


class Shim:
    """None of its functions raises. Those that record do nothing in a process without a ring."""

    def __init__(self):
        """Raises OSError or AttributeError where the process has no shim, or another version."""
        library = ctypes.PyDLL(None)
        version = library.gordian_torch_version
        version.restype = _u32
        if version() != VERSION:
            raise OSError(f"the shim's version is {version()}, not {VERSION}")
        first = library.gordian_torch_first_call
        first.restype = _u32
        self.calls = {name: first() + place for place, name in enumerate(_CALLS)}
        for name, (result, parameters) in _SIGNATURES.items():
            function = getattr(library, "gordian_torch_" + name)
            function.restype = result
            function.argtypes = parameters
            setattr(self, name, function)
        python = ctypes.pythonapi
        functions = _Functions(
            _address(python.PyTuple_GetItem), _address(python.PyObject_Call),
            _address(python.PyObject_CallFunctionObjArgs), _address(python.PyErr_Fetch),
            _address(python.PyErr_Restore), _address(python.PyErr_Clear),
            _address(python.Py_IncRef), _address(python.Py_DecRef),
            _address(python.PyLong_AsUnsignedLongLongMask),
            _address(python.PyLong_FromUnsignedLongLong), _address(python.PyObject_Type),
            *(_address(getattr(python, name, None)) for name in (
                "PyThreadState_Get", "PyThreadState_EnterTracing", "PyThreadState_LeaveTracing")),
            id(None), id(int), id(FAILED))
        library.gordian_torch_python(ctypes.byref(functions))
        self._call = _address(library.gordian_torch_call)
        self._method = _address(library.gordian_torch_method)
        self._make = python.PyCFunction_NewEx
        self._make.restype = ctypes.py_object
        self._make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        self._bind = python.PyInstanceMethod_New
        self._bind.restype = ctypes.py_object
        self._bind.argtypes = (ctypes.py_object,)
        self._kept = []  # what the interpreter's objects point to
        for name in ("operation", "wait", "waited"):
            setattr(self, name, self._direct(name, _address(getattr(library, "gordian_torch_py_" + name))))

    def _direct(self, name, address):
        """The function at the address, of a tuple of numbers."""
        varargs = 1
        method = _Method(name.encode(), address, varargs, None)
        self._kept.append(method)
        return self._make(ctypes.addressof(method), None, None)

    def around(self, before, function, after, name, seen=False):
        """A function in C that calls `function`, and the others as python_call.cc says. `seen`: C++ may
        see what it does (gordian_torch_method)."""
        varargs, keywords = 1, 2
        call = self._method if seen else self._call
        method = _Method(name.encode(), call, varargs | keywords, None)
        self._kept.append(method)
        return self._make(ctypes.addressof(method), (before, function, after), None)

    def method_around(self, before, function, after, name, seen=False):
        """The same for an attribute of a class: it is called with the object."""
        return self._bind(self.around(before, function, after, name, seen))
