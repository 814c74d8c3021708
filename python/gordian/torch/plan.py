"""Follows a plan of `gordian plan` in the training of a DistributedDataParallel model.

    from gordian.torch import plan
    model = DistributedDataParallel(...)
    optimizer = plan.follow(model, torch.optim.SGD(model.parameters(), lr=0.1), "plan.json")

The training loop stays: zero_grad, forward, backward, step. In each iteration the all-reduces
are the plan's, and step() changes the parameters in those iterations only in which the plan
applies gradients; `optimizer.updates` counts them. The first two iterations are DDP's own, as
DDP forms its buckets in them. At the end, and before parameters are saved, all ranks call
`optimizer.flush()`.

A link is a process group; on CUDA, also a stream of its own, on which an all-reduce waits for
its bucket alone and not for what is computed now. The sum over ranks is of gradients that each
rank has divided by their number, as in DDP. All functions are for one thread. Errors are
PlanError (the plan does not fit the job) and RuntimeError (the loop does not follow it).

Sources: DeFT, sections III and IV; the schedule and its proof: planner/.
"""

import contextlib
import inspect

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gordian.torch.buckets import (OWN_ITERATIONS, as_it_is, bucket_name, reduce_as_ddp,
                                   views_of)
from gordian.torch.plan_file import PlanError, PlanFile

__all__ = ["PlanError", "PlannedOptimizer", "follow"]

_TEXT_BYTES = 512  # of what the ranks compare


def follow(model, optimizer, path, second_link=None, before_update=None):
    """Returns what takes the place of `optimizer`. All ranks of the model's process group call it.

    path: the plan, with the same bytes on every rank. second_link: a process group of the same
    ranks for link 2; without it one is made if the model is on all ranks of the job. before_update:
    called before each change of the parameters, when their `grad` is what is applied: the place to
    clip gradients."""
    plan, refusal = None, ""
    try:
        if not isinstance(model, DistributedDataParallel):
            raise PlanError(f"the model is a {type(model).__name__}, and no "
                            "DistributedDataParallel")
        if model.find_unused_parameters:
            raise PlanError("DDP has find_unused_parameters=True, and a plan needs every "
                            "gradient in every iteration")
        plan = PlanFile(path)
    except PlanError as error:
        if not isinstance(model, DistributedDataParallel):
            raise
        refusal = str(error)
    _agree(model, plan, refusal)
    links = _links(model, plan, second_link)
    return PlannedOptimizer(_Run(model, optimizer, plan, links, before_update))


def _ranks_of(group):
    """The numbers that the job gives to the ranks of a group."""
    to_global = getattr(dist, "get_global_rank", None)
    if group is dist.group.WORLD or to_global is None:
        return list(range(dist.get_world_size(group)))
    return [to_global(group, rank) for rank in range(dist.get_world_size(group))]


def _listed(ranks):
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _agree(model, plan, refusal):
    """Compares the plans of all ranks: none goes on with another than the rest, or without."""
    own = f"!{refusal}" if refusal else f"{plan.hash}, merged gradients as a {plan.merge}"
    text = own.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")
    device = next(model.parameters()).device
    mine = torch.tensor(list(text), dtype=torch.uint8, device=device)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size(model.process_group))]
    dist.all_gather(all_of_them, mine, group=model.process_group)
    said = {}
    for rank, theirs in zip(_ranks_of(model.process_group), all_of_them):
        what = bytes(theirs.tolist()).rstrip(b"\0").decode(errors="replace")
        said.setdefault(what, []).append(rank)
    refused = {what: ranks for what, ranks in said.items() if what.startswith("!")}
    if refused:
        raise PlanError("; ".join(f"{_listed(ranks)}: {what[1:]}"
                                  for what, ranks in refused.items()))
    if len(said) > 1:
        raise PlanError("the ranks have different plans, which would hang: "
                        + "; ".join(f"{_listed(ranks)}: plan {what}"
                                    for what, ranks in said.items())
                        + ". Give every rank the same file")


def _links(model, plan, second_link):
    """A process group for each link."""
    if plan.links == 1:
        return [model.process_group]
    ranks = _ranks_of(model.process_group)
    if second_link is None:
        if len(ranks) != dist.get_world_size():
            raise PlanError(f"{plan.path} sends over two links, and the model is on {len(ranks)} "
                            f"of {dist.get_world_size()} ranks: make a group of them on every "
                            "rank of the job, and give it as second_link")
        described = "group_desc" in inspect.signature(dist.new_group).parameters
        second_link = dist.new_group(ranks, **({"group_desc": "link 2"} if described else {}))
    elif _ranks_of(second_link) != ranks:
        raise PlanError(f"second_link has {_listed(_ranks_of(second_link))}, the model "
                        f"{_listed(ranks)}")
    return [model.process_group, second_link]


class _Generation:
    """Gradients that are summed up here, sent and applied as one."""

    def __init__(self):
        self.buckets = {}  # number -> their sum
        self.ready = {}    # number -> event of its last addition, on CUDA
        self.works = []    # all-reduces under way or done
        self.sent = set()  # items
        self.merged = 0    # gradients in it


class _Run:
    """What a rank does by its plan."""

    def __init__(self, model, optimizer, plan, links, before_update):
        self.model, self.optimizer, self.plan, self.links = model, optimizer, plan, links
        self.before_update = before_update or (lambda: None)
        self.updates = 0
        self._share = 1.0 / dist.get_world_size(model.process_group)
        device = next(model.parameters()).device
        on_gpu = device.type == "cuda"
        self._streams = [torch.cuda.Stream(device) for _ in links] if on_gpu else None
        self._device = device
        self._own_left = OWN_ITERATIONS
        self._layout = {}  # number -> (elements, [(parameter, size, stride, offset)])
        self._spare = {}   # number -> buffers
        self._open = {}    # generation -> _Generation
        self._go_to(0)
        model.register_forward_pre_hook(lambda *_: self._begin("forward"))
        model.register_forward_hook(lambda *_: self._begin("backward"))
        model.register_comm_hook(self, _on_bucket)

    def _go_to(self, t):
        self._t = t
        self._now = self.plan.iteration(t)
        self._begun = set()  # passes
        self._seen = set()   # buckets

    def _where(self):
        return f"iteration {self._t} of {self.plan.path}"

    def _begin(self, stage):
        """Sends what the plan sends at the begin of a pass, the backward one once it can begin."""
        training = torch.is_grad_enabled() and self.model.require_backward_grad_sync
        if self._own_left or not training or stage in self._begun:
            return
        self._begun.add(stage)
        for send in self._now.forward if stage == "forward" else self._now.backward:
            self._send(send.link, send.item, self._open[send.generation])

    def _send(self, link, number, generation):
        item = self.plan.items[number]
        data = generation.buckets[item.bucket]
        if item.elements:
            data = data.narrow(0, item.first_element, item.elements)
        generation.sent.add(number)
        with self._on_stream_of(link, generation.ready.get(item.bucket)):
            work = dist.all_reduce(data, group=self.links[link - 1], async_op=True)
        generation.works.append(work)

    def _on_stream_of(self, link, ready):
        if self._streams is None:
            return contextlib.nullcontext()
        stream = self._streams[link - 1]
        stream.wait_event(ready)
        return torch.cuda.stream(stream)

    def on_bucket(self, bucket):
        """A bucket has this iteration's gradients."""
        if self._own_left:
            return self._reduce_as_ddp(bucket)
        number = self.plan.buckets - bucket.index()
        data = bucket.buffer()
        had = self._layout[number][0] if number in self._layout else 0
        if data.numel() != had:
            raise RuntimeError(f"bucket {number} has {data.numel()} elements in {self._where()}, "
                               f"and had {had}: DDP has formed its buckets anew")
        if number in self._seen:
            raise RuntimeError(f"bucket {number} has its gradients for the second time in "
                               f"{self._where()}: one backward pass for each step(), the others "
                               "within no_sync()")
        for stage in ("forward", "backward"):  # a forward pass that did not go through DDP
            self._begin(stage)
        self._seen.add(number)
        generation = self._open.setdefault(self._now.generation, _Generation())
        if len(self._seen) == 1:
            generation.merged += 1
        if number in generation.buckets:
            generation.buckets[number].add_(data, alpha=self._share)
        else:
            free = self._spare.get(number)
            total = free.pop() if free else torch.empty_like(data)
            generation.buckets[number] = torch.mul(data, self._share, out=total)
        if self._streams is not None:
            generation.ready[number] = torch.cuda.current_stream(self._device).record_event()
        for send in self._now.ready.get(number, ()):
            self._send(send.link, send.item, generation)
        return as_it_is(data)

    def _reduce_as_ddp(self, bucket):
        data = bucket.buffer()
        if data.is_sparse:
            raise RuntimeError("a plan needs dense gradients, and an Embedding with sparse=True "
                               "gives others")
        if bucket.index() == 0:
            self._layout.clear()
        self._seen.add(bucket.index())
        self._layout[bucket.index()] = (data.numel(), views_of(bucket))
        return reduce_as_ddp(data, self._share, self.links[0])

    def _fit(self):
        """Holds DDP's buckets against the plan's, and numbers them likewise: 1 is the input's."""
        count = len(self._layout)
        self._layout = {count - index: bucket for index, bucket in self._layout.items()}
        problems = []
        if count != self.plan.buckets:
            problems.append(f"DDP has {count} buckets, the plan {self.plan.buckets}")
        for number in range(1, min(count, self.plan.buckets) + 1):
            has, views = self._layout[number]
            here = bucket_name(self.model, [view[0] for view in views])
            elements, name = self.plan.elements[number - 1], self.plan.names[number - 1]
            if elements not in (0, has):
                problems.append(f"bucket {number} ({here}) has {has} elements, in the plan "
                                f"{elements}")
            elif name not in ("", here):
                problems.append(f"bucket {number} is {here}, in the plan {name}")
        if problems:
            raise PlanError(f"{self.plan.path} is of another model or bucket_cap_mb: "
                            + "; ".join(problems)
                            + ". Measure and plan anew (gordian.torch.measure)")

    def step(self):
        if self._own_left:
            if not self._seen:
                raise RuntimeError("step() without a backward pass through the "
                                   "DistributedDataParallel model")
            self._own_left -= 1
            if not self._own_left:
                self._fit()
            self._update()
            self._go_to(0)
            return
        if len(self._seen) != self.plan.buckets:
            raise RuntimeError(f"step() in {self._where()} when {len(self._seen)} of "
                               f"{self.plan.buckets} buckets have their gradients: each step() "
                               "needs one backward pass through the DistributedDataParallel model")
        for update in self._now.updates:
            self._apply(self._open.pop(update.generation))
        self._go_to(self._t + 1)

    def _apply(self, generation):
        for work in generation.works:
            work.wait()
        for number, data in generation.buckets.items():
            if self.plan.merge == "mean" and generation.merged > 1:
                data.div_(generation.merged)
            for parameter, size, stride, offset in self._layout[number][1]:
                gradient = data.as_strided(size, stride, data.storage_offset() + offset)
                if parameter.grad is None:
                    parameter.grad = gradient.clone()
                else:
                    parameter.grad.copy_(gradient)
            self._spare.setdefault(number, []).append(data)
        self._update()

    def _update(self):
        self.before_update()
        self.optimizer.step()
        self.updates += 1

    def flush(self):
        """Sends and applies what is left, generation by generation, and begins the plan anew."""
        if self._own_left:
            return
        if self._seen or self._begun:
            raise RuntimeError(f"flush() within {self._where()}: call it after step()")
        for _, generation in sorted(self._open.items()):
            for number in reversed(range(len(self.plan.items))):
                if number not in generation.sent:
                    self._send(1, number, generation)
            self._apply(generation)
        self._open.clear()
        self._go_to(0)


def _on_bucket(run, bucket):
    return run.on_bucket(bucket)


class PlannedOptimizer(torch.optim.Optimizer):
    """Stands for the optimizer that it was made from, whose groups and state it shows."""

    def __init__(self, run):  # pylint: disable=super-init-not-called
        self._run = run
        self.optim = run.optimizer
        self.defaults = self.optim.defaults

    @property
    def param_groups(self):
        return self.optim.param_groups

    @property
    def state(self):
        return self.optim.state

    @property
    def updates(self):
        """How often the parameters have changed."""
        return self._run.updates

    def __repr__(self):
        return f"PlannedOptimizer({self._run.plan.hash}, {self.optim!r})"

    def step(self, closure=None):
        """Ends an iteration. Changes the parameters if the plan applies gradients in it."""
        if closure is not None:
            raise RuntimeError("a planned optimizer takes no closure: an iteration has one "
                               "backward pass")
        self._run.step()

    def flush(self):
        """Applies what step() has not applied yet. All ranks call it, between iterations."""
        self._run.flush()

    @property
    def _step_supports_amp_scaling(self):  # GradScaler.step() asks for it
        raise RuntimeError("a plan merges gradients of several iterations, and a GradScaler may "
                           "scale each another way: train in bfloat16 without one")

    def zero_grad(self, *args, **kwargs):
        self.optim.zero_grad(*args, **kwargs)

    def state_dict(self):
        return self.optim.state_dict()

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict(state_dict)

    def add_param_group(self, param_group):
        self.optim.add_param_group(param_group)
