"""Random mutations of a rank's communication, as dl2's evaluation makes them, and what was mutated.

Each takes (program, rank, thread, index, random) and changes a copy in place; None when it does not apply there.
The same mutation can be made at another rank by label (`mirror`): where two ranks disagree and nobody else is there
to say which of them is right, both are right to be named.
"""

from program import COLLECTIVES, Op, REDUCING, ROOTED, SYNCS


# What nothing is moved across.
BORDERS = ("group_start", "group_end", "init", "split", "destroy", "capture_begin", "capture_end")


class Mutation:
    def __init__(self, name, rank, label, detail):
        self.name, self.rank, self.label, self.detail = name, rank, label, detail

    def as_json(self):
        return {"name": self.name, "rank": self.rank, "label": self.label, "detail": self.detail}


def _drop(program, rank, t, i, choice):
    del program.threads[rank][t][i]
    return {}


def _duplicate(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    label = op.label + "~again"
    if program.find(rank, label) is not None:
        return None
    program.threads[rank][t].insert(i + 1, op.copy(label=label))
    return {}


def _swap(program, rank, t, i, choice):
    thread = program.threads[rank][t]
    makes = ("init", "split", "destroy")
    if "with" in choice:
        found = program.find(rank, choice["with"])
        if found is None or found[0] != t:
            return None
        j = found[1]
    else:
        # The next operation that communicates, not across the borders of a group.
        own = thread[i].kind
        j = next((k for k in range(i + 1, len(thread)) if thread[k].communicates or thread[k].kind in BORDERS
                  or thread[k].kind == own), None)
        if j is None or (thread[j].kind in BORDERS and not (own in makes and thread[j].kind in makes)):
            return None
    thread[i], thread[j] = thread[j], thread[i]
    return {"with": thread[i].label}


def _change_group(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if op.kind not in COLLECTIVES:
        return None
    if "comm" in choice:
        other = choice["comm"]
    else:
        used = sorted({o["comm"] for o in program.operations(rank) if o.kind in COLLECTIVES})
        others = [c for c in used if c != op["comm"] and rank in program.members(c)]
        if not others:
            return None
        other = choice["random"].choice(others)
    if other == op["comm"] or rank not in program.members(other):
        return None
    changes = {"comm": other}
    if op.kind in ROOTED:
        changes["root"] = min(op["root"], len(program.members(other)) - 1)
    program.threads[rank][t][i] = op.copy(**changes)
    return {"comm": other}


def _change_count(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if not op.communicates:
        return None
    count = choice["count"] if "count" in choice else choice["random"].choice([op["count"] * 2, op["count"] // 2])
    if count <= 0 or count > 2 * op["count"]:
        return None
    program.threads[rank][t][i] = op.copy(count=count)
    return {"count": count}


def _change_type(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if not op.communicates:
        return None
    other = choice["type"] if "type" in choice else choice["random"].choice(["f64", "i32", "i64"])
    if other == op["type"]:
        return None
    program.threads[rank][t][i] = op.copy(type=other)
    return {"type": other}


def _change_root(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if op.kind not in ROOTED:
        return None
    size = len(program.members(op["comm"]))
    root = choice["root"] if "root" in choice else choice["random"].randrange(size)
    if root == op["root"] or root >= size:
        return None
    program.threads[rank][t][i] = op.copy(root=root)
    return {"root": root}


def _change_operator(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if op.kind not in REDUCING:
        return None
    other = choice["op"] if "op" in choice else choice["random"].choice(["max", "min", "sum"])
    if other == op["op"]:
        return None
    program.threads[rank][t][i] = op.copy(op=other)
    return {"op": other}


def _change_peer(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if op.kind not in ("send", "recv"):
        return None
    size = len(program.members(op["comm"]))
    mine = program.members(op["comm"]).index(rank)
    others = [p for p in range(size) if p not in (mine, op["peer"])]
    peer = choice["peer"] if "peer" in choice else choice["random"].choice(others) if others else None
    if peer is None or peer in (mine, op["peer"]) or peer >= size:
        return None
    program.threads[rank][t][i] = op.copy(peer=peer)
    return {"peer": peer}


def _move_across_sync(program, rank, t, i, choice):
    """An operation to the other side of the next, or the previous, wait of its host thread."""
    thread = program.threads[rank][t]
    if "behind" in choice or "before" in choice:
        where = choice.get("behind") or choice.get("before")
        found = program.find(rank, where)
        if found is None or found[0] != t:
            return None
        j = found[1]
        later = "behind" in choice
        if later != (j > i):
            return None
    else:
        later = choice["random"].random() < 0.5
        span = range(i + 1, len(thread)) if later else range(i - 1, -1, -1)
        j = None
        for k in span:
            if thread[k].kind in BORDERS:
                break
            if thread[k].kind in SYNCS:
                j = k
                break
        if j is None:
            return None
    label = thread[j].label
    op = thread.pop(i)
    thread.insert(j, op)
    return {"behind" if later else "before": label}


def _change_color(program, rank, t, i, choice):
    op = program.threads[rank][t][i]
    if op.kind != "split":
        return None
    program.threads[rank][t][i] = op.copy(color=op["color"] + 1)
    return {}


def _insert(program, rank, t, i, kind, values):
    op = program.threads[rank][t][i]
    program.threads[rank][t].insert(i, Op(f"{op.label}~{kind}", kind, **values))


def _exit(program, rank, t, i, choice):
    code = choice["code"] if "code" in choice else choice["random"].choice([0, 3])
    _insert(program, rank, t, i, "exit", {"code": code})
    return {"code": code}


def _block(program, rank, t, i, choice):
    """The host thread waits for something that nobody will do."""
    _insert(program, rank, t, i, "wait", {"flag": 63})
    return {}


def _abort(program, rank, t, i, choice):
    comm = program.threads[rank][t][i].get("comm")
    if comm is None:
        return None
    _insert(program, rank, t, i, "abort", {"comm": comm})
    return {}


def _delay(program, rank, t, i, choice):
    ms = choice["ms"] if "ms" in choice else choice["random"].choice([20, 60, 150])
    if program.find(rank, program.threads[rank][t][i].label + "~delay") is not None:
        return None
    program.threads[rank][t].insert(i, Op(program.threads[rank][t][i].label + "~delay", "sleep", ms=ms))
    return {"ms": ms}


def _reorder_branches(program, rank, t, i, choice):
    """The branches of the block that the label names (`BLOCK.BRANCH.what`), one behind the other in another order."""
    thread = program.threads[rank][t]
    block = thread[i].label.split(".")[0]
    parts = {name: [] for name in choice["order"]}
    places = []
    for k, op in enumerate(thread):
        words = op.label.split(".")
        if words[0] == block and len(words) > 2 and words[1] in parts:
            parts[words[1]].append(op)
            places.append(k)
    thread[places[0]:places[-1] + 1] = [op for name in choice["order"] for op in parts[name]]
    return dict(choice)


MUTATIONS = {
    "drop": _drop, "duplicate": _duplicate, "swap": _swap, "group": _change_group, "size": _change_count,
    "type": _change_type, "root": _change_root, "operator": _change_operator, "peer": _change_peer,
    "across": _move_across_sync, "delay": _delay, "branches": _reorder_branches,
    "color": _change_color, "exit": _exit, "block": _block, "abort": _abort,
}
RANDOM = sorted(set(MUTATIONS) - {"branches", "color", "exit", "block", "abort"})  # what dl2 has


def mutate(program, random, names=None, ranks=None, eligible=None):
    """One random mutation; (mutated copy, Mutation). Tries places until one takes it."""
    names = sorted(names or RANDOM)
    for _ in range(1000):
        name = random.choice(names)
        rank = random.choice(sorted(ranks) if ranks is not None else range(program.ranks))
        places = [(t, i) for t, thread in enumerate(program.threads[rank]) for i, op in enumerate(thread)
                  if (eligible(op) if eligible else op.communicates)]
        if not places:
            continue
        t, i = random.choice(places)
        copy = program.copy()
        label = copy.threads[rank][t][i].label
        detail = MUTATIONS[name](copy, rank, t, i, {"random": random})
        if detail is not None:
            return copy, Mutation(name, rank, label, detail)
    raise ValueError("no place for a mutation")


def mirror(program, mutation, rank):
    """The same mutation at another rank of `program`, or None where it has no such operations."""
    found = program.find(rank, mutation.label)
    if found is None:
        return None
    copy = program.copy()
    if MUTATIONS[mutation.name](copy, rank, found[0], found[1], dict(mutation.detail)) is None:
        return None
    return copy


def with_pauses(program, random, seconds, ms):
    """`program`, in which one rank pauses before operations that communicate, for `seconds` in all where it has enough
    of them, each time between the two `ms`. Never inside a group, nor while it captures."""
    copy = program.copy()
    rank = random.randrange(program.ranks)
    places = []
    for t, thread in enumerate(copy.threads[rank]):
        inside = False
        for i, op in enumerate(thread):
            if op.kind in ("group_start", "capture_begin"):
                inside = True
            elif op.kind in ("group_end", "capture_end"):
                inside = False
            elif op.communicates and not inside:
                places.append((t, i))
    random.shuffle(places)
    chosen, left = [], 1000 * seconds
    for place in places:
        if left <= 0:
            break
        chosen.append((place, round(random.uniform(*ms))))
        left -= chosen[-1][1]
    for (t, i), pause in sorted(chosen, reverse=True):
        copy.threads[rank][t].insert(i, Op(f"pause{t}.{i}", "sleep", ms=pause))
    return copy
