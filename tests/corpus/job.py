"""One job of a corpus: a program that ends, what was mutated of it, and the program that came out."""

import mutations


class Job:
    def __init__(self, family, index, original, mutated=None, made=(), table=None, resources=False):
        self.family, self.index = family, index
        self.original = original
        self.mutated = mutated if mutated is not None else original
        self.mutations = list(made)
        self.table = table or family  # the row of the result table that it counts in
        self.resources = resources    # scored at `suspected`

    @property
    def name(self):
        return f"{self.family}.{self.index}"

    def changed_ranks(self):
        return sorted({m.rank for m in self.mutations})


def mutated(family, index, program, random, chance=0.8, names=None, ranks=None, eligible=None, table=None, second=0.15):
    """`program`, mutated with a probability of `chance`; twice in some."""
    made = []
    current = program
    if random.random() < chance:
        current, one = mutations.mutate(current, random, names, ranks, eligible)
        made.append(one)
        if random.random() < second:
            current, one = mutations.mutate(current, random, names, ranks, eligible)
            made.append(one)
    return Job(family, index, program, current, made, table)
