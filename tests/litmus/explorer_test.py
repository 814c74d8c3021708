#!/usr/bin/env python3
"""The explorer against litmus tests whose outcomes are known.

Sources: Alglave, Maranget, Tautschnig: Herding cats (TOPLAS 2014), for the names; Lahav et al. (PLDI 2017), for
what C++ allows; cppreference and [atomics.order] of C++20, for release sequences.
"""

import unittest

from explorer import ACQ_REL, ACQUIRE, NONE, PLAIN, RELAXED, RELEASE, SEQ_CST, explore


def wrote(*stores):
    def thread(t):
        for location, value, order in stores:
            t.store(location, value, order)
    return thread


def mp(store, load, write_fence=NONE, read_fence=NONE, data=RELAXED):
    def writer(t):
        t.store("x", 1, data)
        t.fence(write_fence)
        t.store("y", 1, store)

    def reader(t):
        if t.load("y", load) == 1:
            t.fence(read_fence)
            t.out["x"] = t.load("x", data)
    return explore([writer, reader], lambda o: o.get("x") == 0)


def sb(store, load, fence=NONE):
    def of(mine, other, name):
        def thread(t):
            t.store(mine, 1, store)
            t.fence(fence)
            t.out[name] = t.load(other, load)
        return thread
    return explore([of("x", "y", "a"), of("y", "x", "b")], lambda o: o == {"a": 0, "b": 0})


def lb(load, store, depends=False):
    def of(mine, other, name):
        def thread(t):
            value = t.load(other, load)
            t.out[name] = value
            t.store(mine, value if depends else 1, store)
        return thread
    return explore([of("x", "y", "a"), of("y", "x", "b")], lambda o: o == {"a": 1, "b": 1})


def iriw(store, load, fence=NONE):
    def reader(first, second, name):
        def thread(t):
            t.out[name + "1"] = t.load(first, load)
            t.fence(fence)
            t.out[name + "2"] = t.load(second, load)
        return thread
    return explore([wrote(("x", 1, store)), wrote(("y", 1, store)), reader("x", "y", "a"), reader("y", "x", "b")],
                   lambda o: o == {"a1": 1, "a2": 0, "b1": 1, "b2": 0})


def two_plus_two(order, fence=NONE):
    def of(first, second):
        def thread(t):
            t.store(first, 1, order)
            t.fence(fence)
            t.store(second, 2, order)
        return thread
    return explore([of("x", "y"), of("y", "x")], lambda o: o["x"] == 1 and o["y"] == 1, final=True)


def wrc(first, store, load):
    def middle(t):
        if t.load("x", first) == 1:
            t.store("y", 1, store)

    def last(t):
        if t.load("y", load) == 1:
            t.out["x"] = t.load("x", RELAXED)
    return explore([wrote(("x", 1, RELAXED)), middle, last], lambda o: o.get("x") == 0)


def release_sequence(by_rmw):
    def writer(t):
        t.store("x", 1, PLAIN)
        t.store("y", 1, RELEASE)
        if not by_rmw:
            t.store("y", 2, RELAXED)

    def between(t):
        if by_rmw:
            t.rmw("y", lambda old: 2 if old == 1 else None, RELAXED)

    def reader(t):
        if t.load("y", ACQUIRE) == 2:
            t.out["x"] = t.load("x", PLAIN)
    return explore([writer, between, reader], lambda o: o.get("x") == 0)


class Classics(unittest.TestCase):
    def allowed(self, found):
        self.assertIsNotNone(found)

    def forbidden(self, found):
        self.assertIsNone(found)

    def test_message_passing(self):
        self.allowed(mp(RELAXED, RELAXED))
        self.allowed(mp(RELEASE, RELAXED))
        self.allowed(mp(RELAXED, ACQUIRE))
        self.forbidden(mp(RELEASE, ACQUIRE))
        self.forbidden(mp(SEQ_CST, SEQ_CST))

    def test_message_passing_by_fences(self):
        self.forbidden(mp(RELAXED, RELAXED, RELEASE, ACQUIRE))
        self.forbidden(mp(RELAXED, ACQUIRE, RELEASE))
        self.forbidden(mp(RELEASE, RELAXED, NONE, ACQUIRE))
        self.allowed(mp(RELAXED, RELAXED, RELEASE, NONE))
        self.allowed(mp(RELAXED, RELAXED, NONE, ACQUIRE))
        self.allowed(mp(RELAXED, RELAXED, ACQUIRE, RELEASE))

    def test_plain_data(self):
        self.forbidden(mp(RELEASE, ACQUIRE, data=PLAIN))
        self.assertIn("race on x", mp(RELEASE, RELAXED, data=PLAIN))

    def test_store_buffering(self):
        self.allowed(sb(RELAXED, RELAXED))
        self.allowed(sb(RELEASE, ACQUIRE))
        self.allowed(sb(SEQ_CST, ACQUIRE))
        self.allowed(sb(RELEASE, SEQ_CST))
        self.forbidden(sb(SEQ_CST, SEQ_CST))
        self.forbidden(sb(RELAXED, RELAXED, SEQ_CST))
        self.allowed(sb(RELAXED, RELAXED, ACQ_REL))

    def test_load_buffering(self):
        self.allowed(lb(RELAXED, RELAXED))
        self.forbidden(lb(ACQUIRE, RELAXED))
        self.forbidden(lb(RELAXED, RELEASE))
        self.forbidden(lb(RELAXED, RELAXED, depends=True))

    def test_independent_reads(self):
        self.allowed(iriw(RELAXED, RELAXED))
        self.allowed(iriw(RELEASE, ACQUIRE))
        self.allowed(iriw(SEQ_CST, ACQUIRE))
        self.forbidden(iriw(SEQ_CST, SEQ_CST))
        self.forbidden(iriw(RELAXED, RELAXED, SEQ_CST))

    def test_two_writers(self):
        self.allowed(two_plus_two(RELAXED))
        self.allowed(two_plus_two(RELEASE))
        self.forbidden(two_plus_two(SEQ_CST))
        self.forbidden(two_plus_two(RELAXED, SEQ_CST))

    def test_causality_is_transitive(self):
        self.forbidden(wrc(ACQUIRE, RELEASE, ACQUIRE))
        self.forbidden(wrc(RELAXED, RELEASE, ACQUIRE))  # by the coherence of the two reads
        self.allowed(wrc(ACQUIRE, RELAXED, ACQUIRE))
        self.allowed(wrc(ACQUIRE, RELEASE, RELAXED))

    def test_coherence(self):
        def reader(t):
            t.out["a"] = t.load("x", RELAXED)
            t.out["b"] = t.load("x", RELAXED)
        self.forbidden(explore([wrote(("x", 1, RELAXED), ("x", 2, RELAXED)), reader],
                               lambda o: o["a"] > o["b"]))

        def other(t):
            t.out["c"] = t.load("x", RELAXED)
            t.out["d"] = t.load("x", RELAXED)
        self.forbidden(explore([wrote(("x", 1, RELAXED)), wrote(("x", 2, RELAXED)), reader, other],
                               lambda o: (o["a"], o["b"], o["c"], o["d"]) == (1, 2, 2, 1)))

    def test_read_modify_writes_take_turns(self):
        def adder(name):
            def thread(t):
                t.out[name] = t.rmw("x", lambda old: old + 1, RELAXED)
            return thread
        self.forbidden(explore([adder("a"), adder("b")], lambda o: o["a"] == o["b"]))
        self.allowed(explore([adder("a"), adder("b")], lambda o: o["a"] == 1))

    def test_release_sequences(self):
        self.forbidden(release_sequence(by_rmw=True))
        self.allowed(release_sequence(by_rmw=False))  # since C++20

    def test_mixed_sequential_consistency(self):
        # Z6.U of Lahav et al.: C++11 forbade it, no compiler to POWER kept to that, and C++20 allows it.
        def first(t):
            t.store("x", 1, SEQ_CST)
            t.store("y", 1, RELEASE)

        def second(t):
            t.out["a"] = t.rmw("y", lambda old: old + 1, SEQ_CST)
            t.out["b"] = t.load("y", RELAXED)

        def third(t):
            t.store("y", 3, SEQ_CST)
            t.out["c"] = t.load("x", SEQ_CST)
        self.allowed(explore([first, second, third], lambda o: (o["a"], o["b"], o["c"]) == (1, 3, 0)))

    def test_a_failed_exchange_writes_nothing(self):
        def thread(t):
            t.out["a"] = t.rmw("x", lambda old: None, ACQ_REL)
        self.forbidden(explore([thread, wrote(("x", 1, RELAXED))], lambda o: o["x"] == 0, final=True))


if __name__ == "__main__":
    unittest.main()
