"""Measures the times that `gordian plan` plans with, in the training of a
DistributedDataParallel model.

    from gordian.torch import measure
    model = DistributedDataParallel(...)
    times = measure.Times(model)
    ...                       # 20 iterations or more of the training loop
    times.write("buckets.json")

The training goes on as under DDP, but slower: the buckets are reduced after the backward pass,
one after the other, so that each is timed alone. A bucket's forward time lasts from the first
module with a parameter of it to the first of the next bucket; its backward time from the
gradients of the bucket above it to its own. Of a job on CUDA the times are the device's.

Times are medians over the iterations, then the longest of all ranks; an all-reduce's the
shortest of them, as the last to come does not wait. Not for the run that follows a plan: a
model has one communication hook.
"""

import json
import statistics
import time

import torch
import torch.distributed as dist

from gordian.torch.buckets import OWN_ITERATIONS, as_it_is, bucket_name

_LEAST = 5


class _Clock:
    """Moments of the computation, on the device or on the host."""

    def __init__(self, device):
        self._device = device if device.type == "cuda" else None

    def now(self):
        if self._device is None:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between_us(self, begin, end):
        if self._device is None:
            return 1e6 * (end - begin)
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)


class Times:
    """Of the buckets of a model. One thread; every rank of its process group makes one."""

    def __init__(self, model):
        self._model = model
        self._clock = _Clock(next(model.parameters()).device)
        self._share = 1.0 / dist.get_world_size(model.process_group)
        self._left_out = OWN_ITERATIONS
        self._buckets = []  # of this iteration, in DDP's order: (data, parameters, ready)
        self._iterations = []
        self._forwards = None  # (parameters of a module, when it began)
        self._began = self._loss = None
        model.register_forward_pre_hook(lambda *_: self._begin())
        model.register_forward_hook(lambda *_: self._end_forward())
        for module in model.module.modules():
            own = list(module.parameters(recurse=False))
            if own:
                module.register_forward_pre_hook(lambda _, __, own=own: self._enter(own))
        model.register_comm_hook(self, _on_bucket)

    def _counts(self):
        return torch.is_grad_enabled() and self._model.require_backward_grad_sync

    def _begin(self):
        if self._counts():
            self._began, self._forwards = self._clock.now(), []

    def _enter(self, parameters):
        if self._counts() and self._forwards is not None:
            self._forwards.append((parameters, self._clock.now()))

    def _end_forward(self):
        if self._counts():
            self._loss = self._clock.now()

    def on_bucket(self, bucket):
        data = bucket.buffer()
        self._buckets.append((data, bucket.parameters(), self._clock.now()))
        if bucket.is_last():
            self._reduce()
        return as_it_is(data)

    def _reduce(self):
        reduced = []
        for data, _, _ in self._buckets:
            data.mul_(self._share)
            dist.barrier(group=self._model.process_group)
            begin = self._clock.now()
            dist.all_reduce(data, group=self._model.process_group)
            reduced.append(self._clock.between_us(begin, self._clock.now()))
        if self._left_out:
            self._left_out -= 1
        elif self._forwards is not None:
            self._iterations.append((self._forward_times(), self._backward_times(), reduced[::-1]))
        self._parameters = [parameters for _, parameters, _ in reversed(self._buckets)]
        self._elements = [data.numel() for data, _, _ in reversed(self._buckets)]
        self._buckets, self._forwards = [], None

    def _forward_times(self):
        """Of bucket 1 first. What is entered again, or out of order, is of the bucket under way."""
        number_of = {id(parameter): len(self._buckets) - at
                     for at, (_, parameters, _) in enumerate(self._buckets)
                     for parameter in parameters}
        begins, reached = {1: self._began}, 1
        for parameters, when in self._forwards:
            known = [number_of[id(own)] for own in parameters if id(own) in number_of]
            number = min(known, default=0)
            if number > reached:
                begins[number], reached = when, number
        times, end = [], self._loss
        for number in range(len(self._buckets), 0, -1):
            begin = begins.get(number, end)
            times.append(self._clock.between_us(begin, end))
            end = begin
        return times[::-1]

    def _backward_times(self):
        times, begin = [], self._loss
        for _, _, ready in self._buckets:
            times.append(self._clock.between_us(begin, ready))
            begin = ready
        return times[::-1]

    def table(self):
        """What `gordian plan` reads, from all ranks: a dictionary. Collective."""
        if len(self._iterations) < _LEAST:
            raise RuntimeError(f"{len(self._iterations)} iterations were measured, beside DDP's "
                               f"first {OWN_ITERATIONS}: times need {_LEAST} at least")
        device = next(self._model.parameters()).device
        columns = [[statistics.median(iteration[kind][at] for iteration in self._iterations)
                    for at in range(len(self._elements))] for kind in range(3)]
        slowest = torch.tensor([*columns[0], *columns[1], *(-comm for comm in columns[2])],
                               dtype=torch.float64, device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=self._model.process_group)
        times = [round(abs(us)) for us in slowest.tolist()]
        count = len(self._elements)
        return {"buckets": [{"name": bucket_name(self._model, self._parameters[at]),
                             "forward_us": times[at], "backward_us": times[count + at],
                             "comm_us": times[2 * count + at], "elements": self._elements[at]}
                            for at in range(count)]}

    def write(self, path):
        """Writes the table: rank 0 of the process group does. Collective."""
        table = self.table()
        if dist.get_rank(self._model.process_group) == 0:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(table, file, indent=1)
                file.write("\n")


def _on_bucket(times, bucket):
    return times.on_bucket(bucket)
