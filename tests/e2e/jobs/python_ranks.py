"""Ranks in Python: python_ranks.py LIBRARY RANKS [--twin | --lock | --lock-twin]. Without any the last rank waits for a
batch that never comes instead of joining the last all-reduce; with --lock, another thread of it waits in native code
for ever and keeps the interpreter's lock meanwhile, which with --lock-twin it lets go of."""
import ctypes
import os
import sys
import tempfile
import threading


class Loader:
    def __init__(self, comes):
        self.ready = threading.Event()
        if comes:
            self.ready.set()

    def next_batch(self):
        self.ready.wait()
        return 1


class Trainer:
    def __init__(self, library, rank, ranks, folder):
        self.rank, self.library = rank, library
        path = os.path.join(folder, "id")
        size = library.rank_id_bytes()
        if rank == 0:
            made = ctypes.create_string_buffer(size)
            assert library.rank_make_id(made) == 0
            with open(path + ".new", "wb") as f:
                f.write(made.raw)
            os.rename(path + ".new", path)
        while not os.path.exists(path):
            threading.Event().wait(0.01)
        with open(path, "rb") as f:
            assert library.rank_init(ranks, f.read(), rank) == 0

    def step(self, batch):
        assert self.library.rank_all_reduce() == 0
        self.finish()

    def finish(self):
        assert self.library.rank_synchronize() == 0


def run(rank, ranks, folder, library, twin):
    trainer = Trainer(ctypes.CDLL(library), rank, ranks, folder)
    trainer.step(0)
    if rank == ranks - 1 and ("--lock" in sys.argv or "--lock-twin" in sys.argv):
        libc = ctypes.PyDLL(None) if "--lock" in sys.argv else ctypes.CDLL(None)
        threading.Thread(target=libc.pause, daemon=True).start()
    loader = Loader(twin or rank != ranks - 1)
    trainer.step(loader.next_batch())
    assert trainer.library.rank_end() == 0


def main():
    library, ranks = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks):
            pid = os.fork()
            if pid == 0:
                os.environ["RANK"] = str(rank)
                run(rank, ranks, folder, library, "--twin" in sys.argv or "--lock" in sys.argv or "--lock-twin" in sys.argv)
                os._exit(0)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    sys.exit(max(codes, key=abs))


main()
