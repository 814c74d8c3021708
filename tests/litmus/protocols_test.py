#!/usr/bin/env python3
"""The memory orders in the sources: no protocol shows what it must not, and one order less does.

  protocols_test.py            compares
  protocols_test.py --table    prints which protocol needs which order
"""

import os
import sys
import unittest

import orders
from explorer import ACQ_REL, ACQUIRE, NONE, PLAIN, RELAXED, RELEASE, SEQ_CST, explore
from protocols import PROTOCOLS

# What else an access could be, by what it is now. An exchange may lose either half.
WEAKER = {
    "load": {SEQ_CST: [ACQUIRE, RELAXED], ACQUIRE: [RELAXED]},
    "store": {SEQ_CST: [RELEASE, RELAXED], RELEASE: [RELAXED]},
    "rmw": {SEQ_CST: [ACQ_REL, ACQUIRE, RELEASE, RELAXED], ACQ_REL: [ACQUIRE, RELEASE, RELAXED],
            ACQUIRE: [RELAXED], RELEASE: [RELAXED]},
    "fence": {SEQ_CST: [ACQ_REL, ACQUIRE, RELEASE, NONE], ACQ_REL: [ACQUIRE, RELEASE, NONE], ACQUIRE: [NONE],
              RELEASE: [NONE]},
}

# What an access of a kind can be at all.
POSSIBLE = {"load": {PLAIN, RELAXED, ACQUIRE, SEQ_CST}, "store": {PLAIN, RELAXED, RELEASE, SEQ_CST},
            "rmw": {RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST}, "fence": {ACQUIRE, RELEASE, ACQ_REL, SEQ_CST}}

# What no protocol would notice: (name, weaker orders, why the sources have more, what does the same). With what does
# the same weakened as well it is noticed.
STRONGER = [
    ("bell.announce", [ACQ_REL, ACQUIRE], "exchanges of one word take turns; C++ has no weaker Dekker", []),
    ("bell.look", [ACQ_REL, RELEASE], "as bell.announce", []),
    ("bell.ring", [RELAXED], "who finds it rung announced itself after the ringer's look, and so sees the work", []),
    ("bell.value", [RELAXED], "as bell.ring", []),
    ("busy.end", [RELEASE], "orders only what the watcher did before, and costs nothing beside a query", []),
    ("claim.await", [ACQUIRE, RELEASE, RELAXED], "the bell's exchanges order the mark", []),
    ("claim.leave", [RELEASE], "takes nothing over; one constant for all three of the claim", []),
    ("claim.take", [ACQUIRE], "gives nothing away; as claim.leave", []),
    ("event.add", [ACQUIRE], "carries the erasing thread's release on, being an exchange", []),
    ("hosts.notify", [ACQ_REL, RELEASE], "the emulator keeps to the default where nothing is measured", []),
    ("hosts.seen", [ACQUIRE], "as hosts.notify", []),
    ("inside.look", [ACQUIRE, RELAXED], "waits.stepped stands before it", []),
    ("markers.done", [RELAXED], "markers.tail and round.answer follow", []),
    ("numbers.free", [RELAXED], "numbers.begin follows", []),
    ("pending.before", [RELAXED], "the entry is below next", [("pending.read_next", RELAXED)]),
    ("pending.read_next", [RELAXED], "the entry has its stamp", [("pending.before", RELAXED)]),
    ("pending.end", [RELAXED], "pending.next follows", [("pending.next", RELAXED)]),
    ("pending.next", [RELAXED], "the entry has its stamp", [("pending.end", RELAXED)]),
    ("pending.first", [RELAXED], "a reader of an older first finds another stamp, and calls the queue not whole", []),
    ("pending.queue", [RELAXED], "numbers.end follows; a queue not seen is an empty one", []),
    ("ring.place", [RELAXED], "ring.publish follows", []),
    ("step.abort", [ACQUIRE, RELEASE, RELAXED], "the word is all that is told, and waits.stepped orders it", []),
    ("step.aborted", [RELAXED], "as step.abort", []),
    ("table.erase", [RELAXED], "nothing is read by an erased key", []),
    ("version.look", [RELAXED], "the engine's mutex guards the list, the bell orders the sleep", []),
    ("version.publish", [RELAXED], "as version.look", []),
    ("waits.announce", [ACQUIRE, RELEASE, RELAXED], "waits.announced follows", []),
    ("waits.take", [ACQUIRE, RELEASE, RELAXED], "waits.stepped stands before it, the bell's exchanges behind", []),
]


class Orders:
    """The orders of the sources, some of them replaced."""

    def __init__(self, real, *instead):
        self.orders = {**real, **dict(instead)}

    def __call__(self, name):
        if name not in self.orders:
            raise AssertionError(f"no statement of the sources is marked {name}")
        return self.orders[name]


def run(protocol, chosen):
    threads, bad, *rest = protocol(chosen)
    return explore(threads, bad, *rest)


def uses(protocol):
    """{name: kind} of the marked accesses of a protocol, and in which order its threads come to them on each path:
    runs with each order turned into a tag tell."""
    kinds, paths = {}, []

    class Tag(str):
        pass

    class Recorder:
        def __init__(self):
            self.out = {}

        def load(self, location, order):
            note(order, "load")
            return Ask(location)

        def store(self, location, value, order):
            note(order, "store")

        def rmw(self, location, change, order):
            note(order, "rmw")
            return Ask(location)

        def fence(self, order):
            note(order, "fence")

        def sleep(self):
            pass

    class Ask(int):
        """Says yes to each comparison in turn, so that all branches are taken."""
        answers = []
        taken = 0

        def __new__(cls, _):
            return int.__new__(cls, 0)

        def _answer(self, *_):
            if Ask.taken == len(Ask.answers):
                Ask.answers.append(True)
            Ask.taken += 1
            return Ask.answers[Ask.taken - 1]
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _answer
        __hash__ = int.__hash__

        def __or__(self, other):
            return self

        def __add__(self, other):
            return self

    def note(order, kind):
        if isinstance(order, Tag):
            paths[-1].append(str(order))
            if kinds.setdefault(str(order), kind) != kind:
                raise AssertionError(f"{order} is a {kinds[str(order)]} and a {kind}")

    for thread in protocol(Tag)[0]:
        Ask.answers = []
        while True:
            Ask.taken = 0
            paths.append([])
            thread(Recorder())
            while Ask.answers and not Ask.answers[-1]:
                Ask.answers.pop()
            if not Ask.answers:
                break
            Ask.answers[-1] = False
    return kinds, paths


def mutants(real, protocols):
    """{(name, weaker order): [the protocols that notice]}; the kinds of the accesses."""
    kinds, users = {}, {}
    for protocol in protocols:
        for name, kind in uses(protocol)[0].items():
            if kinds.setdefault(name, kind) != kind:
                raise AssertionError(f"{name} is a {kinds[name]} and a {kind}")
            users.setdefault(name, []).append(protocol)
    noticed = {}
    for name, kind in sorted(kinds.items()):
        if name not in real or real[name] not in POSSIBLE[kind]:
            raise AssertionError(f"the sources have {real.get(name, 'nothing')} at {name}, which is a {kind}")
        for order in WEAKER[kind].get(real[name], []):
            noticed[name, order] = [protocol.__name__ for protocol in users[name]
                                    if run(protocol, Orders(real, (name, order))) is not None]
    return noticed, kinds


class TheSources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.real = orders.read()

    def test_no_protocol_shows_what_it_must_not(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol.__name__):
                self.assertIsNone(run(protocol, Orders(self.real)))

    def test_each_order_is_needed_or_excused(self):
        noticed, kinds = mutants(self.real, PROTOCOLS)
        helpers = set(orders.HELPERS.values())
        self.assertEqual(sorted(set(self.real) - set(kinds) - helpers), [], "marked, and in no protocol")
        unnoticed = {mutant for mutant, by in noticed.items() if not by}
        excused = {(name, order) for name, weaker, _, _ in STRONGER for order in weaker}
        self.assertEqual(sorted(unnoticed - excused), [], "weaker would do, and nobody says why it is not")
        self.assertEqual(sorted(excused - unnoticed), [], "excused, and needed")

    def test_accesses_come_in_the_order_of_their_lines(self):
        functions = orders.lines_by_function()
        checked = 0
        for protocol in PROTOCOLS:
            for path in uses(protocol)[1]:
                last = {name: at for at, name in enumerate(path)}
                for lines in functions.values():
                    here = sorted((line, name) for name, line in lines.items() if name in last)
                    for (_, first), (_, second) in zip(here, here[1:]):
                        # A loop may come to the second before, but not to its last one.
                        self.assertLess(path.index(first), last[second],
                                        f"{protocol.__name__}: the sources have {first} before {second}")
                        checked += 1
        self.assertGreater(checked, 0)

    def test_what_does_the_same_is_needed_instead(self):
        for name, weaker, _, same in STRONGER:
            for order in weaker if same else []:
                with self.subTest(name):
                    both = Orders(self.real, (name, order), *same)
                    self.assertTrue(any(run(protocol, both) is not None for protocol in PROTOCOLS))


class TheMarkers(unittest.TestCase):
    def read(self, *lines):
        return orders.read([("a.cc", list(lines))])

    def test_orders_are_read(self):
        self.assertEqual(self.read("// litmus: a.b", "x.store(1, std::memory_order_release);"), {"a.b": RELEASE})
        self.assertEqual(self.read("// litmus: a.b", "__atomic_store_n(&x, 1,", "    __ATOMIC_SEQ_CST);"),
                         {"a.b": SEQ_CST})
        self.assertEqual(self.read("// litmus: a.b", "x.fetch_add(1);"), {"a.b": SEQ_CST})
        self.assertEqual(self.read("// litmus: a.b", "memcpy(to, from, 1);"), {"a.b": PLAIN})
        self.assertEqual(self.read("// litmus: shim.put", "x.store(v, std::memory_order_relaxed);", "// litmus: a.b",
                                   "Put(x, 1);")["a.b"], RELAXED)

    def test_functions_are_told_apart(self):
        lines = ["void f() {", "  // litmus: a.b", "  x.load();", "  // litmus: a.c", "  y.load();", "}",
                 "class C {", "  void g() {", "    // litmus: a.d", "    x.load();", "  }", "  void h() {",
                 "    // litmus: a.e", "    x.load();", "  }", "};"]
        self.assertEqual(list(orders.lines_by_function([("a.cc", lines)]).values()),
                         [{"a.b": 2, "a.c": 4}, {"a.d": 9}, {"a.e": 13}])

    def test_wrong_markers_are_named(self):
        for lines, why in (
                (["// litmus: a.b", "x.load();", "// litmus: a.b", "y.load();"], "is at a.cc:1 already"),
                (["std::atomic_thread_fence(std::memory_order_release);"], "a fence without a marker"),
                (["x.load();  // litmus: a.b"], "not a marker"),
                (["// litmus: a.b", "Put(x, 1);"], "no order of its own"),
                (["// litmus: a.b", "f(x.load(std::memory_order_acquire), y.load(std::memory_order_relaxed));"],
                 "several orders")):
            with self.subTest(why), self.assertRaises(orders.Wrong) as wrong:
                self.read(*lines)
            self.assertIn(why, str(wrong.exception))


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        for (name, order), by in mutants(orders.read(), PROTOCOLS)[0].items():
            print(f"{name:24} {order:8} {', '.join(by) or '-'}")
    else:
        unittest.main()
