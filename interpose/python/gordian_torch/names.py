"""What people call a process group: tp, dp, pp, ep, from the frameworks that made it."""

import sys

# Of Megatron's and DeepSpeed's modules, global variables that hold a group: what it is called. The
# first that holds a group names it.
_VARIABLES = (
    ("_TENSOR_MODEL_PARALLEL_GROUP", "tp"),
    ("_PIPELINE_MODEL_PARALLEL_GROUP", "pp"),
    ("_DATA_PARALLEL_GROUP", "dp"),
    ("_CONTEXT_PARALLEL_GROUP", "cp"),
    ("_EXPERT_MODEL_PARALLEL_GROUP", "ep"),
    ("_EXPERT_TENSOR_PARALLEL_GROUP", "etp"),
    ("_EXPERT_DATA_PARALLEL_GROUP", "edp"),
    ("_DATA_MODULO_EXPERT_PARALLEL_GROUP", "edp"),
    ("_DATA_PARALLEL_GROUP_WITH_CP", "dp-cp"),
    ("_TENSOR_AND_DATA_PARALLEL_GROUP", "tp-dp"),
    ("_MODEL_PARALLEL_GROUP", "mp"),
    ("_EMBEDDING_GROUP", "embedding"),
    ("_WORLD_GROUP", "world"),
)
_MODULES = ("megatron.core.parallel_state", "megatron.mpu.initialize", "megatron.core.mpu",
            "deepspeed.utils.groups")


def _by_variable(pg):
    for module_name in _MODULES:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        for variable, name in _VARIABLES:
            held = getattr(module, variable, None)
            if held is pg or (isinstance(held, (list, tuple)) and any(one is pg for one in held)):
                return name
        # DeepSpeed keeps groups of experts by the size that they are for.
        for variable, name in (("_EXPERT_PARALLEL_GROUP", "ep"),
                               ("_EXPERT_DATA_PARALLEL_GROUP", "edp")):
            held = getattr(module, variable, None)
            if isinstance(held, dict) and any(one is pg for one in held.values()):
                return name
    return None


def described(text):
    """The name in a group's description: a DeviceMesh calls the group of its dimension tp mesh_tp."""
    if text in (None, "", "undefined", "default_pg", "mesh_default"):
        return None
    return text[len("mesh_"):] if text.startswith("mesh_") else text


def of_group(pg):
    """None: nothing names it, and its members do."""
    return _by_variable(pg) or described(getattr(pg, "group_desc", None))
