"""A backward pass: its hooks issue operations with no call of Python, or in a thread of its own."""

import _thread

hooks = []
engine_hooks = []


def _engine(done):
    for hook in engine_hooks:
        hook()
    done.release()


def backward():
    for hook in hooks:
        hook()
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(_engine, (done,))
    done.acquire()
