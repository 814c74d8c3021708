#include "replayer/write/torch_writer_scaffold.h"

namespace gordian::replayer {

const std::string_view kTorchBeforeRanks = R"py(

def data(count, dtype):
    """What an operation sends: `count` elements."""
    return SENT[:count * dtype.itemsize].view(dtype)


def result(count, dtype):
    """Where it receives."""
    return RECEIVED[:count * dtype.itemsize].view(dtype)


def on(stream):
    return torch.cuda.stream(stream)
)py";

const TorchHelper kTorchHelpers[] = {
    {"transfer(", R"py(

def transfer(group, stream, *operations):
    """Sends and receives in one group of NCCL; the stream waits for them, the host does not."""
    with on(stream):
        works = dist.batch_isend_irecv([dist.P2POp(call, buffer, peer, group) for call, buffer, peer in operations])
        for work in works:
            work.wait()
)py"},
    {"connect(", R"py(

def connect(group):
    """The first use of a communicator connects its members, and waits for all of them."""
    dist.all_reduce(data(1, torch.float32), group=group)
    torch.cuda.synchronize()
)py"},
    {"connect_pair(", R"py(

def connect_pair(group, source, target):
    """So does the first transfer between two of them."""
    if dist.get_rank() in (source, target):
        sends = dist.get_rank() == source
        buffer = data(1, torch.float32) if sends else result(1, torch.float32)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if sends else dist.irecv, buffer, target if sends else source, group)]):
            work.wait()
        torch.cuda.synchronize()
)py"},
    {"poll(", R"py(

def poll(query):
    while not query():
        time.sleep(0.0001)
)py"},
    {"sleep_for_ever(", R"py(

def sleep_for_ever():
    """In the recorded job the thread ran its own code here, and made no further call."""
    while True:
        time.sleep(3600)
)py"},
    {"compute_for_ever(", R"py(

def compute_for_ever():
    """In the recorded job the thread ran its own code here, and made no further call."""
    while True:
        pass
)py"},
    {"reach(", R"py(

def reach(mark):
    MARKS[mark].set()


def await_mark(mark):
    """Forces the recorded order between threads: waits until another thread reaches the mark."""
    if not OPTIONS.free:
        MARKS[mark].wait()
)py"},
};
const int kTorchHelperCount = sizeof kTorchHelpers / sizeof kTorchHelpers[0];

const std::string_view kTorchAfterRanks = R"py(

def where(thread):
    """The line of this file, outside of its helpers, that a thread is in; of main only where it has left its rank_
    function. None once the thread has ended."""
    frame, line = sys._current_frames().get(thread.ident), None
    while frame is not None:
        name = frame.f_code.co_name
        if name.startswith("rank_") or (name == "main" and line is None):
            line = frame.f_lineno
        frame = frame.f_back
    return line


def watch(patience):
    """Ends this rank with a report when all its threads have stayed where they are."""
    last, since = None, time.monotonic()
    while True:
        time.sleep(0.05)
        threads = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
        now = [(thread.name, where(thread)) for thread in threads]
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > patience:
            lines = [f"rank {dist.get_rank()}, {name}: line {line}: {linecache.getline(__file__, line).strip()}\n"
                     for name, line in now if line is not None]
            sys.stderr.write(f"replay: reproduced: rank {dist.get_rank()} has made no step for {patience:g} s\n" + "".join(lines))
            sys.stderr.flush()
            os._exit(42)


def main():
    global OPTIONS, SENT, RECEIVED
    parser = argparse.ArgumentParser()
    parser.add_argument("--free", action="store_true", help="do not force the recorded order between threads")
    parser.add_argument("--patience", type=float, default=20, help="seconds without a step that count as a hang")
    OPTIONS = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if int(os.environ["WORLD_SIZE"]) != len(RANKS):
        sys.exit(f"replay: needs {len(RANKS)} ranks: torchrun --nproc-per-node={len(RANKS)}")
    dist.init_process_group("nccl", device_id=device)
    SENT = torch.zeros(BUFFER_BYTES, dtype=torch.uint8, device=device)
    RECEIVED = torch.zeros(BUFFER_BYTES, dtype=torch.uint8, device=device)
    threading.Thread(target=watch, args=(OPTIONS.patience,), name="watch", daemon=True).start()
    make_groups()
    RANKS[dist.get_rank()]()
    torch.cuda.synchronize()
    sys.stdout.flush()
    os._exit(0)  # without a word to NCCL: others may still be stuck


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(3)
)py";

}  // namespace gordian::replayer
