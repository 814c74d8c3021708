"""How a job's ranks work together: counted collectives, gradients' all-reduces, tensor and pipeline parallelism."""

import random

import torch
import torch.distributed as dist


class Traffic:
    """Collectives of this rank, counted by kind: [operations, bytes of one rank's input]."""

    def __init__(self):
        self.of = {}

    def count(self, kind, tensor_bytes, operations=1):
        entry = self.of.setdefault(kind, [0, 0])
        entry[0] += operations
        entry[1] += tensor_bytes

    def all_reduce(self, tensor, group=None, mean=False, asynchronous=False):
        self.count("all_reduce", tensor.numel() * tensor.element_size())
        if mean and not tensor.is_cuda:  # gloo has no mean
            tensor.div_(dist.get_world_size(group))
        op = dist.ReduceOp.AVG if mean and tensor.is_cuda else dist.ReduceOp.SUM
        return dist.all_reduce(tensor, op=op, group=group, async_op=asynchronous)

    def exchange(self, send=None, receive=None, peer=None, group=None):
        """A send and a receive with one peer at once; either may be None."""
        calls = []
        for kind, tensor in ((dist.isend, send), (dist.irecv, receive)):
            if tensor is not None:
                self.count("send" if kind is dist.isend else "recv", tensor.numel() * tensor.element_size())
                calls.append(dist.P2POp(kind, tensor, peer, group))
        for work in dist.batch_isend_irecv(calls):
            work.wait()


class TensorParallel:
    """Copies activations into a group of ranks that hold shards of a layer, and adds up what comes out."""

    def __init__(self, group, rank, size, traffic):
        self.rank, self.size = rank, size

        class Enter(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                grad = grad.contiguous()
                traffic.all_reduce(grad, group)
                return grad

        class Leave(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                traffic.all_reduce(x, group)
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad

        self.enter, self.leave = Enter.apply, Leave.apply


def _after_accumulation(parameter, function):
    """Calls function() when the parameter's gradient of a backward pass is there. What it returns must be kept."""
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: function())
    return accumulator


class EachGradient:
    """An all-reduce for every parameter, as soon as its gradient is there."""

    def __init__(self, model, traffic, group=None):
        self.works = []
        self.kept = []
        for p in model.parameters():
            self.kept.append(_after_accumulation(p, lambda p=p: self.works.append(
                traffic.all_reduce(p.grad, group, mean=True, asynchronous=True))))

    def finish(self):
        for work in self.works:
            work.wait()
        self.works.clear()


class Windows:
    """An all-reduce for every parameter, in windows of as many as there are groups, each on a communicator of its own
    (the order between communicators is free, that within one is not). A window's all-reduces are called when all of its
    gradients are there, on one stream, in the order of `order(numbers)`.
    """

    def __init__(self, model, traffic, groups, order, device):
        parameters = list(model.parameters())[::-1]  # as they become ready, about
        size = len(groups)
        self.windows = [parameters[i:i + size] for i in range(0, len(parameters), size)]
        self.traffic, self.groups, self.order = traffic, groups, order
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
        self.kept, self.works = [], []
        for number, window in enumerate(self.windows):
            self.kept += [_after_accumulation(p, lambda number=number: self.ready(number)) for p in window]
        self.restart()

    def restart(self):
        self.missing = [len(window) for window in self.windows]
        self.next = 0

    def ready(self, number):
        self.missing[number] -= 1
        while self.next < len(self.windows) and self.missing[self.next] == 0:
            self.call(self.windows[self.next])
            self.next += 1

    def call(self, window):
        order = list(range(len(window)))
        self.order(order)
        if self.stream is None:  # gloo executes what is called at once beside each other
            self.works += [self.traffic.all_reduce(window[i].grad, self.groups[i], mean=True, asynchronous=True) for i in order]
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for i in order:
                self.traffic.all_reduce(window[i].grad, self.groups[i], mean=True)

    def finish(self):
        assert self.next == len(self.windows)
        for work in self.works:
            work.wait()
        self.works.clear()
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        self.restart()


def own_order(rank, seed=20260101):
    """Another order each time, and on each rank another."""
    return random.Random(seed + 7919 * rank).shuffle


class Buckets:
    """All gradients behind the backward pass, gathered into buckets, as Megatron-LM's."""

    def __init__(self, model, traffic, group, bucket_bytes=25 << 20):
        self.traffic, self.group, self.buckets, held = traffic, group, [], bucket_bytes
        for p in model.parameters():
            if held >= bucket_bytes:
                self.buckets.append([])
                held = 0
            self.buckets[-1].append(p)
            held += p.numel() * p.element_size()

    def finish(self):
        works = []
        for bucket in self.buckets:
            flat = torch.cat([p.grad.reshape(-1) for p in bucket])
            works.append((flat, self.traffic.all_reduce(flat, self.group, mean=True, asynchronous=True)))
        for (flat, work), bucket in zip(works, self.buckets):
            work.wait()
            for p, mean in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad.copy_(mean.view_as(p.grad))


class TwoStages:
    """A pipeline of two stages, one forward and one backward in turn (1F1B)."""

    def __init__(self, stage, peer, group, traffic, shape, dtype, device):
        self.stage, self.peer, self.group, self.traffic = stage, peer, group, traffic
        self.like = dict(size=shape, dtype=dtype, device=device)

    def exchange(self, send=None, receive=False):
        received = torch.empty(**self.like) if receive else None
        self.traffic.exchange(send, received, self.peer, self.group)
        return received

    def run(self, model, inputs, loss_of):
        """inputs: one for each micro-batch. Returns the mean of the losses (last stage), or None."""
        return (self.first if self.stage == 0 else self.second)(model, inputs, loss_of)

    def first(self, model, inputs, loss_of):
        earlier = None
        for x in inputs:
            y = model(x)
            gradient = self.exchange(send=y.detach(), receive=earlier is not None)
            if earlier is not None:
                earlier.backward(gradient)
            earlier = y
        earlier.backward(self.exchange(receive=True))

    def second(self, model, inputs, loss_of):
        losses = []
        x = self.exchange(receive=True)
        for i in range(len(inputs)):
            x.requires_grad_()
            loss = loss_of(model(x), i) / len(inputs)
            loss.backward()
            losses.append(loss.detach())
            x = self.exchange(send=x.grad, receive=i + 1 < len(inputs))
        return torch.stack(losses).sum()
