"""orders.py: which orders deadlock, by hand, and that its jobs and twins are what their names say."""
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import orders  # noqa: E402
from orders import Call, Part, Threads  # noqa: E402


def part(name, comm, *calls):
    return Part(name, {comm: sorted({rank for call in calls for rank in call.members})}, list(calls))


A, B = (0, 0), (1, 0)  # the items of two threads


class Ends(unittest.TestCase):
    def check(self, parts, wanted, **by_rank):
        self.assertEqual(orders.ends({int(rank[1:]): order for rank, order in by_rank.items()}, parts), wanted)

    def test_two_reductions(self):
        parts = [part("a", "dp", Call("all_reduce", "dp", [0, 1])), part("b", "tp", Call("all_gather", "tp", [0, 1]))]
        self.check(parts, True, r0=[A, B], r1=[A, B])
        self.check(parts, True, r0=[B, A], r1=[B, A])
        self.check(parts, False, r0=[A, B], r1=[B, A])

    def test_the_root_of_a_broadcast_does_not_wait(self):
        parts = [part("a", "dp", Call("broadcast", "dp", [0, 1], 0)), part("b", "tp", Call("all_reduce", "tp", [0, 1]))]
        self.check(parts, True, r0=[A, B], r1=[B, A])
        self.check(parts, False, r0=[B, A], r1=[A, B])

    def test_nor_does_who_sends_or_gives_to_a_root(self):
        for call in (Call("transfer", "dp", [0, 1], 0), Call("reduce", "dp", [0, 1], 1)):
            parts = [part("a", "dp", call), part("b", "tp", Call("all_reduce", "tp", [0, 1]))]
            self.check(parts, True, r0=[A, B], r1=[B, A])
            self.check(parts, False, r0=[B, A], r1=[A, B])

    def test_a_ring_of_pairs(self):
        parts = [part(name, name, Call("all_reduce", name, members))
                 for name, members in (("a", [0, 1]), ("b", [1, 2]), ("c", [0, 2]))]
        self.check(parts, True, r0=[A, (2, 0)], r1=[B, A], r2=[B, (2, 0)])
        self.check(parts, False, r0=[A, (2, 0)], r1=[B, A], r2=[(2, 0), B])

    def test_ranks_that_share_one_communicator_only(self):
        parts = [part("a", "dp", Call("all_reduce", "dp", [0, 1])), part("b", "tp", Call("all_reduce", "tp", [1, 2]))]
        self.check(parts, True, r0=[A], r1=[B, A], r2=[B])


class Guards(unittest.TestCase):
    def job(self, *turns):
        return Threads(2, "stream", [part("a", "dp", Call("all_reduce", "dp", [0, 1])),
                                     part("b", "tp", Call("all_reduce", "tp", [0, 1]))], list(turns))

    def test_one_rank_is_not_enough(self):
        job = self.job([0, 1])
        self.assertEqual(len(job.deadlocks()), 2)
        job.guards = {0: "fork_join"}
        self.assertEqual(job.deadlocks(), [{0: [A, B], 1: [B, A]}])
        self.assertTrue(job.allows([(1, "tp", "dp")]))
        self.assertFalse(job.allows([(0, "tp", "dp")]))
        job.guards[1] = "flag"
        self.assertEqual(job.deadlocks(), [])
        self.assertFalse(job.allows([(1, "tp", "dp")]))

    def test_what_is_no_guard(self):
        job = self.job([0, 1])
        job.guards = {0: "stale_event", 1: "stale_event"}
        self.assertEqual(len(job.deadlocks()), 2)
        job = self.job([0, 1], [0, 1])
        job.guards = {0: "half_flag", 1: "half_flag"}
        # Each step hands over once, and the first thread may go on before the second has come.
        self.assertIn({0: [A, (0, 1), B, (1, 1)], 1: [A, B, (0, 1), (1, 1)]}, job.deadlocks())

    def test_streams_of_their_own(self):
        job = self.job([0, 1])
        job.shape = "apart"
        self.assertEqual(job.deadlocks(), [])


class Pairs(unittest.TestCase):
    def test_a_job_and_its_twin(self):
        texts = set()
        for index in range(60):
            guilty, twin, rests_on = orders.pair(index, random.Random(f"test/{index}"))
            self.assertTrue(guilty.deadlocks())
            self.assertEqual(twin.deadlocks(), [])
            self.assertTrue(rests_on)
            for job in (guilty, twin):
                text = job.program().text()
                self.assertNotIn("after=", text)
                self.assertNotIn(text, texts)
                texts.add(text)
            forced = guilty.program(guilty.deadlocks()[0], 500).text()
            self.assertNotIn("sleep", forced)
            self.assertEqual("patience=500" in forced, guilty.shape != "fused")
            again = orders.pair(index, random.Random(f"test/{index}"))
            self.assertEqual([job.program().text() for job in again[:2]], [job.program().text() for job in (guilty, twin)])


if __name__ == "__main__":
    unittest.main()
