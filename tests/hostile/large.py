#!/usr/bin/env python3
"""A trace of ten million records, of 8 ranks that all-reduce step after step, is analyzed in 1 GiB:

  large.py BUILD_FOLDER [RECORDS]
"""
import os
import struct
import sys
import tempfile

import bombs
from wire import field, number

RANKS = 8
STEPS_A_CHUNK = 256
BEGIN, END = 1, 2
MOST_BYTES = 1 << 30


def chunk(first, steps):
    """Steps of every rank: an all-reduce each, which begins and ends."""
    contents = []
    for rank in range(RANKS):
        records = []
        for step in range(first, first + steps):
            order, at = 3 + 2 * step, 1_000_000 + 1000 * step
            records.append(struct.pack("<BBHIQQQ", BEGIN, 0, 2, 1, order, at, 0) + bombs.operation(1, step).ljust(32, b"\0"))
            records.append(struct.pack("<BBHIQQQ", END, 0, 2, 1, order + 1, at + 500, 0) +
                           struct.pack("<iIQIiii", 0, 1, step + 1, 1, RANKS, rank, 0))
        contents.append(bombs.records(rank + 1, records))
    done = first + steps
    states = b""
    for rank in range(RANKS):
        thread = number(1, 1) + number(2, 100 + rank) + number(4, 2 * done + 2) + number(9, 2 * done + 2)
        stream = number(1, 1) + number(2, done) + number(3, done) + number(4, done)
        states += field(4, number(1, rank + 1) + number(2, 1) + number(4, 1) + field(5, thread) + field(6, stream) +
                        number(12, done + 1))
    at = 1_000_000 + 1000 * done
    contents.append(bombs.event("round", number(1, 1 + first // steps) + number(2, at) + number(3, at + 100) + states))
    return bombs.frame(b"".join(contents))


def main():
    gordian = os.path.join(os.path.abspath(sys.argv[1]), "bin", "gordian")
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    with tempfile.TemporaryDirectory(prefix="gordian-large-") as work:
        path = os.path.join(work, "trace.gtrace")
        written = 0
        with open(path, "wb") as f:
            f.write(b"GTRACE1\n" + bombs.frame(bombs.HEADER))
            started = b"".join(bombs.process(r + 1, number(5, 2 * r) + number(6, 2 * RANKS)) for r in range(RANKS))
            begins = b"".join(bombs.records(r + 1, [bombs.record(BEGIN, 1, 1, bombs.init(1, RANKS, r)),
                                                    bombs.record(END, 1, 2, struct.pack("<iIQIiii", 0, 0, 0, 1, RANKS, r, 0))])
                              for r in range(RANKS))
            f.write(bombs.frame(bombs.CALLS + started + begins))
            step = 0
            while written < wanted:
                f.write(chunk(step, STEPS_A_CHUNK))
                step += STEPS_A_CHUNK
                written += 2 * RANKS * STEPS_A_CHUNK
            f.write(bombs.frame(field(2, field(7, b""))))
        packed = os.path.getsize(path)
        code, taken, seconds, said = bombs.run(gordian, ["analyze", "FILE", "--json"], path)
    print(f"{written:,} records in {packed >> 20} MiB: rc {code}, {taken >> 20} MiB of memory, {seconds:.1f} s")
    if code not in (0, 1, 3) or f'"records": {written + 2 * RANKS}' not in said:
        print("FAILED: not all records were read\n" + said[:2000])
        return 1
    if taken > MOST_BYTES:
        print(f"FAILED: more than {MOST_BYTES >> 20} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
