"""Every outcome that the memory model of C++20 allows a small program.

A program is a list of functions, one a thread, which call load(), store(), rmw() and fence() of the Thread that
they are given. explore() runs each with every value that a load may return, joins the runs by each reads-from
relation and each modification order, and keeps what the axioms allow.

The axioms are those of RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing Sequential Consistency in C/C++11,
PLDI 2017), from which C++20 took its own, but for two:
  - Of a thread's own later stores none belongs to a release sequence: C++20 took them out (P0982).
  - RC11 forbids all cycles in program order and reads-from. AArch64 lets a store overtake an earlier load, and so
    does this model, unless the store depends on the load or a barrier or order stands between (Pulte et al.:
    Simplifying ARM Concurrency, POPL 2018: dob, bob). Nothing comes out of thin air.
Not modelled: accesses of several sizes to one word, and what a compiler makes of undefined behaviour: of a race
on plain memory it is only said that there is one.
"""

import itertools

PLAIN, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = "plain", "relaxed", "acquire", "release", "acq_rel", "seq_cst"
ACQUIRES = {ACQUIRE, ACQ_REL, SEQ_CST}
RELEASES = {RELEASE, ACQ_REL, SEQ_CST}
NONE = "none"  # a fence that is not there


class _Needs(Exception):
    """A load has no value yet."""

    def __init__(self, location):
        super().__init__(location)
        self.location = location


class Value(int):
    """What a load returned. Remembers the loads that it comes from; a thread that compares it branches on them."""

    thread = None
    loads = frozenset()

    def _of(self, number, other=None):
        out = Value(number)
        out.thread = self.thread
        out.loads = self.loads | getattr(other, "loads", frozenset())
        return out

    def _branch(self, other=None):
        self.thread.branched |= self.loads | getattr(other, "loads", frozenset())

    def __eq__(self, other):
        self._branch(other)
        return int(self) == int(other)

    def __ne__(self, other):
        self._branch(other)
        return int(self) != int(other)

    def __lt__(self, other):
        self._branch(other)
        return int(self) < int(other)

    def __gt__(self, other):
        self._branch(other)
        return int(self) > int(other)

    def __le__(self, other):
        self._branch(other)
        return int(self) <= int(other)

    def __ge__(self, other):
        self._branch(other)
        return int(self) >= int(other)

    def __bool__(self):
        self._branch()
        return int(self) != 0

    def __add__(self, other):
        return self._of(int(self) + int(other), other)

    def __or__(self, other):
        return self._of(int(self) | int(other), other)

    __hash__ = int.__hash__


class Event:
    """One access or fence of one run. `read` and `written` are None where it does not."""

    __slots__ = ("kind", "location", "read", "written", "order", "after")

    def __init__(self, kind, location, read, written, order, after):
        self.kind, self.location, self.read, self.written = kind, location, read, written
        self.order, self.after = order, after


class Thread:
    def __init__(self, values):
        self._values = values
        self._next = 0
        self.events = []
        self.branched = frozenset()
        self.out = {}

    def _take(self, location):
        if self._next == len(self._values):
            raise _Needs(location)
        self._next += 1
        return self._values[self._next - 1]

    def _value(self, number):
        value = Value(number)
        value.thread = self
        value.loads = frozenset([len(self.events)])
        return value

    def load(self, location, order):
        value = self._value(self._take(location))
        self.events.append(Event("R", location, int(value), None, order, frozenset()))
        return value

    def store(self, location, value, order):
        after = self.branched | getattr(value, "loads", frozenset())
        self.events.append(Event("W", location, None, int(value), order, after))

    def rmw(self, location, change, order):
        """`change` gives the new value, or None where a compare-and-exchange fails. Returns the old one."""
        value = self._value(self._take(location))
        new = change(int(value))
        if new is None:
            failed = {SEQ_CST: SEQ_CST, ACQ_REL: ACQUIRE, ACQUIRE: ACQUIRE}.get(order, RELAXED)
            self.events.append(Event("R", location, int(value), None, failed, frozenset()))
        else:
            self.events.append(Event("U", location, int(value), int(new), order, self.branched))
        return value

    def fence(self, order):
        if order != NONE:
            self.events.append(Event("F", None, None, None, order, frozenset()))

    def sleep(self):
        """The full barriers of the kernel's futex calls, between the queue of waiters and the word (kernel/futex,
        "smp_mb (A)" and "(B)")."""
        self.fence(SEQ_CST)


class TooLarge(Exception):
    pass


def _runs(function, values):
    """[(events, out)] of a thread, for every value in `values` that its loads may return."""
    out, pending = [], [()]
    while pending:
        oracle = pending.pop()
        thread = Thread(oracle)
        try:
            function(thread)
        except _Needs as need:
            pending += [oracle + (value,) for value in sorted(values.get(need.location, {0}))]
            continue
        out.append((thread.events, thread.out))
        if len(out) > 20000:
            raise TooLarge(function.__name__)
    return out


def _all_runs(threads, initial):
    values = {}
    for location, value in initial.items():
        values.setdefault(location, set()).add(value)
    # A value has passed through each write of the program at most once: counters do not grow for ever.
    for depth in itertools.count():
        runs = [_runs(function, values) for function in threads]
        grown = {location: set(known) for location, known in values.items()}
        for of_thread in runs:
            for events, _ in of_thread:
                for event in events:
                    if event.location is not None:
                        grown.setdefault(event.location, {initial.get(event.location, 0)})
                    if event.written is not None:
                        grown[event.location].add(event.written)
        writes = sum(max(sum(e.written is not None for e in events) for events, _ in of_thread) for of_thread in runs)
        if grown == values or depth > writes:
            return runs
        values = grown


def _close(rows):
    """Transitive closure, in place. False: there is a cycle."""
    for k in range(len(rows)):
        bit = 1 << k
        through = rows[k]
        for i, row in enumerate(rows):
            if row & bit:
                rows[i] = row | through
    return not any(row >> i & 1 for i, row in enumerate(rows))


def _bits(mask):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Candidate:
    """Runs of all threads put together; which reads read from which writes is open."""

    def __init__(self, runs, initial):
        self.events, self.thread = [], []
        self.sb, self.ppo = [], []
        self.initial = initial
        for index, (events, _) in enumerate(runs):
            base = len(self.events)
            for at, event in enumerate(events):
                self.events.append(event)
                self.thread.append(index)
                self.sb.append(((1 << len(events)) - (1 << (at + 1))) << base)
                self.ppo.append(0)
            self._order(events, base)
        self.writes = {}
        for i, event in enumerate(self.events):
            if event.written is not None:
                self.writes.setdefault(event.location, []).append(i)
        self.reads = [i for i, event in enumerate(self.events) if event.read is not None]

    def _order(self, events, base):
        """What a thread's stores may not overtake."""
        for j, later in enumerate(events):
            for i in later.after:
                self.ppo[base + i] |= 1 << (base + j)
            for i, earlier in enumerate(events[:j]):
                if earlier.kind == "F" or later.kind == "F":
                    continue
                kept = earlier.read is not None and earlier.order in ACQUIRES
                kept |= later.written is not None and later.order in RELEASES
                for fence in events[i + 1:j]:
                    if fence.kind == "F":
                        kept |= earlier.read is not None and fence.order in ACQUIRES
                        kept |= later.written is not None and fence.order in RELEASES
                if kept:
                    self.ppo[base + i] |= 1 << (base + j)

    def sources(self):
        """For each read the writes that it may read from; -1 is the initial value."""
        out = []
        for r in self.reads:
            event = self.events[r]
            from_writes = [w for w in self.writes.get(event.location, ())
                           if w != r and self.events[w].written == event.read]
            if self.initial.get(event.location, 0) == event.read:
                from_writes.append(-1)
            if not from_writes:
                return None
            out.append(from_writes)
        return out

    def _modification_orders(self):
        per_location = []
        for location, writes in self.writes.items():
            if len({self.thread[w] for w in writes}) == 1:
                per_location.append([(location, tuple(writes))])
                continue
            orders = []
            for order in itertools.permutations(writes):
                at = {w: place for place, w in enumerate(order)}
                if all(at[a] < at[b] for a in writes for b in writes if self.sb[a] >> b & 1):
                    orders.append(order)
            per_location.append([(location, order) for order in orders])
        return itertools.product(*per_location)

    def _happens_before(self, rf):
        events, hb = self.events, list(self.sb)
        for r, w in rf.items():
            if w < 0 or events[r].order == PLAIN or events[w].order == PLAIN:
                continue
            targets = [r] if events[r].order in ACQUIRES else []
            targets += [f for f in _bits(self.sb[r]) if events[f].kind == "F" and events[f].order in ACQUIRES]
            head = w
            while targets and head >= 0:
                sources = [head] if events[head].order in RELEASES else []
                sources += [f for f in range(len(events)) if events[f].kind == "F" and
                            events[f].order in RELEASES and self.sb[f] >> head & 1]
                for source in sources:
                    for target in targets:
                        if source != target:
                            hb[source] |= 1 << target
                head = rf[head] if events[head].kind == "U" else -1
        return hb if _close(hb) else None

    def _rows(self, place, read_place, relation):
        """The pairs of one location for which relation(a, b) holds."""
        rows = [0] * len(self.events)
        for a in place:
            for b in place:
                if a != b and self.events[a].location == self.events[b].location and relation(a, b):
                    rows[a] |= 1 << b
        return rows

    def _is_sc(self, hb, place, read_place):
        events = self.events
        sc = [i for i, e in enumerate(events) if e.order == SEQ_CST]
        if len(sc) < 2:
            return True
        n = len(events)
        same = [0] * n
        for a in place:
            for b in place:
                if events[a].location == events[b].location:
                    same[a] |= 1 << b
        # Modification order and reads-before: both end in a write.
        forth = [0] * n
        eco = [0] * n
        for a in place:
            for b in _bits(same[a]):
                if a == b:
                    continue
                if events[b].written is not None and read_place.get(a, place[a]) < place[b]:
                    forth[a] |= 1 << b
                eco[a] |= (1 << b) if self._eco(place, a, b) else 0
        scb = []
        for a in range(n):
            elsewhere = self.sb[a] & ~same[a]
            row = self.sb[a] | hb[a] & same[a] | forth[a]
            for x in _bits(elsewhere):
                for y in _bits(hb[x]):
                    row |= self.sb[y] & ~same[y]
            scb.append(row)
        psc = [0] * n
        fences = [f for f in sc if events[f].kind == "F"]
        for a in sc:
            starts = 1 << a | (hb[a] if events[a].kind == "F" else 0)
            middle = 0
            for x in _bits(starts):
                middle |= scb[x]
            for b in sc:
                if middle >> b & 1 or events[b].kind == "F" and any(hb[y] >> b & 1 for y in _bits(middle)):
                    psc[a] |= 1 << b
        for a in fences:
            reach = hb[a]
            for x in _bits(hb[a]):
                for y in _bits(eco[x]):
                    reach |= hb[y]
            for b in fences:
                if reach >> b & 1:
                    psc[a] |= 1 << b
        return _close(psc)

    def _eco(self, place, a, b):
        """`place`: of a write in the modification order, of a read that of its source."""
        if self.events[a].written is not None and self.events[b].written is None:
            return place[a] <= place[b]
        return place[a] < place[b]

    def executions(self):
        """(raced, {location: last value}) of each that the axioms allow."""
        sources = self.sources()
        if sources is None:
            return
        orders = list(self._modification_orders())
        for choice in itertools.product(*sources):
            rf = dict(zip(self.reads, choice))
            thin = list(self.ppo)
            for r, w in rf.items():
                if w >= 0:
                    thin[w] |= 1 << r
            if not _close(thin):
                continue
            hb = self._happens_before(rf)
            if hb is None:
                continue
            for order in orders:
                place, read_place = {}, {}
                for _, writes in order:
                    for at, w in enumerate(writes):
                        place[w] = at + 1
                atomic = True
                for r, w in rf.items():
                    source = place[w] if w >= 0 else 0
                    if self.events[r].kind == "U":
                        atomic = atomic and place[r] == source + 1
                        read_place[r] = source
                    else:
                        place[r] = source
                if not atomic or not self._is_coherent(hb, place) or not self._is_sc(hb, place, read_place):
                    continue
                yield self._race(hb), {at: self.events[writes[-1]].written for at, writes in order if writes}

    def _is_coherent(self, hb, place):
        for a in place:
            for b in _bits(hb[a]):
                if b in place and self.events[a].location == self.events[b].location and self._eco(place, b, a):
                    return False
        return True

    def _race(self, hb):
        for a, one in enumerate(self.events):
            if one.location is None:
                continue
            for b in range(a + 1, len(self.events)):
                other = self.events[b]
                if (one.location == other.location and self.thread[a] != self.thread[b] and
                        PLAIN in (one.order, other.order) and
                        (one.written is not None or other.written is not None) and
                        not hb[a] >> b & 1 and not hb[b] >> a & 1):
                    return one.location
        return None


def explore(threads, bad, initial=None, final=False):
    """None, or what is wrong with the first execution found that races on plain memory or of which bad(out) is
    true. `out`: what the threads put into their `out`, and with `final` the last values too, by location."""
    initial = initial or {}
    runs = _all_runs(threads, initial)
    plain = any(e.order == PLAIN for of_thread in runs for events, _ in of_thread for e in events)
    for chosen in itertools.product(*runs):
        out = {}
        for _, of_thread in chosen:
            out.update({name: int(value) for name, value in of_thread.items()})
        if not plain and not final and not bad(out):
            continue
        for raced, last in _Candidate(chosen, initial).executions():
            if raced is not None:
                return f"a race on {raced}: {out}"
            if final:
                out.update({location: last.get(location, initial.get(location, 0))
                            for location in {*last, *initial}})
            if bad(out):
                return str(out)
    return None
