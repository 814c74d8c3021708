#!/usr/bin/env python3
"""The slow side of bench_circles: NetworkX's find_cycle on wait-for graphs.

  find_cycle.py LIMIT FILE...

A file holds little-endian 32-bit numbers: nodes, edges, then the two ends of each edge. Prints a line for each: seconds
of processor time of the search (median of three; one that takes long is not repeated), edges of the circle that was
found (0: there is none; -1: the search was broken off after LIMIT seconds). Making NetworkX's graph of the file is not
counted.
"""

import array
import signal
import statistics
import sys
import time

import networkx


def read(path):
    numbers = array.array("I")
    with open(path, "rb") as f:
        numbers.frombytes(f.read())
    if sys.byteorder == "big":
        numbers.byteswap()
    nodes, edges = numbers[0], numbers[1]
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(zip(numbers[2 : 2 + 2 * edges : 2], numbers[3 : 3 + 2 * edges : 2]))
    return graph


class TooLong(Exception):
    pass


def break_off(*_):
    raise TooLong


def search(graph, limit):
    begin = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        edges = len(networkx.find_cycle(graph))
    except networkx.NetworkXNoCycle:
        edges = 0
    except TooLong:
        edges = -1
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.thread_time() - begin, edges


def main():
    limit = float(sys.argv[1])
    signal.signal(signal.SIGVTALRM, break_off)
    for path in sys.argv[2:]:
        graph = read(path)
        runs = [search(graph, limit)]
        while len(runs) < 3 and runs[0][0] < 1:
            runs.append(search(graph, limit))
        print(statistics.median(seconds for seconds, _ in runs), runs[0][1], flush=True)


if __name__ == "__main__":
    main()
