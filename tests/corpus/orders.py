"""Healthy jobs of which another order of their threads would deadlock, and twins in which none would.

A job has two or three host threads a rank. Each thread makes items, one a step: calls on communicators of its own. What
an item calls waits, on the device, for what was called before it at its rank: they share a stream, or an event, a wait
of the host or the legacy stream stands between. So a rank's items are a queue in the order in which its threads called
them, and two ranks with two orders may wait for each other. The recorded order is one that all ranks follow.

A guard fixes the recorded order at one rank: threads that are started and joined, a flag, an event that is handed over,
one thread for all. Whether some order that the guards leave open deadlocks is found by trying every one of them on
`ends`, 20 lines that know nothing of gordian. The predictor is never asked.

Jobs that fuse gradients (`Fused`) have one thread, whose calls come in the order in which buckets get ready.
"""

import itertools

from program import Program

SYMMETRIC = ("all_reduce", "all_reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all")
ROOTED = ("broadcast", "reduce")
# How an item waits for what was called before it. The last one: not at all.
SHAPES = ("stream", "device_sync", "free", "events", "legacy", "apart")
GUARDS = ("fork_join", "flag", "event", "one_thread", "late_flag", "poll")
# Guards that leave nothing in the record: a flag that is already there when its thread looks, and one that is polled.
UNSEEN = ("late_flag", "poll")
# They look like guards and are none: an event that no thread has handed over, a flag for every other turn only.
NO_GUARDS = ("stale_event", "half_flag")
MOST_ORDERS = 6000
FIRST_MS, EACH_MS, LAST_MS = 1500, 1000, 1300  # rounds see each thread before it calls, and after


class Call:
    """One operation of all its `members`: job ranks. A transfer has two of them, and `root` sends."""

    def __init__(self, kind, comm, members, root=0, count=64):
        self.kind, self.comm, self.members, self.root, self.count = kind, comm, list(members), root, count

    def awaited(self, rank):
        """Whose starts the end of this call at `rank` waits for."""
        root = self.members[self.root % len(self.members)]
        if self.kind == "broadcast" or self.kind == "transfer":
            return {rank, root}
        if self.kind == "reduce":
            return set(self.members) if rank == root else {rank}
        if self.kind == "exchange":
            return {rank, self.before(rank)}
        return set(self.members)

    def before(self, rank):
        return self.members[self.members.index(rank) - 1]

    def behind(self, rank):
        return self.members[(self.members.index(rank) + 1) % len(self.members)]


class Part:
    """What one thread does: in each step the same calls."""

    def __init__(self, name, comms, calls):
        self.name, self.comms, self.calls = name, comms, calls

    def at(self, rank):
        return any(rank in call.members for call in self.calls)


def ends(orders, parts):
    """Whether the job ends whose ranks queue up their items, (part, step), in these orders."""
    queues = {rank: [(part, step, i) for part, step in order for i, call in enumerate(parts[part].calls)
                     if rank in call.members] for rank, order in orders.items()}
    done = dict.fromkeys(queues, 0)

    def started(rank, what):
        return what in queues[rank][:done[rank] + 1]
    moved = True
    while moved:
        moved = False
        for rank, queue in queues.items():
            while done[rank] < len(queue):
                part, _, i = what = queue[done[rank]]
                if not all(started(other, what) for other in parts[part].calls[i].awaited(rank)):
                    break
                done[rank] += 1
                moved = True
    return all(done[rank] == len(queue) for rank, queue in queues.items())


def merged(sequences):
    """All ways to take turns among them."""
    sequences = [s for s in sequences if s]
    if not sequences:
        yield []
    for i, sequence in enumerate(sequences):
        for rest in merged(sequences[:i] + [sequence[1:]] + sequences[i + 1:]):
            yield [sequence[0]] + rest


class Threads:
    """A job; `guards` says of each rank what fixes its order, if anything does."""

    def __init__(self, ranks, shape, parts, turns, **more):
        self.ranks, self.shape, self.parts, self.turns = ranks, shape, parts, turns
        self.guards = {}
        self.waits = more.get("waits", set())    # (rank, part): its thread waits for each of its items
        self.noise = more.get("noise", ())       # ranks whose devices have something else to do
        self.pool = more.get("pool", False)      # threads are there from the start, and wait for work
        self.last = more.get("last", False)      # all reduce once more when all threads have ended
        self.group_all = more.get("group_all", False)  # one thread makes its calls as one group

    # --- What orders there are ---

    @property
    def steps(self):
        return len(self.turns)

    def recorded(self, rank):
        return [(part, step) for step, turn in enumerate(self.turns) for part in turn if self.parts[part].at(rank)]

    def all_orders(self, rank):
        """Without guards. Of long loops only those that differ from the recorded one in one step."""
        recorded = self.recorded(rank)
        if self.steps <= 2:
            return list(merged([[item for item in recorded if item[0] == part] for part in range(len(self.parts))]))
        orders = [recorded]
        for step in range(self.steps):
            inside = [item for item in recorded if item[1] == step]
            before = [item for item in recorded if item[1] < step]
            behind = [item for item in recorded if item[1] > step]
            orders += [before + list(other) + behind for other in itertools.permutations(inside) if list(other) != inside]
        return orders

    def open_orders(self, rank):
        guard = self.guards.get(rank)
        if guard in GUARDS:
            return [self.recorded(rank)]
        if guard != "half_flag":
            return self.all_orders(rank)
        return [order for order in self.all_orders(rank)
                if all(order.index(one) < order.index(other) for one, other in self.handed_over(rank))]

    def handed_over(self, rank):
        """Of a guard by flags: (item, the item whose thread waits for it)."""
        recorded = self.recorded(rank)
        pairs = [(one, other) for one, other in zip(recorded, recorded[1:]) if one[0] != other[0]]
        if self.guards.get(rank) == "half_flag":
            pairs = [(one, other) for one, other in pairs if one[1] == other[1]]
        return pairs

    def combinations(self, orders_of):
        each = [orders_of(rank) for rank in range(self.ranks)]
        count = 1
        for orders in each:
            count *= len(orders)
        if count > MOST_ORDERS:
            return None
        return [dict(enumerate(combination)) for combination in itertools.product(*each)]

    def dangerous(self, orders_of):
        """The orders that deadlock; None: too many to try them all."""
        if self.shape == "apart":
            return []
        all_of_them = self.combinations(orders_of)
        return None if all_of_them is None else [orders for orders in all_of_them if not ends(orders, self.parts)]

    def deadlocks(self):
        return self.dangerous(self.open_orders)

    # --- Where an order was predicted ---

    def part_of(self, comm):
        return next((i for i, part in enumerate(self.parts) if comm in part.comms), None)

    def allows(self, said):
        """Whether one of the deadlocks has these (rank, communicator, other communicator): some call on the one comes
        before some call on the other."""
        def holds(orders, rank, one, other):
            order = orders[rank]
            return any(order[i][0] == one and other in [part for part, _ in order[i + 1:]] for i in range(len(order)))
        wanted = [(rank, self.part_of(one), self.part_of(other)) for rank, one, other in said]
        return any(all(holds(orders, *each) for each in wanted) for orders in self.deadlocks())

    # --- As a program ---

    def program(self, orders=None, patience=0):
        """As it is recorded; or with its calls in these orders, as far as it lets them, and without its pauses."""
        return _Writer(self, orders, patience).program()

    def describe(self):
        kinds = "; ".join(f"{part.name}: " + ", ".join(f"{c.kind} on {c.comm} {c.members}" for c in part.calls)
                          for part in self.parts)
        return f"{self.ranks} ranks, {self.shape}, {self.steps} steps, {kinds}, guards {self.guards or 'none'}"


class _Writer:
    def __init__(self, job, orders, patience):
        self.job, self.orders, self.patience = job, orders, patience
        self.p = Program(job.ranks)
        self.names = []
        self.events = self.flags = self.blocks = 0
        for part in job.parts:
            for call in part.calls:
                for name in part.comms:
                    if call.comm == name and name not in self.names:
                        self.names.append(name)
                        self.p.comm(name, part.comms[name])

    def program(self):
        job, p = self.job, self.p
        if job.shape == "legacy":
            for rank in range(job.ranks):
                p.blocking[rank].add(1)
        p.init_all()
        self.warm()
        for rank in range(job.ranks):
            self.rank(rank)
        return p

    def stream(self, part):
        if self.job.shape == "stream":
            return 0
        return "legacy" if self.job.shape == "legacy" and part == 0 else part

    def warm(self):
        """Nobody is the first to use anything later."""
        for name in self.names:
            self.p.everywhere(f"warm.{name}", "all_reduce", self.names.index(name), 0, 8)
        for part in self.job.parts:
            for call in part.calls:
                if call.kind in ("transfer", "exchange", "all_to_all"):  # which connect pairs
                    for rank in call.members:
                        self.call(rank, 0, 0, f"warm.{part.name}", call)
        for rank in range(self.job.ranks):
            self.p.add(rank, "warm.sync", "device_sync")

    def call(self, rank, thread, stream, label, call):
        """Returns the label of what puts it on its stream."""
        p, comm = self.p, self.names.index(call.comm)
        place = p.members(comm).index
        if call.kind == "transfer":
            source = call.members[call.root]
            target = next(member for member in call.members if member != source)
            kind, peer = ("send", target) if rank == source else ("recv", source)
            return p.transfer(rank, label, kind, comm, stream, call.count, place(peer), thread=thread).label
        if call.kind == "exchange":
            p.add(rank, f"{label}.start", "group_start", thread)
            p.transfer(rank, f"{label}.send", "send", comm, stream, call.count, place(call.behind(rank)), thread=thread)
            p.transfer(rank, f"{label}.recv", "recv", comm, stream, call.count, place(call.before(rank)), thread=thread)
            return p.add(rank, f"{label}.end", "group_end", thread).label
        root = place(call.members[call.root % len(call.members)])
        return p.collective(rank, label, call.kind, comm, stream, call.count, root=root, thread=thread).label

    def rank(self, rank):
        job, p = self.job, self.p
        guard = job.guards.get(rank)
        recorded = job.recorded(rank)
        present = sorted({part for part, _ in recorded})
        when = {item: FIRST_MS + EACH_MS * (sum(map(len, job.turns[:item[1]])) + job.turns[item[1]].index(item[0]))
                for item in recorded}
        last = FIRST_MS + EACH_MS * sum(map(len, job.turns)) + LAST_MS - EACH_MS
        if rank in job.noise:
            p.add(rank, "noise.kernel", "kernel", stream=self.stream(0), us=40)
        blocks = {}
        if job.shape == "free":
            for item in recorded:
                blocks[item] = self.blocks
                p.add(rank, f"malloc.{self.name(item)}", "malloc", block=self.blocks, bytes=4096)
                self.blocks += 1
        alone = guard in ("fork_join", "one_thread")
        flags, handed, waited = {}, {}, {}
        if not alone and guard in ("flag", "event", "late_flag", "poll", "half_flag"):
            for one, other in job.handed_over(rank):
                handed[one] = waited[other] = self.flags % 60
                flags[other] = one
                self.flags += 1
        go = None
        threads = {part: part for part in present}  # of the program
        if alone:
            threads = dict.fromkeys(present, 0)
        else:
            others = [part for part in present if part != 0]
            threads.update({part: number for number, part in enumerate(others, 1)})
            if others and job.pool:
                go = self.flags % 60
                self.flags += 1
                for part in others:
                    p.add(rank, f"go.{part}", "wait", threads[part], flag=go)
                if self.orders is None:
                    p.add(rank, "prepare", "sleep", ms=FIRST_MS)
                p.add(rank, "go", "post", flag=go)
            elif others:
                for part in others:
                    p.add(rank, f"start.{part}", "start", thread_of=threads[part], thread=0)
        now, forks = {}, 0  # by thread: how long it has paused so far
        keys, records = {}, {}

        def until(thread, moment):
            if self.orders is None and moment > now.get(thread, 0):
                p.add(rank, "pause", "sleep", thread, ms=moment - now.get(thread, 0))
                now[thread] = moment
        for number, item in enumerate(recorded):
            part, step = item
            thread = threads[part]
            forked = guard == "fork_join" and part != 0
            if forked:
                forks += 1
                thread = forks
                now[thread] = now.get(0, 0)
                p.add(rank, f"start{number}", "start", thread_of=thread)
            if guard != "flag" and guard != "half_flag":
                until(thread, when[item])
            if item in waited:
                if guard == "poll":
                    p.add(rank, f"poll.{self.name(item)}", "poll", thread, flag=waited[item], ms=10)
                else:
                    p.add(rank, f"wait.{self.name(item)}", "wait", thread, flag=waited[item])
                now[thread] = max(now.get(thread, 0), when[flags[item]])
            if guard in ("flag", "half_flag"):
                until(thread, when[item])
            if guard == "event" and item in flags:
                self.await_event(rank, thread, part, records[flags[item]])
            first = len(p.threads[rank][thread]) if thread < len(p.threads[rank]) else 0
            if guard == "stale_event" and number > 0:
                self.await_event(rank, thread, part, records[recorded[number - 1]])
            keys[item] = self.item(rank, thread, item, blocks.get(item), present)
            p.threads[rank][thread][first].values["of"] = f"{part}.{step}"
            if guard in ("event", "stale_event"):
                records[item] = self.events
                p.add(rank, f"record.{self.name(item)}", "event_record", thread, event=self.events, stream=self.stream(part))
                self.events += 1
            if (rank, part) in job.waits:
                p.add(rank, f"sync.{self.name(item)}", "stream_sync", thread, stream=self.stream(part))
            if item in handed:
                p.add(rank, f"post.{self.name(item)}", "post", thread, flag=handed[item])
            if forked:
                p.add(rank, f"join{number}", "join", thread_of=thread)
                now[0] = max(now.get(0, 0), when[item])
        if not alone:
            for part in present:
                if threads[part] != 0:
                    until(threads[part], last)
            for part in present:
                if threads[part] != 0 and not job.pool:
                    p.add(rank, f"join.{part}", "join", thread_of=threads[part])
        if self.orders is not None:
            self.turns(rank, keys)
        if job.last and not job.pool:
            self.reduce_once_more(rank)
        p.add(rank, "end.sync", "device_sync")
        for thread in p.threads[rank]:
            for op in thread:
                op.values.pop("of", None)
                if "thread_of" in op.values:
                    op.values["thread"] = op.values.pop("thread_of")

    def reduce_once_more(self, rank):
        name = self.job.parts[0].calls[0].comm
        if rank in self.job.parts[0].comms[name]:
            self.p.collective(rank, "last", "all_reduce", self.names.index(name), self.stream(0), 16)

    def await_event(self, rank, thread, part, event):
        if (rank + event) % 2:
            self.p.add(rank, f"await{event}", "event_sync", thread, event=event)
        else:
            self.p.add(rank, f"await{event}", "stream_wait", thread, event=event, stream=self.stream(part))

    def name(self, item):
        return f"{self.job.parts[item[0]].name}{item[1]}"

    def item(self, rank, thread, item, block, present):
        """Returns the label of its last call."""
        p, job = self.p, self.job
        part, name = item[0], self.name(item)
        if job.shape == "device_sync":
            p.add(rank, f"{name}.before", "device_sync", thread)
        elif job.shape == "free":
            p.add(rank, f"{name}.before", "free", thread, block=block)
        elif job.shape == "events":
            for other in present:
                if other == part:
                    continue
                p.add(rank, f"{name}.record{other}", "event_record", thread, event=self.events, stream=self.stream(other))
                p.add(rank, f"{name}.after{other}", "stream_wait", thread, event=self.events, stream=self.stream(part))
                self.events += 1
        key = None
        calls = [call for call in job.parts[part].calls if rank in call.members]
        grouped = len({call.comm for call in calls}) > 1
        if grouped:
            p.add(rank, f"{name}.group", "group_start", thread)
        for i, call in enumerate(calls):
            begin = len(p.threads[rank][thread]) if thread < len(p.threads[rank]) else 0
            key = self.call(rank, thread, self.stream(part), f"{name}.{i}", call)
            for op in p.threads[rank][thread][begin:]:
                op.values["site"] = f"{job.parts[part].name}.{i}"  # one line in all steps
        return p.add(rank, f"{name}.grouped", "group_end", thread).label if grouped else key

    def turns(self, rank, keys):
        """Each item waits for the one before it in the wanted order."""
        firsts = {op.values["of"]: op for thread in self.p.threads[rank] for op in thread if "of" in op.values}
        order = self.orders[rank]
        for one, other in zip(order, order[1:]):
            if one[0] == other[0]:
                continue
            first = firsts[f"{other[0]}.{other[1]}"]
            first.values.update(after=keys[one], patience=self.patience)


class Fused:
    """Buckets of gradients that one thread reduces when they are ready. Guilty: nothing fixes their order, and two of
    them have different sizes, below those that NCCL forgives. `between`: what fixes it."""

    shape = "fused"

    def __init__(self, ranks, counts, between, kind):
        self.ranks, self.counts, self.between, self.kind = ranks, counts, between, kind
        self.guards = {rank: between for rank in range(ranks)} if between else {}

    def deadlocks(self):
        """The orders of the buckets at each rank."""
        return [] if self.between else self.dangerous(None)

    def dangerous(self, _):
        whole = list(range(len(self.counts)))
        found = []
        for one, other in itertools.combinations(whole, 2):
            if self.counts[one] == self.counts[other]:
                continue
            changed = list(whole)
            changed[one], changed[other] = other, one
            found += [{rank: changed if rank == at else whole for rank in range(self.ranks)} for at in range(self.ranks)]
        return found

    def allows(self, said):
        return bool(self.deadlocks())

    def program(self, orders=None, patience=0):
        """Where a rank's order is fixed, another one is not the job's."""
        del patience
        p = Program(self.ranks)
        dp = p.comm("dp", range(self.ranks))
        p.init_all()
        p.everywhere("warm", "all_gather", dp, 0, 8)
        for rank in range(self.ranks):
            p.add(rank, "warm.sync", "device_sync")
            whole = list(range(len(self.counts)))
            order = orders[rank] if orders and not self.between else whole
            for number, bucket in enumerate(order):
                p.add(rank, f"backward{bucket}", "kernel", stream=1, us=50)
                p.add(rank, f"ready{bucket}", "event_record", event=bucket, stream=1)
                p.add(rank, f"launch{bucket}", "stream_wait", event=bucket, stream=0)
                p.collective(rank, f"bucket{bucket}", self.kind, dp, 0, self.counts[bucket])
                if number + 1 < len(order) and self.between == "host_wait":
                    p.add(rank, f"between{bucket}", "stream_sync", stream=0)
                if number + 1 < len(order) and self.between == "other_operation":
                    p.collective(rank, f"between{bucket}", "all_gather", dp, 0, 16)
            p.add(rank, "end.sync", "device_sync")
        if orders is None:
            p.environment["GORDIAN_READINESS_ORDERED"] = "READY"  # the runner knows the line
        return p

    def describe(self):
        return f"{self.ranks} ranks, fused buckets of {self.counts} floats ({self.kind}), between them {self.between}"


# --- Drawing them ---

def _draw(random):
    """A job without guards, or None where the dice contradict each other."""
    ranks = random.choice([2, 2, 3, 3, 4])
    shape = random.choice(["stream"] * 4 + ["device_sync", "free", "events", "events", "legacy"])
    threads = 3 if shape != "legacy" and random.random() < 0.25 else 2
    everybody = list(range(ranks))
    ring = ranks == 3 and threads == 3 and random.random() < 0.5
    parts = []
    for i, name in enumerate("abc"[:threads]):
        if ring:
            members = sorted((i, (i + 1) % 3))
        elif i == 0 or ranks == 2 or random.random() < 0.5:
            members = everybody
        else:
            members = sorted(random.sample(everybody, random.randint(2, ranks)))
        comm = f"{('dp', 'tp', 'pp')[i]}"
        comms, calls = {comm: members}, []
        what = random.random()
        count = random.choice([16, 64, 256, 4096])
        if what < 0.55:
            calls.append(Call(random.choice(SYMMETRIC), comm, members, count=count))
        elif what < 0.65:
            calls += [Call(random.choice(SYMMETRIC), comm, members, count=count) for _ in range(random.randint(2, 3))]
        elif what < 0.80:
            calls.append(Call(random.choice(ROOTED), comm, members, random.randrange(len(members)), count))
        elif what < 0.90:
            pair = random.sample(members, 2)
            calls.append(Call("transfer", comm, pair, 0, count))
        elif what < 0.96:
            calls.append(Call("exchange", comm, members, count=count))
        else:
            other = f"{comm}2"
            comms[other] = members
            calls += [Call("all_reduce", comm, members, count=count), Call("all_gather", other, members, count=count)]
        parts.append(Part(name, comms, calls))
    steps = random.choice([1, 1, 1, 1, 2, 2, 3, 4]) if threads == 2 else 1
    turn = random.sample(range(threads), threads)
    again = random.random() < 0.6  # in each step another order
    turns = [random.sample(range(threads), threads) if again else turn for _ in range(steps)]
    return Threads(ranks, shape, parts, turns,
                   waits={(rank, i) for rank in everybody for i in range(threads) if random.random() < 0.2},
                   noise=[rank for rank in everybody if random.random() < 0.3], pool=random.random() < 0.06,
                   last=random.random() < 0.4)


def _fused(random, guilty):
    ranks = random.choice([2, 2, 3, 4])
    counts = [random.choice([1024, 4096, 16384, 65536]) for _ in range(random.randint(2, 6))]
    if len(set(counts)) < 2:
        counts[0] *= 2
    between = None if guilty else random.choice(["host_wait", "other_operation"])
    return Fused(ranks, counts, between, "all_reduce")


def _some_guards(random, job):
    """Guards that do not prevent it, now and then."""
    if random.random() < 0.25:
        trial = dict(job.guards)
        for rank in random.sample(range(job.ranks), random.randint(1, job.ranks - 1)):
            job.guards[rank] = random.choice([g for g in GUARDS if g not in UNSEEN])
        if not job.deadlocks():
            job.guards = trial
    elif job.steps == 1 and len(job.parts) == 2 and random.random() < 0.06:
        job.guards = dict.fromkeys(range(job.ranks), "stale_event")
    elif 1 < job.steps <= 2 and random.random() < 0.12:
        job.guards = dict.fromkeys(range(job.ranks), "half_flag")
        if not job.deadlocks():
            job.guards = {}


def _twin(random, job):
    """The same job, and no order that is left open deadlocks."""
    job.guards = {}
    how = random.random()
    if how < 0.12 and job.shape != "legacy":
        job.shape = "apart"
        return "own_streams"
    guard = random.choice(3 * ["fork_join"] + 2 * ["flag"] + 3 * ["event"] + 3 * ["one_thread"]) if how < 0.8 else None
    if how > 0.92:
        guard = random.choice(UNSEEN)
    ranks = random.sample(range(job.ranks), job.ranks)
    few = job.steps <= 2 and random.random() < 0.5  # no more of them than it takes
    for rank in ranks:
        if few and not job.deadlocks():
            break
        job.guards[rank] = guard or random.choice([g for g in GUARDS if g not in UNSEEN])
    return guard or "mixed"


def pair(index, random):
    """(guilty, its twin, what the twin's order rests on)."""
    if index % 12 == 11:
        state = random.getstate()
        guilty = _fused(random, True)
        random.setstate(state)
        twin = _fused(random, False)
        return guilty, twin, twin.between
    while True:
        state = random.getstate()
        guilty = _draw(random)
        found = guilty.deadlocks()
        if not found:
            continue
        then = random.getstate()
        random.setstate(state)
        twin = _draw(random)
        random.setstate(then)
        _some_guards(random, guilty)
        rests_on = _twin(random, twin)
        if guilty.deadlocks() and twin.deadlocks() == []:
            return guilty, twin, rests_on
