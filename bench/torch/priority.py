"""Priority scheduling (ByteScheduler, US-Byte) for DistributedDataParallel: the baseline of `gordian plan`.

A bucket that is ready and nearest to the input is sent first, and the forward pass of a bucket waits for that bucket
alone. All ranks must send in one order, so that it comes from the agreed times and not from what is ready at a rank.
"""

import contextlib

import torch
import torch.distributed as dist

from gordian.torch.buckets import OWN_ITERATIONS, as_it_is, reduce_as_ddp, views_of


def order_of(buckets):
    """Numbers of the buckets, 1 nearest to the input, in the order of planner::Priority without chunks."""
    ready, at = {}, 0
    for number in range(len(buckets), 0, -1):
        at += buckets[number - 1]["backward_us"]
        ready[number] = at
    order, now = [], 0
    while ready:
        now = max(now, min(ready.values()))
        number = min(number for number, when in ready.items() if when <= now)
        order.append(number)
        now += buckets[number - 1]["comm_us"]
        del ready[number]
    return order


class Priority:
    """In place of the optimizer: `step` does nothing, the next forward pass updates what it comes to."""

    def __init__(self, model, make_optimizer, buckets):
        self._model, self._make_optimizer, self._order = model, make_optimizer, order_of(buckets)
        self._share = 1.0 / dist.get_world_size(model.process_group)
        self._own_left = OWN_ITERATIONS
        self._optimizer = make_optimizer(list(model.parameters()))
        device = next(model.parameters()).device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._layout, self._sums, self._works, self._ready, self._next = {}, {}, {}, {}, 0
        self._optimizers = {}
        for module in model.module.modules():
            own = list(module.parameters(recurse=False))
            if own:
                module.register_forward_pre_hook(lambda _, __, own=own: self._enter(own))
        model.register_comm_hook(self, _on_bucket)

    def on_bucket(self, bucket):
        data = bucket.buffer()
        if self._own_left:
            self._layout[bucket.index()] = views_of(bucket)
            return reduce_as_ddp(data, self._share, self._model.process_group)
        number = len(self._layout) - bucket.index()
        self._sums[number] = data * self._share
        self._ready[number] = torch.cuda.current_stream().record_event() if self._stream else None
        while self._next < len(self._order) and self._order[self._next] in self._ready:
            self._send(self._order[self._next])
            self._next += 1
        return as_it_is(data)

    def _send(self, number):
        if self._stream:
            self._stream.wait_event(self._ready[number])
        with torch.cuda.stream(self._stream) if self._stream else contextlib.nullcontext():
            self._works[number] = dist.all_reduce(self._sums[number], group=self._model.process_group, async_op=True)

    def _enter(self, parameters):
        if self._works:
            for number in {self._number_of[id(parameter)] for parameter in parameters}:
                self._update(number)

    def _update(self, number):
        work = self._works.pop(number, None)
        if work is None:
            return
        work.wait()
        data = self._sums.pop(number)
        for parameter, size, stride, offset in self._layout[len(self._layout) - number]:
            parameter.grad = data.as_strided(size, stride, offset)
        self._optimizers[number].step()
        for parameter, _, _, _ in self._layout[len(self._layout) - number]:
            parameter.grad = None

    def zero_grad(self):
        """Gradients of updates that wait are elsewhere."""
        self._model.zero_grad(set_to_none=True)

    def step(self):
        self._ready.clear()
        self._next = 0
        if not self._own_left:
            return
        self._optimizer.step()
        self._own_left -= 1
        if not self._own_left:
            count = len(self._layout)
            self._number_of = {id(views[0]): count - index for index, bucket in self._layout.items() for views in bucket}
            self._optimizers = {count - index: self._make_optimizer([views[0] for views in bucket])
                                for index, bucket in self._layout.items()}

    def flush(self):
        """Updates what no forward pass has come to."""
        for number in sorted(self._works):
            self._update(number)


def _on_bucket(priority, bucket):
    return priority.on_bucket(bucket)
