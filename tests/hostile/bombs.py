#!/usr/bin/env python3
"""Files of less than 1 MB that expand, or stand for, more than any job: traces, dumps, sessions, tables, configurations.
None costs the verb that reads it more than 256 MiB or 5 s, and what is refused is refused in one line.

  bombs.py BUILD_FOLDER [--figures]

Builds the traces by hand: protobuf's wire format, zstd by its library, the frames of common/framed_file.h.
"""
import ctypes
import ctypes.util
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from wire import field, number

MOST_BYTES = 256 << 20
MOST_SECONDS = 5
FILE_BYTES = 1 << 20


def zstd():
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    library.ZSTD_compress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    return library


ZSTD = zstd()


def frame(contents, pad=0):
    room = ZSTD.ZSTD_compressBound(len(contents))
    out = ctypes.create_string_buffer(room)
    size = ZSTD.ZSTD_compress(out, room, contents, len(contents), 3)
    packed = out.raw[:size]
    if len(packed) < pad:  # a skippable frame: what is larger may expand further
        packed += struct.pack("<II", 0x184D2A50, pad - len(packed)) + bytes(pad - len(packed))
    return struct.pack("<II", len(packed), zlib.crc32(packed)) + packed


HEADER = field(1, number(1, 2) + number(8, 7))
EVENT = {"process_started": 1, "process_ended": 2, "module": 3, "call_name": 4, "round": 6, "node_joined": 8,
         "clock_offset": 9, "node_state": 10, "stacks_taken": 13, "records": 15}


def event(kind, contents=b""):
    return field(2, field(EVENT[kind], contents))


def process(i, more=b""):
    return event("process_started", number(1, i) + number(2, i) + more)


def record(kind, call, order, payload, thread=1):
    return struct.pack("<BBHIQQQ", kind, 0, call, thread, order, 1000 + order, 0) + payload.ljust(32, b"\0")


def records(of, all_of_them):
    return event("records", number(1, of) + number(2, 7) + field(3, b"".join(all_of_them)))


def init(comm, nranks, rank):
    return struct.pack("<IiiiQIi", comm, nranks, rank, 0, comm, 0, 0)


def operation(comm, sequence):
    return struct.pack("<IIQQiBBH", comm, 1, 1, sequence, -1, 7, 0, 0)


CALLS = event("call_name", number(1, 1) + field(2, b"ncclCommInitRank")) + \
    event("call_name", number(1, 2) + field(2, b"ncclAllReduce"))


def many(count, make):
    return b"".join(make(i) for i in range(count))


def in_chunks(contents, bytes_each, times, pad=0):
    one = frame(contents * max(1, bytes_each // len(contents)), pad)
    return one * min(times, max(1, (FILE_BYTES - 4096) // len(one)))


# Each: the chunks behind the first one.
BOMBS = {
    "empty events in one chunk": lambda: frame(field(2, b"") * 100_000_000),
    "empty events in many chunks": lambda: in_chunks(field(2, b""), 1 << 20, 10_000),
    "empty events, padded": lambda: frame(field(2, b"") * 50_000_000, pad=FILE_BYTES - 4096),
    "states of no process": lambda: frame(event("round", number(1, 1) + field(4, b"") * 60_000_000)),
    "states of no process, padded": lambda: frame(event("round", number(1, 1) + field(4, b"") * 60_000_000),
                                                  pad=FILE_BYTES - 4096),
    "threads of a state": lambda: in_chunks(process(1) + event("round", number(1, 1) + field(4, number(1, 1) + field(
        5, b"") * 450_000)), 1, 1_000),
    "threads that are others in each round": lambda: frame(process(1) + b"".join(event("round", number(1, r + 1) + field(
        4, number(1, 1) + number(2, 1) + b"".join(field(5, number(2, (r << 16) + i + 1)) for i in range(60_000))))
        for r in range(12))),
    "one long text": lambda: frame(event("call_name", number(1, 1) + field(2, b"x" * 200_000_000))),
    "processes": lambda: frame(many(200_000, lambda i: process(i + 1))),
    "processes with settings": lambda: frame(many(60_000, lambda i: process(i + 1, field(15, b"NCCL_A=b") * 10))),
    "modules": lambda: frame(many(150_000, lambda i: event("module", number(1, i) + number(2, 16 * i) + number(
        3, 16 * i + 16) + field(5, b"/x")))),
    "names of calls": lambda: frame(many(65_536, lambda i: event("call_name", number(1, i) + field(2, b"y" * 500)))),
    "nodes": lambda: frame(many(300_000, lambda i: event("node_joined", number(1, i) + field(2, b"n")))),
    "node states": lambda: frame(many(300_000, lambda i: event("node_state", number(1, i) + number(2, 4)))),
    "clocks": lambda: frame(many(300_000, lambda i: event("clock_offset", number(1, i % 4096) + number(2, i)))),
    "stacks": lambda: frame(many(100_000, lambda i: event("stacks_taken", number(1, i) + field(4, number(1, i) + field(
        3, b"") * 3)))),
    "large communicators": lambda: frame(CALLS + process(1) + records(1, (
        record(1, 1, i + 1, init(i + 1, 131_072, 0)) for i in range(20_000)))),
    "large operations": lambda: frame(CALLS + process(1) + records(1, [record(1, 1, 1, init(1, 131_072, 0)), *(
        record(1, 2, i + 2, operation(1, i)) for i in range(20_000))])),
    "communicators": lambda: frame(CALLS + process(1) + records(1, (
        record(1, 1, i + 1, init(i + 1, 2, 0)) for i in range(100_000)))),
    "operations without an end": lambda: frame(CALLS + process(1) + records(1, [record(1, 1, 1, init(1, 2, 0)), *(
        record(1, 2, i + 2, operation(1, i)) for i in range(45_000))])),
    "records that leave gaps": lambda: frame(CALLS + process(1) + records(1, (
        record(1, 2, 2 * i + 2, operation(1, i)) for i in range(100_000)))),
    "threads": lambda: frame(CALLS + process(1) + records(1, (
        record(1, 2, i + 1, operation(1, i), thread=i + 1) for i in range(50_000)))),
}


MANY = 1_000_000
PICKLES = {
    "a pickle of nothings": b"\x80\x02(" + b"N" * MANY + b"t.",
    "a pickle of lists": b"\x80\x02(" + b"]" * MANY + b"t.",
    "a pickle of dictionaries": b"\x80\x02(" + b"}" * MANY + b"t.",
    "a pickle of tuples": b"\x80\x02(" + b"N\x85" * (MANY // 2) + b"t.",
    "a pickle that is one deep tuple": b"\x80\x02N" + b"\x85" * MANY + b".",
    "a pickle's memo": b"\x80\x04]" + b"\x94" * MANY + b".",
    "a pickle's far memo": b"\x80\x02]" + b"".join(b"r" + struct.pack("<I", 7 * i + 1000) for i in range(200_000)) + b".",
    "a pickle's marks": b"\x80\x02" + b"(" * MANY + b".",
    "a list in itself": b"\x80\x02]q\x00" + b"h\x00a" * (MANY // 3) + b".",
    "a pickle that calls": b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR.",
    "a pickle that builds": b"\x80\x02c__builtin__\nobject\n)\x81}b.",
    "deep JSON": b'{"entries":' + b"[" * 900_000,
    "JSON of lists": b'{"entries":[' + b"[]," * 330_000 + b"0]}",
}
DEEP = b"[" * 400_000 + b"]" * 400_000
DEEP_OBJECTS = b'{"a":' * 150_000 + b"1" + b"}" * 150_000


def verdict(more):
    return b'{"schema":"gordian.verdict.v1","verdict":"deadlock",' + more + b"}"


# Each: the file, what is in it, and the arguments of gordian, of which FILE becomes its path and FOLDER that of its folder.
SESSION_FILES = {
    "a deep manifest": ("manifest.json", b'{"ring_dir":"/x","ranks":' + DEEP + b"}"),
    "a manifest of objects": ("manifest.json", b'{"ring_dir":"/x","ranks":' + DEEP_OBJECTS + b"}"),
    "a manifest of lists": ("manifest.json", b'{"ring_dir":[' + b"[]," * 330_000 + b"0]}"),
    "a deep verdict": ("verdict.json", verdict(b'"findings":' + DEEP)),
    "a verdict of findings": ("verdict.json", verdict(b'"findings":[' + b"{}," * 330_000 + b"{}]")),
}
OTHERS = {
    "a deep table": ("a.json", b'{"buckets":' + DEEP + b"}", ["plan", "FILE"]),
    "a table of nothings": ("a.json", b'{"buckets":[' + b"{}," * 330_000 + b"{}]}", ["plan", "FILE"]),
    "a table of rows": ("a.csv", b"forward_us,backward_us,comm_us,elements\n" + b"1,1,1,1\n" * 100_000,
                        ["plan", "FILE"]),
    "a table of many ranks": ("a.json", b'{"ranks":[' + b"[]," * 330_000 + b"[]]}", ["plan", "FILE"]),
    "a table of buckets": ("a.json", b'{"buckets":[' + b'{"forward_us":1,"backward_us":1,"comm_us":1},' * 20_000 +
                           b'{"forward_us":1,"backward_us":1,"comm_us":1}]}', ["plan", "FILE"]),
    "a table of one row": ("a.csv", b"name," * 200_000, ["plan", "FILE"]),
    "a deep configuration": ("a.json", DEEP, ["simulate", "FILE"]),
    "a sweep": ("a.json", b"[" + b"{}," * 330_000 + b"{}]", ["simulate", "FILE"]),
    "a deep baseline": ("a.json", b'{"schema":"gordian.predict.v1","predicted":' + DEEP + b"}",
                        ["predict", "--baseline", "FILE", "FILE"]),
    "a TOML of dotted keys in lists": ("a.toml", b"a=" + b"[{" + b"a.a={" * 150 + b"a=1" + b"}" * 151 + b"]",
                                       ["simulate", "FILE"]),
    "a deep TOML": ("a.toml", b"a=" + DEEP, ["simulate", "FILE"]),
    "a TOML of dots behind five quotes": ("a.toml", b'a = {x = """y""""", b' + b".b" * 400_000 + b"=1}", ["simulate", "FILE"]),
    "a TOML of dots behind four quotes": ("a.toml", b"a = {x = '''y'''', b" + b".b" * 400_000 + b"=1}", ["simulate", "FILE"]),
    "a TOML of tables": ("a.toml", b"".join(b"[t%d]\n" % i for i in range(100_000)), ["simulate", "FILE"]),
    "a TOML of dotted keys": ("a.toml", b"a" + b".a" * 400_000 + b"=1", ["simulate", "FILE"]),
}
FILES = {name: ("trace.gtrace", lambda make=make: b"GTRACE1\n" + frame(HEADER) + make(), ["analyze", "FILE"])
         for name, make in BOMBS.items()}
FILES |= {name: ("nccl_trace_rank_0", lambda bytes_=bytes_: bytes_, ["analyze", "FILE"])
          for name, bytes_ in PICKLES.items()}
FILES |= {f"{name}, {verb}": (file, lambda bytes_=bytes_: bytes_, [verb, "FOLDER"])
          for name, (file, bytes_) in SESSION_FILES.items() for verb in ("explain", "status", "analyze")}
FILES |= {name: (file, lambda bytes_=bytes_: bytes_, arguments) for name, (file, bytes_, arguments) in OTHERS.items()}


def slowness():
    """How many times as long as usual this machine takes for fresh memory, which is what reading a bomb takes most."""
    usual_s = 0.05  # for 96 MiB in blocks of 8 KiB
    started = time.monotonic()
    blocks = [bytearray(8192) for _ in range(12000)]
    return max(1.0, (time.monotonic() - started) / usual_s) if blocks else 1.0


def run(gordian, arguments, path):
    """Exit code, bytes at the most, seconds, what it said."""
    places = {"FILE": path, "FOLDER": os.path.dirname(path)}
    begin = time.monotonic()
    child = subprocess.Popen([gordian, *(places.get(word, word) for word in arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)))
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss << 10, time.monotonic() - begin, said


def main():
    gordian = os.path.join(os.path.abspath(sys.argv[1]), "bin", "gordian")
    figures = "--figures" in sys.argv
    failed, worst_bytes, worst_seconds, slow = 0, 0, 0.0, slowness()
    for name, (file, make, arguments) in FILES.items():
        with tempfile.TemporaryDirectory(prefix="gordian-bombs-") as work:
            path = os.path.join(work, file)
            contents = make()
            with open(path, "wb") as f:
                f.write(contents)
            code, taken, seconds, said = run(gordian, arguments, path)
            wrong = []
            if len(contents) > FILE_BYTES:
                wrong.append(f"the test is wrong: {len(contents)} bytes")
            if code not in (0, 1, 2, 3):
                wrong.append(f"exit code {code}")
            if code == 2 and said.count("\n") != 1:
                wrong.append("more than one line")
            if taken > MOST_BYTES:
                wrong.append("too much memory")
            if seconds > MOST_SECONDS * slow:
                wrong.append("too long")
            worst_bytes, worst_seconds = max(worst_bytes, taken), max(worst_seconds, seconds)
            failed += bool(wrong)
            if wrong or figures:
                print(f"{'FAILED' if wrong else 'passed'} {name}: {len(contents) >> 10} KiB, rc {code}, {taken >> 20} MiB, "
                      f"{seconds:.1f} s {'; '.join(wrong)}\n    {said.splitlines()[0][:160] if said else ''}", flush=True)
    print(f"{len(FILES)} tried, {len(FILES) - failed} survived; worst {worst_bytes >> 20} MiB, {worst_seconds:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
