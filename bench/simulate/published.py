#!/usr/bin/env python3
"""The published simulation (arXiv 2303.06324, section 2.4) in Python, written anew from its description: the
slow side of bench_simulate S5, and a check of it, since both draw from CPython's random stream.

  published.py CONFIG.json ROUNDS       prints: deadlocks, rounds, seconds of processor time

One object a GPU with lists and sets, one random() a coin, as the algorithm is described; it is not the
published program, whose speed this does not claim to be.
"""

import json
import random
import sys
import time


class Gpu:
    def __init__(self, canonical):
        self.canonical = canonical

    def reset(self):
        self.remaining = list(self.canonical)
        self.unemitted = set(self.canonical)
        self.outstanding = set()
        self.hung = False


class Simulation:
    def __init__(self, config):
        self.p = config["disorder_prob"]
        self.q = config.get("sync_prob", 0)
        self.single = config["model"] == "Single"
        self.limit = config.get("resource_limit", -1)
        if config["grouping_policy"] == "Megatron":
            a, d, s = config["tp_group_size"], config["dp_group_size"], config["pp_group_size"]
            groups, counts = [], []
            for stage in range(s):
                base = stage * a * d
                groups += [[base + t * a + j for j in range(a)] for t in range(d)]
                groups += [[base + t * a + j for t in range(d)] for j in range(a)]
                counts += [config["coll_cnt_per_tp_group"]] * d + [config["coll_cnt_per_dp_group"]] * a
        else:
            groups, counts = config["gpu_per_group"], config["coll_cnt_per_group"]
        self.groups = [set(g) for g in groups]
        gpus = 1 + max(u for g in groups for u in g)
        first, total = [], 0
        for count in counts:
            first.append(total)
            total += count
        self.group_of = [g for g, count in enumerate(counts) for _ in range(count)]
        lists = [[] for _ in range(gpus)]
        for k in range(max(counts)):
            for g, members in enumerate(groups):
                if k < counts[g]:
                    for u in members:
                        lists[u].append(first[g] + k)
        self.groups_of = [[g for g in range(len(groups)) if u in self.groups[g]] for u in range(gpus)]
        self.gpus = [Gpu(canonical) for canonical in lists]

    def emit(self, gpu):
        k = 0
        last = len(gpu.remaining) - 1
        while not (random.random() >= self.p or k == last):
            k += 1
        c = gpu.remaining.pop(k)
        gpu.unemitted.discard(c)
        return c

    def deadlock_by_intersection(self, new):
        outstanding, unemitted = set(), set()
        for gpu in self.gpus:
            if gpu.hung and gpu is not new:
                outstanding |= gpu.outstanding
                unemitted |= gpu.unemitted
        return bool(new.outstanding & unemitted) and bool(new.unemitted & outstanding)

    def over_limit(self, u):
        return any(all(len(self.gpus[m].outstanding) >= self.limit for m in self.groups[g]) for g in self.groups_of[u])

    def round_sync(self):
        arrived = {}
        busy = True
        while busy:
            busy = False
            for u, gpu in enumerate(self.gpus):
                if not gpu.remaining:
                    continue
                busy = True
                if gpu.hung:
                    continue
                if random.random() < self.q:
                    if gpu.outstanding:
                        gpu.hung = True
                        if self.deadlock_by_intersection(gpu):
                            return True
                    continue
                c = self.emit(gpu)
                members = self.groups[self.group_of[c]]
                gpu.outstanding.add(c)
                arrived[c] = arrived.get(c, 0) + 1
                if arrived[c] == len(members):
                    for m in members:
                        other = self.gpus[m]
                        other.outstanding.discard(c)
                        if not other.outstanding:
                            other.hung = False
                if self.limit > 0 and self.over_limit(u):
                    return True
        return False

    def round_single(self):
        current = [[] for _ in self.groups]
        who = [set() for _ in self.groups]
        busy = True
        while busy:
            busy = False
            for u, gpu in enumerate(self.gpus):
                if not gpu.remaining:
                    continue
                busy = True
                c = self.emit(gpu)
                g = self.group_of[c]
                if u in who[g]:
                    continue
                who[g].add(u)
                current[g].append(c)
                if len(set(current[g])) > 1:
                    return True
                if len(who[g]) == len(self.groups[g]):
                    who[g].clear()
                    current[g].clear()
        return False

    def round(self):
        for gpu in self.gpus:
            gpu.reset()
        return self.round_single() if self.single else self.round_sync()


def main():
    with open(sys.argv[1]) as f:
        simulation = Simulation(json.load(f))
    rounds = int(sys.argv[2])
    random.seed(2023)
    begin = time.process_time()
    deadlocks = sum(simulation.round() for _ in range(rounds))
    print(deadlocks, rounds, time.process_time() - begin)


if __name__ == "__main__":
    main()
