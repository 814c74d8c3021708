"""The buckets of DistributedDataParallel, for code that takes the place of its reduction."""

import torch
import torch.distributed as dist

OWN_ITERATIONS = 2  # of DDP: after its first it forms the buckets that it keeps


def bucket_name(model, parameters):
    """The first and the last parameter of a bucket, in the order of the module in DDP."""
    held = {id(parameter) for parameter in parameters}
    names = [name for name, parameter in model.module.named_parameters() if id(parameter) in held]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def views_of(bucket):
    """Where its parameters' gradients lie: (parameter, size, stride, offset in the bucket)."""
    start = bucket.buffer().storage_offset()
    return [(parameter, view.size(), view.stride(), view.storage_offset() - start)
            for parameter, view in zip(bucket.parameters(), bucket.gradients())]


def reduce_as_ddp(data, share, group):
    """What a communication hook returns of a bucket that it reduces as DDP does."""
    work = dist.all_reduce(data.mul_(share), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def as_it_is(data):
    """What a communication hook returns of a bucket that it does not reduce now."""
    done = torch.futures.Future(devices=[data.device] if data.is_cuda else None)
    done.set_result(data)
    return done
