"""The protocols of shared memory as small programs: what their words are, who writes and reads them in which
order, and what must never be seen. `o(NAME)` is the order of the access that the sources mark with NAME.

Each function returns the threads and bad(out), and what else explore() takes.
"""

from explorer import PLAIN, RELAXED, SEQ_CST

PROTOCOLS = []


def protocol(function):
    PROTOCOLS.append(function)
    return function


# The ring of a thread, of one slot.


@protocol
def ring(o):
    """Records are published by the head and given back by the tail, after which their slot is written again."""
    def shim(t):
        t.store("record", 1, PLAIN)
        t.store("head", 1, o("ring.publish"))
        if t.load("tail", o("ring.room")) == 1:
            t.store("record", 2, PLAIN)
            t.store("head", 2, o("ring.publish"))

    def collector(t):
        head = t.load("head", o("ring.position"))
        if head >= 1:
            t.out["head"] = head
            t.out["record"] = t.load("record", o("ring.copy"))
            t.store("tail", 1, o("ring.consumed"))
    return [shim, collector], lambda out: out.get("head") == 1 and out["record"] != 1


@protocol
def ring_of_the_watcher(o):
    """As `ring`: the watcher looks for room for what it says of graphs by a load of its own."""
    def watcher(t):
        t.store("record", 1, PLAIN)
        t.store("head", 1, o("ring.publish"))
        if t.load("tail", o("graph.room")) == 1:
            t.store("record", 2, PLAIN)

    def collector(t):
        if t.load("head", o("ring.position")) == 1:
            t.load("record", o("ring.copy"))
            t.store("tail", 1, o("ring.consumed"))
    return [watcher, collector], lambda out: False


@protocol
def ring_place(o):
    """Where a thread's ring is stands in its slot before the first record is published."""
    def shim(t):
        t.store("slots", 1, o("shim.put"))
        t.store("offset", 1, o("ring.place"))
        t.store("record", 1, PLAIN)
        t.store("head", 1, o("ring.publish"))

    def collector(t):
        if t.load("head", o("ring.position")) == 1:
            t.out["offset"] = t.load("offset", o("collector.load"))
            t.out["slots"] = t.load("slots", o("collector.load"))
    return [shim, collector], lambda out: out.get("offset") == 0 or out.get("slots") == 0


@protocol
def ring_handed_over(o):
    """A slot goes to another thread once all of it is collected: records carry the generation of their writer."""
    def first(t):
        t.store("record", 1, PLAIN)
        t.store("head", 1, o("ring.publish"))

    def second(t):
        if t.load("tail", o("slot.collected")) == 1:
            t.rmw("generation", lambda old: 1, o("reset.generation"))
            t.store("record", 2, PLAIN)
            t.store("head", 2, o("ring.publish"))

    def collector(t):
        head = t.load("head", o("ring.position"))
        generation = t.load("generation", o("collector.load"))
        if head >= 1:
            t.out.update(head=head, generation=generation, record=t.load("record", o("ring.copy")))
            t.store("tail", 1, o("ring.consumed"))
    return [first, second, collector], lambda out: "head" in out and (
        out["generation"] != out["head"] - 1 or out["record"] != out["head"])


# Sequence locks.


@protocol
def call_of_a_thread(o):
    """A thread enters a call and leaves it; a reader gets the fields of one moment or looks again."""
    def shim(t):
        put = o("shim.put")
        t.store("seq", 1, put)
        t.fence(o("enter.begin"))
        t.store("call", 7, put)
        t.store("order", 1, put)
        t.store("seq", 2, o("enter.end"))
        t.store("seq", 3, put)
        t.fence(o("leave.begin"))
        t.store("call", 0, put)
        t.store("left", 1, put)
        t.store("seq", 4, o("leave.end"))

    def collector(t):
        before = t.load("seq", o("thread.before"))
        words = o("collector.words")
        t.out.update(call=t.load("call", words), order=t.load("order", words), left=t.load("left", words))
        t.fence(o("thread.behind"))
        t.out.update(before=before, after=t.load("seq", o("collector.load")))
    moments = {0: (0, 0, 0), 2: (7, 1, 0), 4: (0, 1, 1)}
    return [shim, collector], lambda out: out["before"] == out["after"] and out["before"] % 2 == 0 and \
        (out["call"], out["order"], out["left"]) != moments[out["before"]]


@protocol
def polling(o):
    """How often a thread has polled is not read as of what it polls next."""
    def shim(t):
        put = o("shim.put")
        t.store("object", 0, put)
        t.store("count", 1, put)
        t.store("object", 2, o("poll.object"))

    def collector(t):
        polled = t.load("object", o("thread.polled"))
        words = o("collector.words")
        t.out.update(polled=polled, object=t.load("object", words), count=t.load("count", words))
    return [shim, collector], lambda out: out["polled"] == out["object"] == 2 and out["count"] != 1, \
        {"object": 1, "count": 1000}


@protocol
def slot_of_another_thread(o):
    """A slot whose thread ended inside a call goes to another: that one is not taken for being in the call."""
    def second(t):
        put = o("shim.put")
        t.store("seq", 3, put)
        t.fence(o("reset.begin"))
        t.store("call", 0, put)
        t.store("tid", 2, put)
        t.store("seq", 4, o("reset.end"))

    def collector(t):
        before = t.load("seq", o("thread.before"))
        words = o("collector.words")
        t.out.update(tid=t.load("tid", words), call=t.load("call", words))
        t.fence(o("thread.behind"))
        t.out.update(before=before, after=t.load("seq", o("collector.load")))
    return [second, collector], lambda out: out["before"] == out["after"] and out["before"] % 2 == 0 and \
        (out["tid"], out["call"]) not in ((1, 7), (2, 0)), {"seq": 2, "tid": 1, "call": 7}


@protocol
def records_of_a_call(o):
    """A thread that is seen in a call has published what it did before, or is seen to have moved."""
    def shim(t):
        t.store("record", 1, PLAIN)
        t.store("head", 1, o("ring.publish"))
        t.store("seq", 1, o("shim.put"))
        t.fence(o("enter.begin"))
        t.store("call", 7, o("shim.put"))
        t.store("seq", 2, o("enter.end"))

    def collector(t):
        if t.load("seq", o("thread.before")) == 2:
            t.out["head"] = t.load("head", o("ring.position"))

    def other(t):
        # Its head first, then its fields: the head is not ahead of the call.
        if t.load("head", o("thread.head")) == 1:
            t.out["record"] = t.load("record", PLAIN)
    return [shim, collector, other], lambda out: out.get("head") == 0


@protocol
def numbers(o):
    """The count and the hash of what was called on a communicator are of one moment."""
    def shim(t):
        put = o("shim.put")
        for n in (1, 2):
            t.store("seq", 2 * n - 1, put)
            t.fence(o("numbers.begin"))
            t.store("next", n, put)
            t.store("hash", n, put)
            t.store("seq", 2 * n, o("numbers.end"))

    def collector(t):
        before = t.load("seq", o("numbers.before"))
        words = o("collector.words")
        t.out.update(next=t.load("next", words), hash=t.load("hash", words))
        t.fence(o("numbers.behind"))
        t.out.update(before=before, after=t.load("seq", o("collector.load")))
    return [shim, collector], lambda out: out["before"] == out["after"] and out["before"] % 2 == 0 and \
        (2 * out["next"], 2 * out["hash"]) != (out["before"], out["before"])


@protocol
def numbers_given_away(o):
    """A slot of numbers goes to another communicator: its counts are never read as the other's."""
    def shim(t):
        put = o("shim.put")
        t.store("comm", 0, o("numbers.free"))
        t.store("seq", 1, put)
        t.fence(o("numbers.begin"))
        t.store("next", 0, put)
        t.store("seq", 2, o("numbers.end"))
        t.store("comm", 2, o("numbers.own"))

    def collector(t):
        before = t.load("seq", o("numbers.before"))
        words = o("collector.words")
        t.out.update(comm=t.load("comm", words), next=t.load("next", words))
        t.fence(o("numbers.behind"))
        t.out.update(before=before, after=t.load("seq", o("collector.load")))
    return [shim, collector], lambda out: out["before"] == out["after"] and out["before"] % 2 == 0 and \
        (out["comm"], out["next"]) in ((1, 0), (2, 5)), {"comm": 1, "next": 5}


def taken_over(o, end, seen, initial):
    """Whoever takes the numbers of a communicator that is over goes on from its sequence number: two changes
    under one number would look like one."""
    def last_user(t):
        put = o("shim.put")
        t.store("seq", 1, put)
        t.fence(o("numbers.begin"))
        t.store("next", 1, put)
        t.store("seq", 2, o("numbers.end"))
        end(t)

    def taker(t):
        if seen(t):
            t.out["seq"] = t.load("seq", RELAXED)
    return [last_user, taker], lambda out: out.get("seq", 2) != 2, initial


@protocol
def numbers_of_a_destroyed_one(o):
    return taken_over(o, lambda t: t.store("state", 4, o("comm.state")),
                      lambda t: t.load("state", o("numbers.over")) == 4, {"state": 2})


@protocol
def numbers_of_a_released_one(o):
    return taken_over(o, lambda t: t.store("comm", 0, o("comm.release")),
                      lambda t: t.load("comm", o("numbers.owner")) != 1, {"comm": 1})


@protocol
def line_of_signals(o):
    """A look-up without a lock finds a line of signals filled in, also where the slot was another's."""
    def claimer(t):
        put = o("shim.put")
        t.store("comm", 0, o("numbers.free"))
        t.store("seq", 1, put)
        t.fence(o("numbers.begin"))
        t.store("kind", 2, put)
        t.store("seq", 2, o("numbers.end"))
        t.store("comm", 2, o("numbers.own"))
        t.store("line", 1, o("numbers.tell_line"))

    def finder(t):
        # Its own entry, or a stale one that leads to the same slot.
        t.out["line"] = t.load("line", o("numbers.line"))
        t.out["comm"] = t.load("comm", o("numbers.is_of"))
        t.out["kind"] = t.load("kind", RELAXED)
    return [claimer, finder], lambda out: out["comm"] == 2 and out["kind"] != 2 or \
        out["line"] == 1 and out["comm"] != 2, {"comm": 1, "kind": 1}


# Slots whose owner's id is their stamp.


@protocol
def stream_slot(o):
    """A stream's slot goes to another stream: what was done on one is never read as done on the other."""
    def shim(t):
        put = o("shim.put")
        t.store("stream", 0, put)
        t.fence(o("stream.free"))
        t.store("enqueued", 0, put)
        t.store("done", 0, put)
        t.store("stream", 2, o("stream.own"))

    def collector(t):
        before = t.load("stream", o("owned.before"))
        words = o("collector.words")
        t.out.update(enqueued=t.load("enqueued", words), done=t.load("done", words))
        t.fence(o("owned.behind"))
        t.out.update(before=before, after=t.load("stream", o("collector.load")))
    moments = {1: (9, 9), 2: (0, 0)}
    return [shim, collector], lambda out: out["before"] == out["after"] and out["before"] in moments and \
        (out["enqueued"], out["done"]) != moments[out["before"]], {"stream": 1, "enqueued": 9, "done": 9}


@protocol
def comm_slot(o):
    """As `stream_slot`, of a communicator."""
    def shim(t):
        put = o("shim.put")
        t.store("comm", 0, put)
        t.fence(o("comm.free"))
        t.store("uid", 2, put)
        t.store("rank", 2, put)
        t.store("comm", 2, o("comm.own"))

    def collector(t):
        before = t.load("comm", o("owned.before"))
        words = o("collector.words")
        t.out.update(uid=t.load("uid", words), rank=t.load("rank", words))
        t.fence(o("owned.behind"))
        t.out.update(before=before, after=t.load("comm", o("collector.load")))
    return [shim, collector], lambda out: out["before"] == out["after"] and out["before"] != 0 and \
        (out["uid"], out["rank"]) != (out["before"], out["before"]), {"comm": 1, "uid": 1, "rank": 1}


def comm_reused(o, end, seen):
    def last_user(t):
        t.store("uid", 1, PLAIN)
        end(t)

    def taker(t):
        if seen(t):
            t.store("uid", 2, PLAIN)
    return [last_user, taker], lambda out: False


@protocol
def comm_given_back(o):
    """Whoever takes a communicator's slot writes after its last user."""
    return comm_reused(o, lambda t: t.store("unused", 1, o("comm.give_back")),
                       lambda t: t.load("unused", o("comm.unused")) == 1)


@protocol
def comm_over(o):
    """The same, by its state."""
    return comm_reused(o, lambda t: t.store("state", 4, o("comm.state")),
                       lambda t: t.load("state", o("comm.is_over")) == 4)


@protocol
def queue_of_a_stream(o):
    """A stream's queue stays with its slot: what the old stream left in it is not read as the new one's, and
    what the new one has is not taken for the old one's."""
    def shim(t):
        put = o("shim.put")
        t.store("stream", 0, put)
        t.fence(o("stream.free"))
        t.store("gap", 0, put)
        t.store("first", 1, o("pending.forget"))
        t.store("stream", 2, o("stream.own"))

    def collector(t):
        before = t.load("stream", o("owned.before"))
        t.fence(o("owned.behind"))
        t.out["first"] = t.load("first", o("pending.read_first"))
        t.out["gap"] = t.load("gap", o("pending.gap"))
        t.out.update(before=before, after=t.load("stream", o("owned.before")))
    return [shim, collector], lambda out: out["before"] == out["after"] and \
        (out["before"], out["first"], out["gap"]) not in ((1, 0, 1), (2, 1, 0), (0, 0, 1), (0, 0, 0), (0, 1, 0)), \
        {"stream": 1, "gap": 1}


# The queue of what is unfinished on a stream, of one entry.


def add_pending(t, o, place):
    put = o("shim.put")
    t.store("stamp", 0, put)
    t.fence(o("pending.begin"))
    t.store("operation", place + 1, put)
    t.store("count", place + 1, put)
    t.store("stamp", place + 1, o("pending.end"))
    t.store("next", place + 1, o("pending.next"))


def read_pending(t, o):
    """Whether the queue is whole, and the operation read from it."""
    next_place = t.load("next", o("pending.read_next"))
    first = t.load("first", o("pending.read_first"))
    t.out.update(next=next_place, first=first, operation=0, count=0, whole=1, place=-1)
    if first < next_place:
        place = int(first)
        t.out["place"] = place
        before = t.load("stamp", o("pending.before"))
        operation = t.load("operation", o("collector.words"))
        count = t.load("count", o("collector.words"))
        t.fence(o("pending.behind"))
        if before == place + 1 and t.load("stamp", o("collector.load")) == before:
            t.out.update(operation=operation, count=count)
        elif t.load("first", o("pending.read_first")) <= place:
            t.out["whole"] = 0


@protocol
def pending(o):
    """An entry is read whole or not at all, while its slot goes on to the next operation."""
    def shim(t):
        add_pending(t, o, 0)
        t.store("first", 1, o("pending.first"))
        add_pending(t, o, 1)

    def collector(t):
        read_pending(t, o)
    return [shim, collector], lambda out: out["operation"] != 0 and \
        (out["operation"], out["count"]) != (out["place"] + 1, out["place"] + 1)


@protocol
def pending_before_counted(o):
    """An operation that is counted, and in no whole queue, has ended: it is queued before it is counted."""
    def shim(t):
        put = o("shim.put")
        t.store("offset", 1, o("pending.queue"))
        add_pending(t, o, 0)
        t.store("seq", 1, put)
        t.fence(o("numbers.begin"))
        t.store("counted", 1, put)
        t.store("seq", 2, o("numbers.end"))

    def collector(t):
        if t.load("seq", o("numbers.before")) == 2 and t.load("counted", o("collector.words")) == 1:
            t.out["offset"] = t.load("offset", o("collector.words"))
            read_pending(t, o)
    return [shim, collector], lambda out: "whole" in out and (
        out["offset"] == 0 or out["whole"] == 1 and out["operation"] == 0)


# Streams, events and handles inside of the process.


@protocol
def handle_table(o):
    """A look-up without a lock finds a stream filled in."""
    def adder(t):
        t.store("state", 1, PLAIN)
        t.store("stream", 1, o("stream.own"))
        t.store("index", 1, RELAXED)
        t.store("key", 5, o("stream.tell"))

    def finder(t):
        if t.load("key", o("table.find")) == 5:
            t.out["index"] = t.load("index", RELAXED)
            t.out["stream"] = t.load("stream", RELAXED)
            t.out["state"] = t.load("state", PLAIN)
    return [adder, finder], lambda out: out.get("index") == 0 or out.get("stream") == 0


@protocol
def handle_erased(o):
    """An entry that is free again is filled anew under the table's lock."""
    def eraser(t):
        if t.rmw("lock", lambda old: None if old else 1, o("lock.take")) == 0:
            t.store("state", 0, PLAIN)
            t.store("key", 1, o("table.erase"))
            t.store("lock", 0, o("lock.leave"))

    def adder(t):
        if t.rmw("lock", lambda old: None if old else 1, o("lock.take")) == 0:
            if t.load("key", RELAXED) == 1:
                t.store("state", 2, PLAIN)
                t.store("key", 6, o("table.insert"))
            t.store("lock", 0, o("lock.leave"))

    def finder(t):
        if t.load("key", o("table.find")) == 6:
            t.out["state"] = t.load("state", PLAIN)
    return [eraser, adder, finder], lambda out: out.get("state", 2) != 2, {"key": 5}


@protocol
def cached_stream(o):
    """A thread that kept a stream's state finds the handle there again: it is another stream's, filled in."""
    def adder(t):
        t.store("id", 2, PLAIN)
        t.store("key", 5, o("stream.key"))

    def user(t):
        if t.load("key", o("stream.cached")) == 5:
            t.out["id"] = t.load("id", PLAIN)
    return [adder, user], lambda out: out.get("id", 2) != 2


@protocol
def last_operation(o):
    """Whoever sees a stream's last operation sees its ordinal handed out: the word holds its low bits only."""
    def launcher(t):
        t.rmw("enqueued", lambda old: 1, RELAXED)
        t.store("last_word", 1, o("last_word.write"))

    def waiter(t):
        t.out["word"] = t.load("last_word", o("last_word.behind"))
        t.out["enqueued"] = t.load("enqueued", RELAXED)
    return [launcher, waiter], lambda out: out["word"] > out["enqueued"]


@protocol
def event_place(o):
    """The same through an event that another thread recorded behind it."""
    def launcher(t):
        t.rmw("enqueued", lambda old: 1, RELAXED)
        t.store("last_word", 1, o("last_word.write"))

    def recorder(t):
        t.store("place", t.load("last_word", o("last_word.record")), o("place.write"))

    def waiter(t):
        t.out["word"] = t.load("place", o("place.read"))
        t.out["enqueued"] = t.load("enqueued", RELAXED)
    return [launcher, recorder, waiter], lambda out: out["word"] > out["enqueued"]


@protocol
def event_forgotten(o):
    """An entry of a destroyed event goes to another: its places stay those of the new one."""
    def forgets(t):
        if t.load("key", o("event.find")) == 5:
            t.store("place", 0, RELAXED)
            t.store("key", 1, o("event.erase"))

    def adds(t):
        if t.load("key", RELAXED) == 1 and t.rmw("key", lambda old: 6 if old == 1 else None, o("event.add")) == 1:
            t.store("place", 6, RELAXED)
            t.out["added"] = 1
    return [forgets, adds], lambda out: out.get("added") == 1 and out["place"] != 6, {"key": 5, "place": 3}, True


@protocol
def event_found(o):
    """An entry that another thread has added is looked at after what was there before."""
    def forgets(t):
        t.store("place", 0, RELAXED)
        t.store("key", 1, o("event.erase"))

    def adds(t):
        t.rmw("key", lambda old: 6 if old == 1 else None, o("event.add"))

    def finds(t):
        if t.load("key", o("event.find")) == 6:
            t.out["place"] = t.load("place", RELAXED)
    return [forgets, adds, finds], lambda out: out.get("place", 0) != 0, {"key": 5, "place": 3}


@protocol
def calls_and_rows(o):
    """Who sees a call counted sees its row marked, also by another thread."""
    def first(t):
        t.rmw("rows", lambda old: old | 1, o("calls.row"))

    def second(t):
        if t.load("rows", RELAXED) == 1:
            t.store("calls", 1, o("calls.count"))

    def collector(t):
        if t.load("calls", o("calls.read")) == 1:
            t.out["rows"] = t.load("rows", o("collector.words"))
    return [first, second, collector], lambda out: out.get("rows") == 0


# The watcher and the driver.


@protocol
def driver_functions(o):
    """The driver's functions are there once they are known."""
    def finder(t):
        t.store("function", 1, PLAIN)
        t.store("known", 1, o("driver.tell"))

    def user(t):
        if t.load("known", o("driver.known")) == 1:
            t.load("function", PLAIN)
    return [finder, user], lambda out: False


@protocol
def markers(o):
    """A marker is queued by the head and its slot given back by the tail."""
    def producer(t):
        t.load("tail", o("markers.room"))
        t.store("event", 1, PLAIN)
        t.store("covered", 1, RELAXED)
        t.store("head", 1, o("markers.add"))
        if t.load("tail", o("markers.room")) == 1:
            t.store("event", 2, PLAIN)

    def watcher(t):
        if t.load("head", o("markers.head")) == 1:
            t.out["covered"] = t.load("covered", o("markers.covered"))
            t.load("event", PLAIN)
            t.store("tail", 1, o("markers.tail"))
    return [producer, watcher], lambda out: out.get("covered") == 0


@protocol
def markers_reclaimed(o):
    """The same, of the event that the slot held."""
    def producer(t):
        if t.load("tail", o("markers.reclaim")) == 1:
            t.store("event", 2, PLAIN)

    def watcher(t):
        t.load("event", PLAIN)
        t.store("tail", 1, o("markers.tail"))
    return [producer, watcher], lambda out: False


@protocol
def marker_moved(o):
    """A full queue's newest marker moves on: no query of the old record counts for the new place. `recorded` stands for
    the driver's own account of the event."""
    def producer(t):
        t.store("recorded", 2, RELAXED)
        t.store("covered", 2, o("markers.move"))

    def watcher(t):
        t.out["covered"] = t.load("covered", o("markers.covered"))
        t.out["queried"] = t.load("recorded", RELAXED)
    return [producer, watcher], lambda out: out["queried"] < out["covered"], {"covered": 1, "recorded": 1}


@protocol
def slot_of_a_drained_stream(o):
    """The watcher has written to a stream's slot for the last time when it counts as drained."""
    def watcher(t):
        t.store("done", 9, o("markers.done"))
        t.store("tail", 1, o("markers.tail"))

    def taker(t):
        if t.load("tail", o("markers.drained")) == 1:
            t.store("done", 0, o("shim.put"))
            t.out["taken"] = 1
    return [watcher, taker], lambda out: out.get("taken") == 1 and out["done"] != 0, {"done": 1}, True


def busy(o, stop, wait, looks):
    """Who is about to tear down what the watcher uses says so and waits; a watcher that begins looks first."""
    def ends(t):
        t.store("over", 1, o(stop))
        if t.load("busy", o(wait)) == 0:
            t.store("context", 1, PLAIN)

    def watcher(t):
        t.store("busy", 1, o("busy.begin"))
        if t.load("over", o(looks)) == 0:
            t.load("context", PLAIN)
        t.store("busy", 0, o("busy.end"))
    return [ends, watcher], lambda out: False


@protocol
def queue_broken(o):
    return busy(o, "busy.break", "busy.wait", "busy.broken")


@protocol
def graphs_dropped(o):
    return busy(o, "busy.drop_graphs", "busy.wait", "busy.graphs")


@protocol
def exiting(o):
    return busy(o, "busy.exit", "busy.exit_wait", "busy.exiting")


@protocol
def graph_markers(o):
    """Markers in graphs are filled in before they are counted."""
    def captures(t):
        t.store("marker", 1, PLAIN)
        t.store("used", 1, o("graph.add"))

    def watcher(t):
        if t.load("used", o("graph.used")) == 1:
            t.load("marker", PLAIN)
    return [captures, watcher], lambda out: False


# Rounds.


@protocol
def round_of_queries(o):
    """An answer stands for a query after the request, and what it found is read with it. `event` stands for the
    driver's own account: the work was done before the request."""
    def collector(t):
        t.store("event", 1, RELAXED)
        t.store("request", 1, o("round.raise"))
        if t.load("answer", o("round.read")) == 1:
            t.out["early"] = t.load("early", o("collector.words"))
            t.out["done"] = t.load("done", o("collector.words"))

    def watcher(t):
        if t.load("request", o("round.seen")) == 1:
            t.store("early", 1, o("shim.put"))
            t.store("done", t.load("event", RELAXED), o("markers.done"))
            t.store("answer", 1, o("round.answer"))
    return [collector, watcher], lambda out: out.get("done") == 0 or out.get("early") == 0


@protocol
def slots_behind_the_header(o):
    """A slot that the header counts is there."""
    def shim(t):
        t.store("stream", 1, o("stream.own"))
        t.store("used", 1, SEQ_CST)

    def collector(t):
        if t.load("used", o("collector.words")) == 1:
            t.fence(o("header.behind"))
            t.out["stream"] = t.load("stream", o("owned.before"))
    return [shim, collector], lambda out: out.get("stream") == 0


def sleep_and_wake(o, ring_word, change, look):
    """A sleeper reads a word, looks, and sleeps while the word is the same; who changes something changes the word
    and wakes. `waiters` stands for the kernel's queue."""
    def sleeper(t):
        seen = t.load("word", ring_word)
        t.out["found"] = look(t, seen)
        if t.out["found"] == 0:
            t.store("waiters", 1, RELAXED)
            t.sleep()
            t.out["asleep"] = 1 if t.load("word", RELAXED) == int(seen) else 0

    def changer(t):
        change(t)
        t.sleep()
        t.out["woken"] = t.load("waiters", RELAXED)
    return [sleeper, changer], lambda out: out["found"] == 0 and out["asleep"] == 1 and out["woken"] == 0


@protocol
def round_request(o):
    """The watcher does not sleep through a request."""
    return sleep_and_wake(o, o("round.seen"), lambda t: t.store("word", 1, o("round.raise")), lambda t, seen: seen)


@protocol
def hosts_of_a_communicator(o):
    """The emulator's host threads do not sleep through a change."""
    def change(t):
        t.store("joined", 1, RELAXED)
        t.rmw("word", lambda old: 1, o("hosts.notify"))
    return sleep_and_wake(o, o("hosts.seen"), change, lambda t, seen: t.load("joined", RELAXED))


@protocol
def bell_of_a_device(o):
    """An emulated device's thread neither."""
    def change(t):
        t.store("work", 1, RELAXED)
        t.rmw("word", lambda old: 1, o("device.ring"))
    return sleep_and_wake(o, o("device.bell"), change, lambda t, seen: t.load("work", RELAXED))


# From the first call of a process.


@protocol
def attached(o):
    """A thread that finds the process attached finds its state filled in."""
    def attaches(t):
        t.store("state", 1, PLAIN)
        t.store("process", 1, o("fork_page.process"))
        t.store("epoch", 1, o("fork_page.epoch"))

    def reader(name):
        def thread(t):
            if t.load("epoch", o(name)) == 1:
                t.out[name] = t.load("process", o("fork_page.use"))
                t.load("state", PLAIN)
        return thread
    names = ("fork_page.attached", "fork_page.current", "fork_page.waited")
    return [attaches] + [reader(name) for name in names], lambda out: 0 in out.values()


@protocol
def stopped_at_exit(o):
    """The handler of exit goes by the process alone."""
    def attaches(t):
        t.store("state", 1, PLAIN)
        t.store("process", 1, o("fork_page.process"))

    def stops(t):
        if t.load("process", o("fork_page.stop")) == 1:
            t.load("state", PLAIN)
    return [attaches, stops], lambda out: False


@protocol
def page_of_the_process(o):
    """A page that a thread has put in place is found with its content."""
    def makes(t):
        t.store("content", 1, PLAIN)
        t.rmw("page", lambda old: 1 if old == 0 else None, SEQ_CST)

    def finds(t):
        if t.load("page", o("fork_page.find")) == 1:
            t.load("content", PLAIN)
    return [makes, finds], lambda out: False


@protocol
def cupti_told(o):
    """The source's state reaches the header: the attaching thread sees it, or the source sees the process."""
    def attaches(t):
        t.store("process", 1, o("fork_page.process"))
        t.out["state"] = t.load("state", o("cupti.look"))

    def source(t):
        t.store("state", 2, o("cupti.state"))
        t.out["process"] = t.load("process", o("cupti.process"))
    return [attaches, source], lambda out: out["state"] == 0 and out["process"] == 0


@protocol
def try_lock(o):
    """What the shim's lock guards."""
    def thread(t):
        if t.rmw("lock", lambda old: None if old else 1, o("lock.take")) == 0:
            t.store("guarded", t.load("guarded", PLAIN) + 1, PLAIN)
            t.store("lock", 0, o("lock.leave"))
    return [thread, thread], lambda out: False


# The runtime.


@protocol
def doorbell(o):
    """A worker that has found nothing announces itself, looks again and sleeps on the bell: no step is missed."""
    def sleeper(t):
        bell = t.load("bell", o("bell.value"))
        t.rmw("sleepers", lambda old: 1, o("bell.announce"))
        t.out["version"] = t.load("version", o("version.look"))
        if t.out["version"] == 0:
            t.store("waiters", 1, RELAXED)
            t.sleep()
            t.out["asleep"] = 1 if t.load("bell", RELAXED) == int(bell) else 0

    def ringer(t):
        t.out["woken"] = 0
        t.rmw("version", lambda old: 1, o("version.publish"))
        if t.rmw("sleepers", lambda old: old + 0, o("bell.look")) != 0:
            t.rmw("bell", lambda old: 1, o("bell.ring"))
            t.sleep()
            t.out["woken"] = t.load("waiters", RELAXED)
    return [sleeper, ringer], lambda out: out.get("asleep") == 1 and out["woken"] == 0


@protocol
def doorbell_rung_before(o):
    """The same beside a sleeper for whom the bell is rung: who finds it rung already finds the work too."""
    def sleeper(t):
        bell = t.load("bell", o("bell.value"))
        t.rmw("sleepers", lambda old: old | 2, o("bell.announce"))
        t.out["work"] = t.load("work", RELAXED)
        if t.out["work"] == 0:
            t.store("waiters", 1, RELAXED)
            t.sleep()
            t.out["asleep"] = 1 if t.load("bell", RELAXED) == int(bell) else 0

    def ringer(t):
        t.store("work", 1, RELAXED)
        t.rmw("sleepers", lambda old: old, o("bell.look"))
        t.rmw("bell", lambda old: 1, o("bell.ring"))
        t.sleep()
        t.out["woken"] = t.load("waiters", RELAXED)
    return [sleeper, ringer], lambda out: out.get("asleep") == 1 and out["woken"] == 0, {"sleepers": 1}


@protocol
def published_tasks(o):
    """A worker that sees the version takes the list that it stands for: under the engine's mutex, so that the
    version itself orders nothing."""
    def publishes(t):
        if t.rmw("mutex", lambda old: None if old else 1, "acquire") == 0:
            t.store("tasks", 1, PLAIN)
            t.rmw("version", lambda old: 1, o("version.publish"))
            t.store("mutex", 0, "release")

    def worker(t):
        if t.load("version", o("version.look")) == 1:
            if t.rmw("mutex", lambda old: None if old else 1, "acquire") == 0:
                t.out["tasks"] = t.load("tasks", PLAIN)
                t.store("mutex", 0, "release")
    return [publishes, worker], lambda out: out.get("tasks") == 0


@protocol
def waits_for(o):
    """A worker leaves word at its board for whom it sleeps and looks again; who steps looks for such a word."""
    def sleeper(t):
        t.rmw("sleepers", lambda old: 1, o("bell.announce"))
        t.rmw("waits_for", lambda old: old | 1, o("waits.announce"))
        t.fence(o("waits.announced"))
        t.out["stepped"] = t.load("counter", o("lane.counter"))

    def steps(t):
        t.out["rings"] = 0
        t.store("counter", 1, o("lane.publish"))
        t.fence(o("waits.stepped"))
        if t.load("waits_for", o("waits.look")) == 1:
            t.rmw("waits_for", lambda old: 0, o("waits.take"))
            if t.rmw("sleepers", lambda old: old + 0, o("bell.look")) != 0:
                t.out["rings"] = 1
    return [sleeper, steps], lambda out: out["stepped"] == 0 and out["rings"] == 0


@protocol
def claims(o):
    """One worker at a time does a step; what it left is seen by the next one."""
    def worker(t):
        if t.rmw("claim", lambda old: 1 if old == 0 else None, o("claim.take")) == 0:
            t.store("context", t.load("context", PLAIN) + 1, PLAIN)
            t.rmw("claim", lambda old: 0, o("claim.leave"))
    return [worker, worker], lambda out: False


@protocol
def claim_awaited(o):
    """A worker that could not claim a step marks it before it sleeps: who leaves it finds a sleeper to wake."""
    def sleeper(t):
        t.rmw("sleepers", lambda old: 1, o("bell.announce"))
        t.out["free"] = 1
        if t.rmw("claim", lambda old: 1 if old == 0 else None, o("claim.take")) == 1:
            marked = t.rmw("claim", lambda old: 2 if old == 1 else None, o("claim.await"))
            t.out["free"] = 0 if marked == 1 else 1

    def leaves(t):
        t.out["rings"] = 0
        if t.rmw("claim", lambda old: 0, o("claim.leave")) == 2:
            if t.rmw("sleepers", lambda old: old + 0, o("bell.look")) != 0:
                t.out["rings"] = 1
    return [sleeper, leaves], lambda out: out["free"] == 0 and out["rings"] == 0, {"claim": 1}


@protocol
def task_result(o):
    """Who sees an operation done reads its result."""
    def finishes(t):
        t.store("result", 1, PLAIN)
        t.store("done", 1, o("task.done"))

    def awaits(t):
        if t.load("done", o("task.await")) == 1:
            t.out["result"] = t.load("result", PLAIN)
    return [finishes, awaits], lambda out: out.get("result", 1) != 1


@protocol
def board(o):
    """A board is filled in before it tells the operation, and written again once all are done with it."""
    def member(t):
        t.load("done_seq", o("board.is_done"))
        t.store("signature", 1, PLAIN)
        t.rmw("seq", lambda old: 1, o("board.begin"))
        if t.load("done_seq", o("board.is_done")) == 1:
            t.store("signature", 2, PLAIN)

    def other(t):
        if t.load("seq", o("board.posted")) == 1:
            t.out["signature"] = t.load("signature", PLAIN)
            t.store("done_seq", 1, o("board.finish"))
    return [member, other], lambda out: out.get("signature", 1) != 1


@protocol
def mismatch(o):
    """Of two members that enter different operations at least one sees the other's."""
    def member(mine, other):
        def thread(t):
            t.store("signature" + mine, 1, PLAIN)
            t.rmw("seq" + mine, lambda old: 1, o("board.begin"))
            t.out[mine] = t.load("seq" + other, o("board.others"))
            if t.out[mine] == 1:
                t.load("signature" + other, PLAIN)
        return thread
    return [member("a", "b"), member("b", "a")], lambda out: out == {"a": 0, "b": 0}


@protocol
def lane(o):
    """A chunk is read between the counters of writer and reader."""
    def writer(t):
        t.store("chunk", 1, PLAIN)
        t.store("published", 1, o("lane.publish"))
        if t.load("consumed", o("lane.counter")) == 1:
            t.store("chunk", 2, PLAIN)

    def reader(t):
        if t.load("published", o("lane.counter")) == 1:
            t.out["chunk"] = t.load("chunk", PLAIN)
            t.store("consumed", 1, o("lane.consume"))
    return [writer, reader], lambda out: out.get("chunk", 1) != 1


@protocol
def abandoned(o):
    """The caller of an operation that was given up may free its memory once no member is inside: one that begins
    later sees the abort."""
    def closes(t):
        t.rmw("abort", lambda old: 1 if old == 0 else None, o("step.abort"))
        t.fence(o("waits.stepped"))
        inside = t.load("seq", o("inside.look")) == 1 and t.load("done_seq", o("inside.finished")) == 0
        if not inside:
            t.store("memory", 1, PLAIN)

    def member(t):
        t.rmw("seq", lambda old: 1, o("board.begin"))
        t.fence(o("waits.stepped"))
        if t.load("abort", o("step.aborted")) == 0:
            t.load("memory", PLAIN)
        t.store("done_seq", 1, o("board.finish"))
    return [closes, member], lambda out: False


# The emulator.


@protocol
def producer(o):
    """A send's slot is filled in before it is published, its bytes before they count as staged; the room of what was
    taken is written again."""
    def sends(t):
        t.store("signature", 1, PLAIN)
        t.store("staged", 0, RELAXED)
        t.store("published", 1, o("producer.publish"))
        t.store("bytes", 1, PLAIN)
        t.store("staged", 1, o("producer.stage"))
        if t.load("consumed", o("producer.room")) == 1:
            t.store("bytes", 2, PLAIN)

    def receives(t):
        if t.load("published", o("receive.published")) == 1:
            t.load("signature", PLAIN)
            if t.load("staged", o("receive.staged")) == 1:
                t.out["bytes"] = t.load("bytes", PLAIN)
                t.store("consumed", 1, o("receive.consumed"))
    return [sends, receives], lambda out: out.get("bytes", 1) != 1, {"staged": 0}
