"""Names the line of the job that made a call, by a number that the shim's records hold."""

import itertools
import os
import sys

_TEXT_SITE = 1 << 63  # kTextSite of proto/ring/record.h
_WRITTEN = ("<frozen", "<eval_with_key>")
_INDUCTOR = "torchinductor_"  # in the folder of the code that Inductor writes
_FOR_JOBS = ("/gordian/torch/plan.py", "/gordian/torch/measure.py")  # stand between a job and PyTorch


def site_of(line):
    """The records' number of a line that `line_of` has given; 0: none."""
    return _TEXT_SITE | line if line else 0


class Sites:
    _numbers = itertools.count(1)  # of the process: the shim knows texts by them alone

    def __init__(self, shim, own_folders):
        self._shim = shim
        self._own = tuple(os.path.join(folder, "") for folder in own_folders)
        self._row = shim.calls["site"]
        self._get_frame = sys._getframe
        self._within = ""  # the call of torch.distributed that NCCL's are made in
        self._others = {}  # by their `_within`
        self._codes = {}  # id of a code object -> (it, {instruction: number}); None: PyTorch's own

    def within(self, call):
        """The same, for what NCCL and C++ do in this call of PyTorch."""
        if call not in self._others:
            made = self._others[call] = Sites(self._shim, ())
            made._own, made._within = self._own, call
        return self._others[call]

    def forget(self):
        """In a forked child, whose ring has none of the texts."""
        self._codes.clear()
        for other in self._others.values():
            other.forget()

    def of_caller(self, depth):
        """Of the frame `depth` above the caller of this, or the innermost outside of PyTorch."""
        return self.of_frame(self._get_frame(depth + 1))

    def of_frame(self, frame):
        return site_of(self.line_of(frame))

    def line_of(self, frame):
        """The number without what marks it as one of a text; 0: none."""
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            known = codes.get(id(code), 0)
            if known == 0:
                known = codes[id(code)] = (code, None if self.is_own(code) else {})
            places = known[1]
            if places is None:
                frame = frame.f_back
                continue
            line = places.get(frame.f_lasti)
            if line is None:
                line = places[frame.f_lasti] = self._add(frame)
            return line
        return 0

    def is_own(self, code):
        """Of PyTorch or of gordian, or written by PyTorch's compilers, and not of the job."""
        name = code.co_filename
        return (name.startswith(self._own) or name.startswith(_WRITTEN) or _INDUCTOR in name
                or name.endswith(_FOR_JOBS))

    def _add(self, frame):
        number = next(self._numbers)
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        text = f"{code.co_filename}\n{frame.f_lineno or 0}\n{name}\n{self._within}".encode("utf-8", "replace")
        self._shim.text(self._row, _TEXT_SITE | number, text, len(text))
        return number
