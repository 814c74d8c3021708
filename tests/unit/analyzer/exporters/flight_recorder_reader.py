"""Reads Flight Recorder dumps as PyTorch's fr_trace does: asks for every field that it asks for, and says which
collective of a group is the first that not all members have called alike.

Facts: torch/distributed/flight_recorder/components (loader, builder, types, utils) of PyTorch 2.11.
"""

import ast
import os
import pickle
import re

COLLECTIVES = {"all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast", "reduce", "all_to_all", "gather",
               "scatter"}
SAME_AT_ALL = {"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"}


class Malformed(Exception):
    pass


def want(condition, *what):
    if not condition:
        raise Malformed(" ".join(map(str, what)))


def load(folder):
    """{rank: dump} of the files whose names are a common prefix and a rank."""
    named = {name: re.fullmatch(r"([\w-]*?)(\d+)", name) for name in sorted(os.listdir(folder))}
    want(named and all(named.values()), "a file's name does not end in a rank:", list(named))
    want(len({match.group(1) for match in named.values()}) == 1, "there is more than one prefix")
    dumps = {}
    for name, match in named.items():
        with open(os.path.join(folder, name), "rb") as f:
            dumps[int(match.group(2))] = pickle.load(f)
            want(f.read() == b"", name, "goes on behind its pickle")
    return dumps


def groups_of(dumps):
    """{name: sorted ranks}; a group is the same at every member, and every member has left a dump."""
    found = {}
    for rank, dump in dumps.items():
        for name, config in dump["pg_config"].items():
            ranks = ast.literal_eval(config["ranks"])
            want(isinstance(name, str) and config["name"] == name, rank, "names a group by", repr(name))
            want(isinstance(ranks, list) and rank in ranks, rank, "has a group of", ranks)
            want(found.setdefault(name, (config["desc"], ranks)) == (config["desc"], ranks), "ranks disagree on group", name)
    members = {rank for _, ranks in found.values() for rank in ranks}
    want(members <= set(dumps), "no dump of ranks", members - set(dumps))
    return {name: sorted(ranks) for name, (_, ranks) in found.items()}


def check_sizes(entry, tensors, types):
    sizes = entry[tensors]
    want(isinstance(sizes, list) and all(isinstance(n, int) and n >= 0 for size in sizes for n in size), tensors, sizes)
    want(len(entry[types]) == len(sizes) and all(isinstance(t, str) for t in entry[types]), types, entry[types])


def check_entry(entry, rank, config, ranks):
    name, description = entry["process_group"]
    want(config[name]["desc"] == description, rank, "describes a group in two ways:", description)
    backend, operation = entry["profiling_name"].split(":")
    want(backend in ("nccl", "xccl"), "backend", backend)
    kind, *ends = operation.split(" ")
    if kind in ("send", "recv"):
        own, peer = map(int, ends[0].split("->" if kind == "send" else "<-"))
        want(ranks[own] == rank and ranks[peer] != rank, rank, "calls", operation)
    else:
        want(kind in COLLECTIVES | {"coalesced"} and not ends, "operation", operation)
    want(entry["is_p2p"] == (kind in ("send", "recv")) or kind == "coalesced", "is_p2p of", operation)
    check_sizes(entry, "input_sizes", "input_dtypes")
    check_sizes(entry, "output_sizes", "output_dtypes")
    want(entry["state"] in ("scheduled", "started", "completed"), "state", entry["state"])
    for key in ("collective_seq_id", "p2p_seq_id", "op_id", "record_id", "pg_id", "time_created_ns", "timeout_ms"):
        want(isinstance(entry[key], int), key, entry[key])
    times = [entry["time_created_ns"], entry["time_discovered_started_ns"], entry["time_discovered_completed_ns"]]
    want((times[2] is not None) == (entry["state"] == "completed") == entry["retired"], "completion", times)
    want((times[1] is None) == (entry["state"] == "scheduled"), "start", times)
    known = [time for time in times if time is not None]
    want(known == sorted(known), "times", times)
    for frame in entry["frames"]:
        want(isinstance(frame["name"], str) and isinstance(frame["filename"], str) and isinstance(frame["line"], int), frame)


def check_batches(entries):
    """Transfers of a group under one number end with an entry of their own."""
    for group in {entry["process_group"] for entry in entries}:
        transfers = [entry for entry in entries if entry["process_group"] == group and entry["is_p2p"]]
        for number in {entry["p2p_seq_id"] for entry in transfers}:
            batch = [entry["profiling_name"] for entry in transfers if entry["p2p_seq_id"] == number]
            ends = batch.count("nccl:coalesced")
            want(ends == (len(batch) > 1) and (ends == 0 or batch[-1] == "nccl:coalesced"), "batch", number, batch)


def check_neighbours(entries):
    """Of a group's neighbours those with one number are a batch to fr_trace, whatever they are."""
    for group in {entry["process_group"] for entry in entries}:
        own = [entry for entry in entries if entry["process_group"] == group]
        for one, other in zip(own, own[1:]):
            numbers = [entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"] for entry in (one, other)]
            want(one["is_p2p"] == other["is_p2p"] or numbers[0] != numbers[1], "a transfer and a collective have number",
                 numbers[0])


def read(folder):
    """Checks all dumps; ({rank: dump}, {group: sorted ranks})."""
    dumps = load(folder)
    groups = groups_of(dumps)
    want(len({dump["version"] for dump in dumps.values()}) == 1, "versions differ")
    for rank, dump in dumps.items():
        want(re.fullmatch(r"\d+\.\d+", dump["version"]), "version", dump["version"])
        records = [entry["record_id"] for entry in dump["entries"]]
        want(records == sorted(set(records)), rank, "has records", records)
        for entry in dump["entries"]:
            check_entry(entry, rank, dump["pg_config"], groups[entry["process_group"][0]])
        check_batches(dump["entries"])
        check_neighbours(dump["entries"])
        for status in dump["pg_status"].values():
            want(set(status) == {"last_enqueued_collective", "last_started_collective", "last_completed_collective"}
                 and all(isinstance(value, int) for value in status.values()), "status", status)
    return dumps, groups


def first_mismatches(dumps, groups):
    """{group: (number, ranks that have not called it, ranks whose call differs from the first's)}: what fr_trace calls
    "Not all ranks joining collective" and a type, size or state mismatch."""
    found = {}
    for group, ranks in groups.items():
        calls = {rank: {e["collective_seq_id"]: e for e in dumps[rank]["entries"]
                        if e["process_group"][0] == group and not e["is_p2p"]} for rank in ranks}
        for number in sorted({number for of_rank in calls.values() for number in of_rank}):
            have = {rank: of_rank[number] for rank, of_rank in calls.items() if number in of_rank}
            first = next(iter(have.values()))
            missing = sorted(set(ranks) - set(have))
            differing = [rank for rank, entry in have.items() if entry["profiling_name"] != first["profiling_name"]
                         or entry["state"] != first["state"]
                         or (first["profiling_name"].split(":")[1] in SAME_AT_ALL
                             and (entry["input_sizes"], entry["output_sizes"], entry["input_dtypes"])
                             != (first["input_sizes"], first["output_sizes"], first["input_dtypes"]))]
            if missing or differing:
                found[group] = (number, missing, differing)
                break
    return found
