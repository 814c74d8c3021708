import contextlib
import threading

import torch

_here = threading.local()
_streams = 0


class Stream:
    def __init__(self, name=None):
        global _streams
        _streams += name is None
        self.name = name or f"stream{_streams}"

    def synchronize(self):
        torch._note("Stream.synchronize", self.name)

    def wait_event(self, event):
        torch._note("wait_event", self.name, event.name)

    def query(self):
        torch._note("Stream.query", self.name)
        return True


_default = Stream("default")


def _current():
    return getattr(_here, "stream", _default)


@contextlib.contextmanager
def stream(of):
    before = _current()
    _here.stream = of
    try:
        yield
    finally:
        _here.stream = before


def default_stream():
    return _default


class Event:
    _made = 0

    def __init__(self):
        Event._made += 1
        self.name = f"event{Event._made}"

    def record(self, on):
        torch._note("record", on.name, self.name)

    def synchronize(self):
        torch._note("Event.synchronize", self.name)

    def query(self):
        torch._note("Event.query", self.name)
        return True


class CUDAGraph:
    def capture_begin(self, capture_error_mode):
        torch._note("capture_begin", capture_error_mode)

    def capture_end(self):
        torch._note("capture_end")

    def replay(self):
        torch._note("replay")


def set_device(device):
    pass


def synchronize():
    torch._note("synchronize")


def empty_cache():
    torch._note("empty_cache")
