"""What a job did, whose programs made it so, and whether gordian said the same. All of it by running programs."""

import itertools
import os

import execute
import kinds
import mutations


def differs(outcome, reference, job):
    """Whether a run that ended left other results than the unmutated program does, or was to carry something else: who
    sends more than the other takes has not delivered it, and who asks for another operator has not got it."""
    if outcome.code != 0:
        return True
    for rank in range(job.original.ranks):
        meant = {op.label: op for op in job.original.operations(rank) if op.communicates}
        for op in job.mutated.operations(rank):
            before = meant.get(op.label)
            if before is not None and any(op.get(what) != before.get(what) for what in ("count", "type", "op")):
                return True
    for rank, expected in reference.results.items():
        got = outcome.results[rank]
        if got is None:
            return True
        # Operations that were added have no counterpart; those that are missing left nothing.
        if any(got.get(label) != value for label, value in expected.items()):
            return True
    return False


def state_of(outcome, reference, job):
    if outcome.state in ("stuck", "unclear"):
        return outcome.state
    return "wrong" if differs(outcome, reference, job) else "ended"


class Truth:
    def __init__(self, job, build, folder):
        self.job, self.build, self.folder = job, build, folder
        self.runs = 0
        self._known = {}

    def run(self, program):
        text = program.text()
        if text not in self._known:
            self.runs += 1
            self._known[text] = execute.run_alone(self.build, program, os.path.join(self.folder, f"alone{self.runs}"))
        return self._known[text]

    def reference(self):
        return self.run(self.job.original)

    def minimal_sets(self):
        """The minimal sets of ranks whose programs, put back as they were, make the job end."""
        changed = self.job.changed_ranks()
        found = []
        for size in range(1, len(changed) + 1):
            for ranks in itertools.combinations(changed, size):
                if any(set(smaller) <= set(ranks) for smaller in found):
                    continue
                if self.run(self.job.mutated.with_ranks_of(self.job.original, ranks)).state in ("ended", "error"):
                    found.append(ranks)
        return [list(ranks) for ranks in found]

    def ends(self, program):
        return program is not None and self.run(program).state in ("ended", "error")

    def mends_alone(self, accepted, rank):
        """Whether a change of this rank's program alone makes the job end: its own, put back, or that of a culprit
        made here, too. Then nothing in the job says which of the two departs."""
        if [rank] in accepted:
            return True
        for ranks in accepted:
            if len(ranks) > 1:
                continue
            program = self.job.mutated
            for mutation in self.job.mutations:
                if mutation.rank == ranks[0] and program is not None:
                    program = mutations.mirror(program, mutation, rank)
            if self.ends(program):
                return True
        return False


def judge(job, build, folder, random):
    """A result as JSON has it."""
    truth = Truth(job, build, folder)
    reference = truth.reference()
    result = {"job": job.name, "table": job.table, "ranks": job.original.ranks,
              "operations": sum(len(job.original.operations(r)) for r in range(job.original.ranks)),
              "mutations": [m.as_json() for m in job.mutations]}
    if reference.state != "ended":
        return dict(result, truth="invalid", why=f"the program without mutations: {reference.state} {reference.code}")
    alone = truth.run(job.mutated)
    settle = execute.SETTLE_S if len(job.mutations) < 2 else execute.SETTLE_OF_SEVERAL_S
    program = job.mutated if alone.state == "stuck" else mutations.with_pauses(job.mutated, random, execute.PAUSES_S,
                                                                               execute.PAUSE_MS)
    watched = execute.run_watched(build, program, os.path.join(folder, "watched"), settle)
    verdict = watched.verdict or {"verdict": "none", "confidence": "", "culprit_ranks": [], "check": "", "summary": ""}
    state = state_of(watched.outcome, reference, job)
    said = verdict["verdict"]
    trouble = said not in execute.QUIET + ("none",)
    result.update(truth=state, alone=state_of(alone, reference, job), verdict=said, confidence=verdict["confidence"],
                  check=verdict.get("check", ""), culprits=sorted(verdict["culprit_ranks"]),
                  seconds=watched.seconds, ran=round(watched.outcome.seconds, 2),
                  confirmed=[list(c) for c in watched.confirmed], suspected=[list(c) for c in watched.suspected],
                  left=watched.left, summary=verdict["summary"])
    if state == "stuck":
        result["score"] = "tp" if trouble else "fn"
        accepted = truth.minimal_sets()
        result["accepted"] = accepted
        true_kinds = kinds.truth(kinds.Scene(program, watched.outcome), accepted, job.original)
        result.update(kinds=true_kinds, kind="right" if said in true_kinds else "wrong")
        if trouble:
            result["further"] = [[f["verdict"], f["confidence"], sorted(f["culprit_ranks"])]
                                 for f in verdict.get("findings", [])]
            result["named"] = named(truth, accepted, result["culprits"])
    elif state == "ended":
        # What was withdrawn counts, too.
        result["score"] = "fp" if trouble or watched.confirmed or watched.suspected else "tn"
    elif state == "wrong":
        result["score"] = "said" if trouble else "unsaid"
        result["accepted"] = [job.changed_ranks()]
    else:
        result["score"] = "unclear"
    result["runs"] = truth.runs + 1
    return result


def named(truth, accepted, culprits):
    """exact: a minimal set. tied: one and others, each of whom alone could as well change: all of them were run. side:
    of such ranks only the others. wide: a minimal set, or a part, and ranks that are not tied. part: of a minimal set
    some, and no others. other: ranks with a mistake that holds nothing up. wrong: no such rank."""
    if not culprits:
        return "none"
    if culprits in accepted:
        return "exact"
    if any(set(culprits) < set(ranks) for ranks in accepted):
        return "part"
    if all(truth.mends_alone(accepted, rank) for rank in culprits):
        return "tied" if any(set(ranks) < set(culprits) for ranks in accepted) else "side"
    if any(set(ranks) & set(culprits) for ranks in accepted):
        return "wide"
    return "other" if set(culprits) <= set(truth.job.changed_ranks()) else "wrong"
