"""dl2's Inception-V3: blocks of four concurrent branches whose convolutions are tensor parallel, scheduled in a random
order that is the same at all ranks, or another at some.

A branch has a communicator of its own, or one for all; a stream of its own, or one for all: what is on its own
stream and communicator may be scheduled in any order, and such jobs end whatever the order.
"""

import job as jobs
import mutations
from program import Program

SIZES = [2, 4, 6, 8]
BRANCHES = {"b1x1": 1, "b5x5": 2, "b3x3dbl": 3, "pool": 1}  # convolutions


class Inception:
    COUNT = 64
    name = "dl2_inception"

    def job(self, index, random):
        ranks = SIZES[index % 4]
        p = Program(ranks)
        own_comms = random.random() < 0.7
        own_streams = random.random() < 0.5
        names = sorted(BRANCHES)
        world = p.comm("world", range(ranks))
        comms = {name: p.comm(name, range(ranks)) if own_comms else world for name in names}
        streams = {name: 1 + i if own_streams else 0 for i, name in enumerate(names)}
        p.init_all()
        for name in sorted(set(comms.values())):  # connected once in one order, as by a warm-up
            p.everywhere("warm", "all_reduce", name, 0, 8)
        for rank in range(ranks):
            p.add(rank, "warm.sync", "stream_sync", stream=0)
        orders = []
        for block in range(random.randint(2, 3)):
            order = names[:]
            random.shuffle(order)
            orders.append(order)
            for rank in range(ranks):
                for name in order:
                    if own_streams:
                        p.add(rank, f"k{block}.{name}.fork", "stream_wait", event=10 * block, stream=streams[name])
                    for conv in range(BRANCHES[name]):
                        p.add(rank, f"k{block}.{name}.conv{conv}", "kernel", stream=streams[name], us=20)
                        p.collective(rank, f"k{block}.{name}.out{conv}", "all_reduce", comms[name], streams[name],
                                     64 * (1 + names.index(name)))
                if own_streams:
                    for name in names:
                        event = 10 * block + 1 + names.index(name)
                        p.add(rank, f"k{block}.join.{name}", "event_record", event=event, stream=streams[name])
                        p.add(rank, f"k{block}.joined.{name}", "stream_wait", event=event, stream=0)
                    p.add(rank, f"k{block}.end", "event_record", event=10 * (block + 1), stream=0)
                p.collective(rank, f"k{block}.concat", "all_gather", world, 0, 32)
        for rank in range(ranks):
            p.add(rank, "end.sync", "device_sync")
        current, made = p, []
        if random.random() < 0.9:
            block = random.randrange(len(orders))
            rank = random.randrange(ranks)
            order = names[:]
            while order == orders[block]:
                random.shuffle(order)
            detail = {"order": order}
            current = p.copy()
            label = f"k{block}.{orders[block][0]}.out0"
            found = current.find(rank, label)
            mutations.MUTATIONS["branches"](current, rank, found[0], found[1], detail)
            made.append(mutations.Mutation("branches", rank, label, detail))
        return jobs.Job(self.name, index, p, current, made)


FAMILIES = {"dl2_inception": Inception()}
