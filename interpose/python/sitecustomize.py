"""Loads gordian's front ends: for PyTorch when a process imports torch.distributed, and for calls of
NCCL and CUDA through ctypes when it imports that.

`gordian run` puts this folder in front of PYTHONPATH, so that Python runs this file at its start. It
hands on to the user's own sitecustomize at once. A process that imports neither pays for a look into
a table an import.
"""

import os
import sys


def _torch(module):
    from gordian_torch import front_end

    front_end.install(module)


def _ctypes(module):
    from gordian_torch import ctypes_lines

    ctypes_lines.install()


class _Finder:
    """Stands first in sys.meta_path until all modules that are waited for have been imported."""

    wanted = {"torch.distributed.distributed_c10d": (_torch, "PyTorch's calls"),
              "ctypes": (_ctypes, "the lines that call through ctypes")}

    def find_spec(self, name, path=None, target=None):
        if name not in self.wanted:
            return None
        install, what = self.wanted.pop(name)
        if not self.wanted:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        else:
            return None
        run = getattr(spec.loader, "exec_module", None)
        if run is None:
            return spec

        def exec_module(module):
            run(module)
            try:
                install(module)
            except Exception as error:  # the job goes on unseen
                try:
                    sys.stderr.write(f"gordian: {what} are not visible: {error!r}\n")
                except Exception:
                    pass

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass
        return spec


def _hand_on():
    """Runs the sitecustomize that Python would have run without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec(
        "sitecustomize", [entry for entry in sys.path if os.path.abspath(entry or ".") != here])
    if spec is None or spec.loader is None:
        return
    own = sys.modules.get("sitecustomize")
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = own
        raise


if os.environ.get("GORDIAN_TORCH", "1") != "0":
    sys.meta_path.insert(0, _Finder())
_hand_on()
