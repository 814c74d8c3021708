#!/usr/bin/env python3
"""Python's ctypes under gordian is ctypes as it was: results, types, errors and tracebacks.

  ctypes_lines.py BUILD_FOLDER [Class.test...]
"""
import os
import re
import subprocess
import sys

from cli_testing import EMULATOR, CliTest, clean_environment, main

PROGRAM = """
import ctypes, pickle, sys, threading, traceback
nccl = ctypes.CDLL("libnccl.so.2")
cuda = ctypes.CDLL("libcudart.so.13", use_errno=True)
libc = ctypes.CDLL(None)
version = ctypes.c_int()
print(nccl.ncclGetVersion(ctypes.byref(version)), version.value > 20000)
nccl.ncclGetErrorString.restype = ctypes.c_char_p
print(nccl.ncclGetErrorString(0), nccl["ncclGetVersion"](None), nccl.ncclGetErrorString.restype)
function = nccl.ncclGetErrorString
print(function is nccl.ncclGetErrorString, isinstance(function, nccl._FuncPtr), function.__name__, bool(function))
print(type(function).__name__, type(function).__qualname__, type(function).__module__, libc.getpid() > 0)
function.argtypes = [ctypes.c_int]
def check(result, function, arguments):
    return result + b"!" + str(arguments).encode()
function.errcheck = check
print(function(0), ctypes.cast(function, ctypes.c_void_p).value == ctypes.cast(nccl["ncclGetErrorString"], ctypes.c_void_p).value)
thread = threading.Thread(target=lambda: print(function(1)))
thread.start(); thread.join()
for mistake in (lambda: nccl.ncclNoSuch, lambda: nccl["ncclNoSuch"], lambda: function("a"), lambda: function(),
                lambda: function(0, wrong=1), lambda: nccl[10 ** 9], lambda: cuda.cudaNoSuch(1), lambda: pickle.dumps(function)):
    try:
        print(mistake())
    except Exception:
        traceback.print_exc(file=sys.stdout)
print(cuda.cudaGetLastError(), ctypes.get_errno())
prototype = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)
print(prototype(("ncclGetErrorString", nccl))(2))
sys.stdout.flush()
function(object())
"""


class Same(CliTest):
    def test_as_without(self):
        self.need(os.path.join(EMULATOR, "libnccl.so.2"))
        self.write("program.py", PROGRAM)
        command = [sys.executable, self.path("program.py")]
        alone = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=self.work,
                               env=clean_environment(LD_LIBRARY_PATH=EMULATOR))
        self.assertEqual(alone.returncode, 1, alone.stderr)
        self.assertIn("ArgumentError", alone.stderr)
        done = self.gordian("run", "--emulator", "--session", "s", "--", *command)
        self.maxDiff = None

        def lines(text):  # without addresses
            return [re.sub("0x[0-9a-f]+", "0x", line) for line in text.splitlines() if not line.startswith("gordian: ")]
        self.assertEqual(lines(done.stdout), lines(alone.stdout))
        self.assertEqual(lines(done.stderr), lines(alone.stderr))
        self.assertEqual(done.returncode, alone.returncode)


if __name__ == "__main__":
    main()
