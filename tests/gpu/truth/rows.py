"""What is run: rows of (program, ranks, size, environment), and what is known of them.

A row's id is `program/ranks/bytes` with `/NAME=VALUE` for each variable of its environment.
"""

import re

MI = 1 << 20
DEFAULT_SIZE = 4096

# The sizes, in bytes, of programs that ask about sizes (Ki and Mi floats for the mismatches).
MISMATCH_SIZES = [4096, 4 * MI, 128 * MI]
PUSH_SIZES = [8, MI, 64 * MI, 128 * MI]
SIZES = {
    "mismatch_count": MISMATCH_SIZES,
    "mismatch_two_roots": MISMATCH_SIZES,
    "mismatch_no_root": MISMATCH_SIZES,
    "mismatch_operator": MISMATCH_SIZES,
    "mismatch_type": MISMATCH_SIZES,
    "mismatch_kind": MISMATCH_SIZES,
    "broadcast_root_first": PUSH_SIZES,
    "reduce_leaf_first": PUSH_SIZES,
    "gather_leaf_first": [8, MI, 64 * MI],
    "scatter_root_first": [8, MI, 64 * MI],
    "send_send": [8, MI, 64 * MI],
    "send_nobody_receives": [8, 64 * MI],
    "send_less_than_received": [4096, 4 * MI],
    "send_more_than_received": [4096, 4 * MI],
    "recv_recv_grouped": [4096, 64 * MI],
    "inversion_two_streams": [4096, 64 * MI],
    "group_of_two_against_calls": PUSH_SIZES,
    "group_of_two_against_calls_synced": PUSH_SIZES,
}

ONE_CONNECTION = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
NO_P2P = {"NCCL_P2P_DISABLE": "1"}
NO_RUNTIME_CONNECT = {"NCCL_RUNTIME_CONNECT": "0"}
NO_CUMEM = {"NCCL_CUMEM_ENABLE": "0"}
BLOCKING = {"CUDA_LAUNCH_BLOCKING": "1"}
IMPLICIT = {"NCCL_LAUNCH_ORDER_IMPLICIT": "1"}

# Further environments, two ranks, besides the plain one.
ENVIRONMENTS = {
    "inversion_two_streams": [ONE_CONNECTION, BLOCKING, IMPLICIT, NO_P2P],
    "inversion_six_streams": [ONE_CONNECTION],
    "inversion_write_value": [ONE_CONNECTION],
    "inversion_cold": [NO_RUNTIME_CONNECT, NO_CUMEM],
    "inversion_cold_one_stream": [NO_RUNTIME_CONNECT],
    "two_comms_send_inversion_cold": [NO_RUNTIME_CONNECT, NO_CUMEM],
    "send_send_cold": [NO_RUNTIME_CONNECT],
    "group_two_comms_opposite_cold": [NO_RUNTIME_CONNECT],
    "nonblocking_cold_opposite_polled": [NO_RUNTIME_CONNECT],
    "same_order_cold": [NO_RUNTIME_CONNECT],
    "graph_cold_opposite": [NO_RUNTIME_CONNECT],
    "broadcast_root_first": [NO_P2P],
    "queue_collective_behind": [ONE_CONNECTION],
    "queue_wait_value_behind": [ONE_CONNECTION],
    "queue_write_value_behind": [ONE_CONNECTION],
    "queue_event_behind": [ONE_CONNECTION],
    "queue_memset_behind": [ONE_CONNECTION],
    "queue_copy_behind": [ONE_CONNECTION],
    "host_function_beside": [ONE_CONNECTION],
    "graph_branches_opposite": [ONE_CONNECTION],
    "graph_inversion_two_streams": [ONE_CONNECTION],
}
SIZES_WITHOUT_P2P = {"send_send": [8, MI, 64 * MI]}

FOUR_RANKS = """
same_order_one_stream inversion_one_stream inversion_two_streams inversion_cold inversion_device_sync
inversion_free inversion_event_sync inversion_event_wait inversion_event_unrecorded inversion_subset
three_comms_cycle three_comms_chain one_too_many missing_rank one_comm_two_streams_crossed
one_comm_two_streams_held inversion_six_streams
legacy_against_blocking legacy_against_nonblocking blocking_with_legacy_between
per_thread_against_legacy per_thread_against_nonblocking priorities
host_function_gate host_function_cycle host_function_beside word_gate word_cycle
queue_wait_value_behind
send_send recv_recv recv_recv_grouped recv_recv_two_comms recv_all_reduce_against_all_reduce_send
send_all_reduce_against_all_reduce_recv pipeline_swapped two_comms_send_inversion_cold
broadcast_root_first broadcast_receiver_first reduce_leaf_first reduce_root_first
gather_leaf_first scatter_root_first all_gather_inversion reduce_scatter_inversion
all_to_all_inversion all_to_all_same_order broadcast_last_rank_late count_zero_extra
group_two_comms_opposite group_two_comms_opposite_two_streams group_against_opposite_calls
group_holds_back group_across_streams group_two_comms_start_together group_simulate_end
mismatch_operator mismatch_count mismatch_kind
init_opposite init_missing split_opposite_parents split_no_color split_against_all_reduce
nonblocking_init_opposite destroy_pending windows_opposite
graph_same_order graph_inversion_one_stream graph_inversion_two_streams graph_at_one_rank
beside_cudaFree beside_cudaMemcpyAsync_to_pageable_same_stream beside_cudaEventRecord
""".split()


def row_id(program, ranks, size, env):
    return "/".join([program, str(ranks), str(size)] + [f"{k}={env[k]}" for k in sorted(env)])


def id_of(record):
    return row_id(record["program"], record["ranks"], record["size"], record["env"])


def all_rows(programs):
    """Rows for `programs`: a list of (name, least number of ranks)."""
    rows = []
    for name, least in programs:
        if least <= 2:
            for size in SIZES.get(name, [DEFAULT_SIZE]):
                rows.append((name, 2, size, {}))
            for env in ENVIRONMENTS.get(name, []):
                rows.append((name, 2, SIZES.get(name, [DEFAULT_SIZE])[0], env))
            for size in SIZES_WITHOUT_P2P.get(name, []):
                rows.append((name, 2, size, NO_P2P))
        if name in FOUR_RANKS or least > 2:
            rows.append((name, 4, SIZES.get(name, [DEFAULT_SIZE])[0], {}))
    known = {name for name, _ in programs}
    for table in (SIZES, ENVIRONMENTS, SIZES_WITHOUT_P2P, FOUR_RANKS, [p.split("/")[0] for p, _ in EXPECT]):
        unknown = set(table) - known
        if unknown:
            raise SystemExit(f"rows.py names programs that do not exist: {sorted(unknown)}")
    return rows


def hangs(done=None):
    return {"outcome": "hangs", "done": done}  # done: how many ranks end all the same


def completes(data="right"):
    return {"outcome": "completes", "data": data}


# What is known of hardware without h200.jsonl: (pattern of the row's id, outcome). A
# pattern without "/" stands for the plain environment, any number of ranks and any size.
EXPECT = [
    ("same_order_one_stream", completes()),
    ("same_order_cold", completes()),
    ("inversion_one_stream", hangs()),
    ("inversion_two_streams", completes()),
    ("inversion_two_streams/2/4096/CUDA_DEVICE_MAX_CONNECTIONS=1", completes()),
    ("inversion_device_sync", hangs()),
    ("inversion_free", hangs()),
    ("inversion_event_wait", hangs()),
    ("inversion_subset", hangs()),
    ("three_comms_cycle", hangs()),
    ("three_comms_chain", completes()),
    ("one_too_many", hangs()),
    ("init_opposite", hangs(0)),
    ("inversion_cold", hangs(0)),
    ("graph_cold_opposite", hangs(0)),
    ("graph_cold_opposite/2/4096/NCCL_RUNTIME_CONNECT=0", hangs()),
    ("graph_cold_same_order", completes()),
    ("inversion_cold/2/4096/NCCL_RUNTIME_CONNECT=0", completes()),
    ("inversion_cold/2/4096/NCCL_CUMEM_ENABLE=0", completes()),
    ("inversion_pageable_copy", hangs()),
    ("inversion_write_value/2/4096/CUDA_DEVICE_MAX_CONNECTIONS=1", hangs()),
    ("recv_all_reduce_against_all_reduce_send", hangs()),
    ("pipeline_swapped", hangs()),
    ("send_send/2/*", completes()),
    ("send_send/2/67108864/NCCL_P2P_DISABLE=1", hangs()),
    ("broadcast_root_first/2/8", completes()),
    ("broadcast_root_first/2/1048576", completes()),
    ("broadcast_root_first/2/67108864", completes()),
    ("reduce_leaf_first/2/8", completes()),
    ("reduce_leaf_first/2/1048576", completes()),
    ("reduce_leaf_first/2/67108864", completes()),
    ("mismatch_count/2/4096", hangs(1)),
    ("mismatch_count/2/4194304", completes("wrong")),
    ("mismatch_count/2/134217728", hangs(1)),
    ("mismatch_two_roots/2/4096", completes(None)),
    ("mismatch_two_roots/2/4194304", completes(None)),
    ("mismatch_two_roots/2/134217728", hangs(0)),
    ("mismatch_no_root/2/4096", hangs()),
    ("mismatch_operator/2/*", completes(None)),
    ("mismatch_kind/2/4096", hangs(0)),
    ("mismatch_kind/2/4194304", hangs(1)),
    ("mismatch_kind/2/134217728", hangs(1)),
    ("mismatch_type/2/4096", hangs(1)),
    ("mismatch_type/2/4194304", completes("wrong")),
    ("mismatch_type/2/134217728", hangs(1)),
    ("beside_cudaFree", hangs()),
    ("beside_cudaFreeHost", hangs()),
    ("beside_cudaMalloc", completes()),
    ("beside_cudaHostAlloc", completes()),
    ("beside_cudaHostRegister", completes()),
    ("beside_cudaGraphLaunch", completes()),
    ("beside_cudaEventRecord", completes()),
    ("beside_cudaEventQuery", completes()),
    ("beside_cudaMemcpyAsync_to_pinned_same_stream", completes()),
    ("beside_cudaMemcpyAsync_to_pageable_same_stream", hangs()),
    ("beside_cudaMemcpyAsync_from_pageable_same_stream", completes()),
    ("beside_cudaMemcpyAsync_from_pageable_16M_same_stream", hangs()),
    ("host_functions_two_streams", hangs()),
    ("queue_wait_value_behind/2/4096/CUDA_DEVICE_MAX_CONNECTIONS=1", hangs()),
    ("queue_write_value_behind/2/4096/CUDA_DEVICE_MAX_CONNECTIONS=1", hangs()),
    ("queue_collective_behind/2/4096/CUDA_DEVICE_MAX_CONNECTIONS=1", hangs()),
    ("queue_event_behind/2/4096/CUDA_DEVICE_MAX_CONNECTIONS=1", completes()),
    ("queue_event_behind", completes()),
    ("abort_pending", completes(None)),
]


def expected(identity):
    """What is known of a row, or None."""
    for pattern, known in EXPECT:
        if "/" not in pattern:
            pattern += "/*/*"
        if re.fullmatch("/".join("[^/]*" if p == "*" else re.escape(p) for p in pattern.split("/")), identity):
            return known
    return None


def departs_from(record, known):
    """Why `record` is not as known, or None."""
    if record["outcome"] != known["outcome"]:
        return f"{record['outcome']}, known: {known['outcome']}"
    if record["outcome"] == "completes" and known["data"] is not None and record["data"] != known["data"]:
        return f"data {record['data']}, known: {known['data']}"
    if record["outcome"] == "hangs" and known["done"] is not None:
        done = sum(rank["state"] == "done" for rank in record["ranks_at"])
        if done != known["done"]:
            return f"{done} ranks end, known: {known['done']}"
    return None
