"""Which kinds of verdicts are true of a stuck job, and about which ranks. Sources: the emulator's reports of what each
rank waits for, the calls that each rank has begun, and which ranks' programs, put back, make the job end. None of it
comes from gordian.

An *arrow* (waiting, awaited) stands for a rank that waits, in an operation or in a call, for another one that has not
started or made it. Two members whose arguments differ have both started: no arrow stands between them.
"""

from collections import namedtuple

from program import COLLECTIVES, ELEMENT

# In the call, or operation, `what`; `begun`: the awaited rank has started the same operation.
Arrow = namedtuple("Arrow", "waiting awaited comm what")

MAKES = ("init", "split", "destroy", "finalize")


class Scene:
    """Where a job stands that can move no more."""

    def __init__(self, program, outcome):
        self.program = program
        pids = {pid: rank for rank, (pid, _) in enumerate(outcome.calls)}
        self.reports = {pids[report["pid"]]: report for report in outcome.waits if report["pid"] in pids}
        self.ended = {rank for rank in range(program.ranks) if rank not in self.reports}
        self.begun = {rank: [thread[:count] for thread, count in zip(program.threads[rank], outcome.calls[rank][1])]
                      for rank in range(program.ranks)}
        self.started = {}  # (comm, operation, seq): ranks whose part has started
        self.members = {name: members for name, members in reversed(program.comms)}
        self.places = {}   # (comm, rank in it): rank of the job, by the reports; what was split may have others
        for rank, report in self.reports.items():
            for each in report["operations"] + report["waits"]:
                if "comm" in each:
                    self.places[each["comm"], each["rank"]] = rank
        for rank, report in self.reports.items():
            for operation in report["operations"]:
                for part in operation.get("parts", ()):
                    if operation["started"] and "seq" in part:
                        self.started.setdefault(self._key(operation, part, rank), set()).add(rank)
        self.arrows = [arrow for rank in self.reports for arrow in self._arrows_of(rank)]

    def _key(self, operation, part, rank):
        """Equal for the parts of one operation: of a collective by its number, of a transfer by its two ranks besides."""
        ends = ()
        if part["operation"] in ("Send", "Recv"):
            ends = (operation["rank"], *part.get("for", ()))
            ends = ends if part["operation"] == "Send" else ends[::-1]
        return operation["comm"], ends, part["seq"]

    def _world(self, where, ranks):
        """Ranks of the job; those of a communicator that is not as the program means it only where reports tell."""
        meant = self.members.get(where["name"], ())
        if len(meant) == where["ranks"]:
            return [self.places.get((where["comm"], r), meant[r]) for r in ranks]
        return [self.places[where["comm"], r] for r in ranks if (where["comm"], r) in self.places]

    def _arrows_of(self, rank):
        report = self.reports[rank]
        for operation in report["operations"]:
            for part in operation.get("parts", ()):
                if not operation["started"] or "for" not in part:
                    continue
                for other in self._world(operation, part["for"]):
                    if other not in self.started.get(self._key(operation, part, rank), ()):
                        yield Arrow(rank, other, operation["name"], part["operation"])
        for wait in report["waits"]:
            if "for" in wait and "name" in wait:
                # All have come, and one has ended before the others could go on.
                gone = [] if wait["for"] else [r for r in self._world(wait, range(wait["ranks"])) if r in self.ended]
                for other in self._world(wait, wait["for"]) + gone:
                    yield Arrow(rank, other, wait["name"], wait["in"] if wait["call"] is None else wait["call"])

    def calls(self, rank):
        return [op for thread in self.begun[rank] for op in thread]

    def outside(self, rank):
        """Whether no thread of the rank is in a call that waits."""
        return rank in self.reports and not self.reports[rank]["waits"]


def operations_by_communicator(threads, collectives=True):
    """{comm: calls, in their order}, those of graphs as often as they are launched; transfers by (comm, peer, kind)."""
    out = {}
    for thread in threads:
        graphs, capturing = {}, None
        for op in thread:
            if op.kind == "capture_begin":
                capturing = []
            elif op.kind == "capture_end":
                graphs[op["graph"]], capturing = capturing, None
            elif op.kind == "graph_launch":
                for inside in graphs.get(op["graph"], ()):
                    out.setdefault(inside["comm"], []).append(inside)
            elif op.kind in COLLECTIVES and collectives:
                (capturing if capturing is not None else out.setdefault(op["comm"], [])).append(op)
            elif op.kind in ("send", "recv") and not collectives:
                out.setdefault((op["comm"], op["peer"], op.kind), []).append(op)
    return out


def differences(program, begun):
    """{(comm, position)}: where members' k-th calls on a communicator differ, or what is sent and received."""
    found = set()
    by_rank = {rank: operations_by_communicator(begun[rank]) for rank in begun}
    for comm, (_, members) in enumerate(program.comms):
        sequences = [by_rank[rank].get(comm, []) for rank in members]
        for position in range(max((len(s) for s in sequences), default=0)):
            calls = {(op.kind, op["count"], op["type"], op.get("op"), op.get("root"))
                     for op in (s[position] for s in sequences if len(s) > position)}
            if len(calls) > 1:
                found.add((comm, position))
    transfers = {rank: operations_by_communicator(begun[rank], collectives=False) for rank in begun}
    for comm, (_, members) in enumerate(program.comms):
        for source, sender in enumerate(members):
            for target, receiver in enumerate(members):
                pairs = zip(transfers[sender].get((comm, target, "send"), []),
                            transfers[receiver].get((comm, source, "recv"), []))
                for position, (send, receive) in enumerate(pairs):
                    if send["count"] * ELEMENT[send["type"]] != receive["count"] * ELEMENT[receive["type"]]:
                        found.add((comm, source, target, position))
    return found


def circle(arrows):
    """The ranks that are in a circle of arrows."""
    towards = {}
    for arrow in arrows:
        towards.setdefault(arrow.waiting, set()).add(arrow.awaited)

    def reached(start):
        seen, work = set(), [start]
        while work:
            for other in towards.get(work.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    work.append(other)
        return seen

    return {rank for rank in towards if rank in reached(rank)}


def truth(scene, accepted, original):
    """{kind: what shows it}: the kinds of verdicts that are true of the hang."""
    kinds = {}
    program = scene.program
    here = differences(program, scene.begun)
    for ranks in accepted:
        mended = program.with_ranks_of(original, ranks)
        left = differences(mended, {rank: mended.threads[rank] for rank in range(program.ranks)})
        gone = here - left
        if gone:  # put back, and with it the job ends
            kinds["mismatch"] = sorted(map(str, gone))
    for arrow in scene.arrows:
        shown = f"rank {arrow.waiting} waits in {arrow.what} on {arrow.comm} for rank {arrow.awaited}"
        if arrow.awaited in scene.ended:
            kinds["rank_exited"] = shown + ", which has ended"
        calls = scene.calls(arrow.awaited)
        on = [op for op in calls if op.get("comm") is not None and program.comms[op["comm"]][0] == arrow.comm]
        if any(op.kind == "abort" for op in on):
            kinds["rank_aborted"] = shown + ", which has aborted it"
        elif any(op.kind in ("destroy", "finalize") for op in on):
            kinds["rank_not_joined"] = shown + ", which has left it"
        if scene.outside(arrow.awaited):
            kinds["host_blocked"] = kinds["rank_not_joined"] = shown + ", which is in no call"
        if arrow.what.startswith(("ncclCommInit", "ncclCommSplit", "ncclCommShrink", "ncclCommGrow")):
            kinds["init_hang"] = shown
    inside = circle([a for a in scene.arrows if a.awaited not in scene.ended])
    if inside:
        kinds["deadlock"] = f"ranks {sorted(inside)} wait in a circle"
    return kinds
