"""What `measure` writes of a bucket of DistributedDataParallel's, and `plan` compares."""


def bucket_name(model, parameters):
    """The first and the last parameter of a bucket, in the order of the module in DDP."""
    held = {id(parameter) for parameter in parameters}
    names = [name for name, parameter in model.module.named_parameters() if id(parameter) in held]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
