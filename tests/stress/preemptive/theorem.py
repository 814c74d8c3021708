"""Must a program end, or must it hang? From the theorem of docs/runtime.md and from CUDA's rules of streams, without a
look at how the runtime is written.

What can happen in a program only ever becomes more, so the least fixed point of "this has happened" is what any run
reaches. Two of them are taken:

  pessimist   an operation needs all of its members, also where some would be through alone, and what it writes may have
              been renamed, so that it is in its place only at its turn. What ends so must end.
  optimist    it needs only those whose data it needs. What does not end so must hang.

What stands between the two may do either; its results must be right if it ends.

An operation may begin before its turn if nothing that is unfinished and stands in front of it, by the order of streams and
by waits for events, is anything but operations, event records and event waits, and if none of the unfinished operations
that were called before writes what it reads.
"""

from layout import COLLECTIVES, TRANSFERS, Layout

WINDOW = 4  # operations of a port that can be under way


class Item:
    """Something on a stream."""

    def __init__(self, rank, stream, kind, ops=(), target=None):
        self.rank, self.stream, self.kind = rank, stream, kind  # kind: unit, wait, work, graph
        self.ops = list(ops)     # unit, graph: operations
        self.target = target     # wait: an Item or None
        self.before = None       # on the stream
        self.gang = [self]       # units of one communicator in a group, on several streams: they start and end together
        self.number = 0          # of the call
        self.done = False
        self.turn = False
        self.published = False


class Instance:
    """One operation of all its members."""

    def __init__(self, name):
        self.name = name
        self.needs = {}    # rank -> ranks whose data it needs (the optimist's)
        self.ranks = set()
        self.items = {}    # rank -> Item
        self.before = None  # WINDOW places earlier in its port
        self.complete = set()


def members_of(program, op, rank):
    members = program.members(op["comm"])
    if op.kind in TRANSFERS:
        return [rank, members[op["peer"]]]
    return members


class World:
    def __init__(self, program, early=True):
        self.program, self.early_allowed = program, early
        self.instances = {}
        self.layouts = [Layout(program, rank) for rank in range(program.ranks)]
        self.at = [0] * program.ranks  # host position
        self.streams = [{} for _ in range(program.ranks)]  # number -> last Item
        self.events = [{} for _ in range(program.ranks)]   # event -> Item behind which it was recorded last
        self.items = [[] for _ in range(program.ranks)]
        self.group = [None] * program.ranks
        self.ports = [{} for _ in range(program.ranks)]    # (port) -> operations so far
        self.capture = [{} for _ in range(program.ranks)]  # stream -> graph
        self.graphs = [{} for _ in range(program.ranks)]   # graph -> operations
        self.met = {}

    # --- What an operation is ---

    def instance(self, rank, op, graph=False):
        members = self.program.members(op["comm"])
        if op.kind in TRANSFERS:
            peer = members[op["peer"]]
            ends = (rank, peer) if op.kind == "send" else (peer, rank)
            port = (op["comm"], "pair", ends)
        else:
            port = (op["comm"], "graph" if graph else "all")
        at = self.ports[rank].get((port, op.kind), 0) if ends_differ(op) else self.ports[rank].get(port, 0)
        key = (port, op.kind) if ends_differ(op) else port
        self.ports[rank][key] = at + 1
        name = (port, at)
        if name not in self.instances:
            made = self.instances[name] = Instance(name)
            made.ranks = set(members) if op.kind in COLLECTIVES else set(port[2])
            made.before = None if graph else self.instances.get((port, at - WINDOW))
            for r in made.ranks:
                made.needs[r] = needs(op, members, r, port)
        return self.instances[name]

    # --- The hosts ---

    def put(self, rank, stream, kind, ops=(), target=None):
        item = Item(rank, stream, kind, ops, target)
        item.before = self.streams[rank].get(stream)
        item.number = len(self.items[rank])
        self.streams[rank][stream] = item
        self.items[rank].append(item)
        for op, instance in item.ops:
            instance.items[rank] = item
        return item

    def place_ops(self, rank, ops):
        """The operations of one call or group: one place on each stream, but for communicators that are on several."""
        streams = {}
        for op in ops:
            streams.setdefault(op["comm"], set()).add(op["stream"])
        places, gangs = {}, {}
        for op in ops:
            spread = op["comm"] if len(streams[op["comm"]]) > 1 else None
            places.setdefault((op["stream"], spread), []).append((op, self.instance(rank, op)))
        for (stream, spread), its in places.items():
            item = self.put(rank, stream, "unit", its)
            if spread is not None:
                gangs.setdefault(spread, []).append(item)
        for gang in gangs.values():
            for item in gang:
                item.gang = gang

    def host_may_pass(self, rank, op):
        if op.kind in ("stream_sync", "read"):
            last = self.streams[rank].get(op["stream"])
            return last is None or last.done
        if op.kind == "event_sync":
            behind = self.events[rank].get(op["event"])
            return behind is None or behind.done
        if op.kind in ("device_sync", "free"):
            return all(item is None or item.done for item in self.streams[rank].values())
        if op.kind in ("init", "split"):
            comm = op["comm"] if op.kind == "init" else op["parent"]
            met = self.met.setdefault(meeting(op, rank, self.at), set())
            met.add(rank)
            return met >= set(self.program.members(comm))
        return True  # read_legacy too: none of these streams wait for the legacy one, nor that for them

    def step(self, rank, op):
        """What the call does, once its wait is over."""
        if op.kind == "group_start":
            self.group[rank] = []
        elif op.kind == "group_end":
            ops, self.group[rank] = self.group[rank], None
            self.place_ops(rank, ops)
        elif op.kind in COLLECTIVES or op.kind in TRANSFERS:
            if self.group[rank] is not None:
                self.group[rank].append(op)
            elif op["stream"] in self.capture[rank]:
                self.graphs[rank].setdefault(self.capture[rank][op["stream"]], []).append(op)
            else:
                self.place_ops(rank, [op])
        elif op.kind == "event_record":
            self.events[rank][op["event"]] = self.streams[rank].get(op["stream"])
        elif op.kind == "stream_wait":
            self.put(rank, op["stream"], "wait", target=self.events[rank].get(op["event"]))
        elif op.kind in ("kernel", "host", "copy"):
            self.put(rank, op["stream"], "work")
        elif op.kind == "capture_begin":
            self.capture[rank][op["stream"]] = op["graph"]
        elif op.kind == "capture_end":
            del self.capture[rank][op["stream"]]
        elif op.kind == "graph_launch":
            for captured in self.graphs[rank][op["graph"]]:
                self.put(rank, op["stream"], "graph", [(captured, self.instance(rank, captured, graph=True))])

    def run_hosts(self):
        moved = False
        for rank in range(self.program.ranks):
            ops = self.program.threads[rank][0]
            while self.at[rank] < len(ops) and self.host_may_pass(rank, ops[self.at[rank]]):
                self.step(rank, ops[self.at[rank]])
                self.at[rank] += 1
                moved = True
        return moved

    # --- The devices ---

    def complete(self, instance, rank, optimist):
        if rank in instance.complete:
            return True
        needed = instance.needs[rank] if optimist else instance.ranks
        for other in needed | {rank}:
            item = instance.items.get(other)
            if item is None or not (item.turn if item.kind == "graph" else item.published):
                return False
        if instance.before is not None:
            earlier = {rank} | needed if optimist else instance.ranks
            if not all(r in instance.before.complete for r in earlier & instance.before.ranks):
                return False
        instance.complete.add(rank)
        return True

    def may_begin_early(self, item, optimist):
        if not self.early_allowed or item.kind != "unit" or (len(item.gang) > 1 and not optimist):
            return False
        seen, todo = set(), [item.before]
        while todo:
            at = todo.pop()
            if at is None or at.done or id(at) in seen:
                continue
            seen.add(id(at))
            if at.kind not in ("unit", "wait") or (len(at.gang) > 1 and not optimist):
                return False
            todo += [at.before, at.target]
        layout = self.layouts[item.rank]
        for op, _ in item.ops:
            reads = layout.places(op)[0]
            for earlier in self.items[item.rank]:
                if earlier.number >= item.number:
                    break
                for other, instance in earlier.ops:
                    finished = item.rank in instance.complete and (optimist or earlier.turn)
                    if not finished and layout.places(other)[1].overlaps(reads):
                        return False
        return True

    def run_devices(self, optimist):
        moved = False
        for items in self.items:
            for item in items:
                if item.done:
                    continue
                if not item.turn:
                    item.turn = (item.before is None or item.before.done) and (item.target is None or item.target.done)
                    moved |= item.turn
                if not item.published and all(each.turn or self.may_begin_early(each, optimist) for each in item.gang):
                    item.published = moved = True
                if item.published:
                    for _, instance in item.ops:
                        had = item.rank in instance.complete
                        moved |= self.complete(instance, item.rank, optimist) and not had
                if item.turn and all(item.rank in instance.complete for each in item.gang for _, instance in each.ops):
                    item.done = moved = True
        return moved

    def run(self, optimist):
        while self.run_hosts() | self.run_devices(optimist):
            pass
        return self.ended()

    def ended(self):
        return (all(self.at[r] == len(self.program.threads[r][0]) for r in range(self.program.ranks)) and
                all(item.done for items in self.items for item in items))

    # --- Who holds whom up, where it has come to a standstill ---

    def waits(self):
        """Edges between ("host", rank), ("item", rank, number) and ("done", name, rank): each on what it waits for."""
        edges = {}

        def wait(who, on):
            edges.setdefault(who, set()).add(on)
            edges.setdefault(on, set())

        def called(instance, rank, who):
            item = instance.items.get(rank)
            if item is None:
                wait(who, ("host", rank))
            elif not (item.published and item.kind == "unit") and not item.turn:
                wait(who, ("start", rank, item.number))

        for rank in range(self.program.ranks):
            ops = self.program.threads[rank][0]
            if self.at[rank] < len(ops):
                op = ops[self.at[rank]]
                self.host_waits(rank, op, wait)
            for item in self.items[rank]:
                if item.done:
                    continue
                end, start = ("item", rank, item.number), ("start", rank, item.number)
                wait(end, start)
                for before in [item.target] + [each.before for each in item.gang]:
                    if before is not None and not before.done:
                        wait(start, ("item", before.rank, before.number))
                for _, instance in [pair for each in item.gang for pair in each.ops]:
                    if rank in instance.complete:
                        continue
                    who = ("done", instance.name, rank)
                    wait(end, who)
                    for other in instance.ranks:
                        called(instance, other, who)
                    if instance.before is not None:
                        for other in instance.before.ranks:
                            if other not in instance.before.complete:
                                wait(who, ("done", instance.before.name, other))
        return edges

    def host_waits(self, rank, op, wait):
        def on(item):
            if item is not None and not item.done:
                wait(("host", rank), ("item", rank, item.number))

        if op.kind in ("stream_sync", "read"):
            on(self.streams[rank].get(op["stream"]))
        elif op.kind == "event_sync":
            on(self.events[rank].get(op["event"]))
        elif op.kind in ("device_sync", "free"):
            for item in self.streams[rank].values():
                on(item)
        elif op.kind in ("init", "split"):
            comm = op["comm"] if op.kind == "init" else op["parent"]
            for other in set(self.program.members(comm)) - self.met[meeting(op, rank, self.at)]:
                wait(("host", rank), ("host", other))

    def ranks_in_circles(self):
        edges = self.waits()
        ranks = set()
        for component in components(edges):
            if len(component) > 1 or component[0] in edges[component[0]]:
                ranks |= {node[-1] if node[0] == "done" else node[1] for node in component}
        return ranks


def ends_differ(op):
    return op.kind in TRANSFERS


def meeting(op, rank, at):
    return (op.kind, op["comm"] if op.kind == "init" else (op["parent"], op.label))


def needs(op, members, rank, port):
    if op.kind in TRANSFERS:
        # What is sent may lie in the runtime's memory until it is asked for.
        return {port[2][0]} if rank == port[2][1] else set()
    root = members[op["root"]] if "root" in op.values else None
    if op.kind in ("broadcast", "scatter"):
        return {root} if rank != root else set()
    if op.kind in ("reduce", "gather"):
        return set(members) if rank == root else set()
    return set(members)


def components(edges):
    """Strongly connected components, by Tarjan's algorithm without recursion."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for follower in rest:
                if follower not in index:
                    index[follower] = low[follower] = len(index)
                    stack.append(follower)
                    on.add(follower)
                    work.append((follower, iter(edges[follower])))
                    break
                if follower in on:
                    low[node] = min(low[node], index[follower])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        component.append(stack.pop())
                        on.discard(component[-1])
                        if component[-1] == node:
                            break
                    found.append(component)
    return found


class Prediction:
    def __init__(self, program):
        pessimist, optimist = World(program), World(program)
        self.must_end = pessimist.run(False)
        self.must_hang = not optimist.run(True)
        self.in_circles = optimist.ranks_in_circles() if self.must_hang else set()
        self.with_nccl_ends = World(program, early=False).run(True)

    def word(self):
        return "ends" if self.must_end else "hangs" if self.must_hang else "either"
