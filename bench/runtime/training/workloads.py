"""The jobs: each builds a model and returns what one step of it does.

A step returns the loss, on the device, or None on ranks that have none. Data is random, the same in every step, and
every data-parallel rank has its own.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import models
import parallel


class Job:
    """What the workloads share: the process's device and ranks, sizes, and communicators that are made once."""

    def __init__(self, device, tiny):
        self.device, self.tiny = device, tiny
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.traffic = parallel.Traffic()
        self.groups = {}

    def group(self, name, members_of_each):
        """The group that this rank is in, of several that all ranks make in the same order."""
        if name not in self.groups:
            own = None
            for members in members_of_each:
                made = dist.new_group(members)
                if self.rank in members:
                    own = made
            # Its first use waits for all members: now, where all are at the same place.
            one = torch.ones(1, device=self.device)
            dist.all_reduce(one, group=own)
            assert one.item() == dist.get_world_size(own)
            self.groups[name] = own
        return self.groups[name]

    def classes(self, batch, seed):
        """Images and labels of a data-parallel rank."""
        side = 32 if self.tiny else 224
        generator = torch.Generator().manual_seed(1000 + seed)
        images = torch.randn(batch, 3, side, side, generator=generator, device="cpu").to(self.device)
        return images, torch.randint(0, 10 if self.tiny else 1000, (batch,), generator=generator, device="cpu").to(self.device)

    @property
    def narrow(self):
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32


def _resnet(job):
    model = models.ResNet50((1, 1, 1, 1), 8, 10) if job.tiny else models.ResNet50()
    model = model.to(job.device, memory_format=torch.channels_last)
    images, labels = job.classes(4 if job.tiny else 96, job.rank)
    return model, images.to(memory_format=torch.channels_last), labels


def _train_resnet(job, model, parameters, finish):
    net, images, labels = model
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(job.device.type, torch.bfloat16, enabled=job.device.type == "cuda"):
            loss = F.cross_entropy(net(images), labels)
        loss.backward()
        finish()
        optimizer.step()
        return loss.detach()

    return step


def resnet_ddp(job):
    """ResNet-50, 96 images a GPU, DistributedDataParallel as it comes: buckets of 25 MB, buffers broadcast each step."""
    net, images, labels = _resnet(job)
    ddp = DistributedDataParallel(net, device_ids=[job.device.index] if job.device.type == "cuda" else None)
    kernels = _train_resnet(job, (ddp, images, labels), net.parameters(), lambda: None)

    def step():
        loss = kernels()
        # Its collectives are called in C++: counted from its own description.
        data = ddp._get_ddp_logging_data()
        sizes = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes", "")
        for size in str(sizes).split(","):
            if size.strip():
                job.traffic.count("all_reduce", int(size))
        buffers = sum(b.numel() * b.element_size() for b in net.buffers())
        job.traffic.count("broadcast of buffers", buffers)
        return loss

    return step, net


def resnet_each(job):
    """ResNet-50, an all-reduce for each of its 161 parameters when its gradient is there."""
    model = _resnet(job)
    reducer = parallel.EachGradient(model[0], job.traffic)
    return _train_resnet(job, model, model[0].parameters(), reducer.finish), model[0]


def _resnet_windows(job, order):
    model = _resnet(job)
    groups = [job.group(f"window {i}", [range(job.ranks)]) for i in range(4 if job.tiny else 23)]
    reducer = parallel.Windows(model[0], job.traffic, groups, order, job.device)
    return _train_resnet(job, model, model[0].parameters(), reducer.finish), model[0]


def resnet_windows(job):
    """ResNet-50, 161 all-reduces over 23 communicators on one stream, 7 windows of 23, in one order."""
    return _resnet_windows(job, lambda numbers: None)


def resnet_shuffled(job):
    """The same, each rank in a random order of its own in each window."""
    return _resnet_windows(job, parallel.own_order(job.rank))


def _vit(job, tp, replica):
    sizes = dict(layers=2, width=64, heads=4, image=32, patch=16, classes=10) if job.tiny else {}
    model = models.ViT(tp=tp, **sizes).to(job.device, job.narrow)
    images, labels = job.classes(4 if job.tiny else 128, replica)
    return model, images.to(job.narrow), labels


def _train_vit(job, model, finish, loss_group=None):
    net, images, labels = model
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        finish()
        optimizer.step()
        loss = loss.detach().clone()
        if loss_group is not False:
            job.traffic.all_reduce(loss, loss_group, mean=True)
        return loss

    return step


def vit_dp(job):
    """ViT-B/16 in bfloat16, 128 images a GPU, data parallel: 152 gradients and the loss."""
    model = _vit(job, models.Whole, job.rank)
    reducer = parallel.EachGradient(model[0], job.traffic)
    return _train_vit(job, model, reducer.finish), model[0]


def vit_tp(job):
    """ViT-B/16, 128 images, tensor parallel over all GPUs: 48 all-reduces of 37 MB."""
    group = job.group("tensor", [range(job.ranks)])
    model = _vit(job, parallel.TensorParallel(group, job.rank, job.ranks, job.traffic), 0)
    return _train_vit(job, model, lambda: None, loss_group=False), model[0]


def _grid(job, inner):
    """Ranks as rows of `inner` neighbours: this rank's row and column."""
    rows = [range(i, i + inner) for i in range(0, job.ranks, inner)]
    columns = [range(i, job.ranks, inner) for i in range(inner)]
    return job.group(f"rows of {inner}", rows), job.group(f"columns of {inner}", columns)


def vit_hybrid(job):
    """ViT-B/16, tensor parallel over 2 neighbours, data parallel over the rest: 48 all-reduces and 153."""
    row, column = _grid(job, 2)
    model = _vit(job, parallel.TensorParallel(row, job.rank % 2, 2, job.traffic), job.rank // 2)
    reducer = parallel.EachGradient(model[0], job.traffic, column)
    return _train_vit(job, model, reducer.finish, column), model[0]


def _gpt2(job, tensor):
    """Two stages; the ranks of a stage are `tensor` parallel ones, replicated."""
    in_stage = job.ranks // 2
    stage, place = divmod(job.rank, in_stage)
    replicas = in_stage // tensor
    tp = models.Whole
    if tensor > 1:
        rows = [range(i, i + tensor) for i in range(0, job.ranks, tensor)]
        tp = parallel.TensorParallel(job.group(f"rows of {tensor}", rows), place % tensor, tensor, job.traffic)
    data = None
    if replicas > 1:
        same = [range(s * in_stage + t, (s + 1) * in_stage, tensor) for s in range(2) for t in range(tensor)]
        data = job.group(f"replicas of {tensor}", same)
    pairs = job.group("stages", [[i, i + in_stage] for i in range(in_stage)])
    sizes = dict(layers=2, width=64, heads=4, length=16, words=128) if job.tiny else {}
    batch, length, width, words = (2, 16, 64, 128) if job.tiny else (8, 1024, 768, 50257)
    micro_batches = 4
    net = models.Gpt2Stage(stage, 2, tp=tp, **sizes).to(job.device, job.narrow)
    pipeline = parallel.TwoStages(stage, (job.rank + in_stage) % job.ranks, pairs, job.traffic, (batch, length, width),
                                  job.narrow, job.device)
    generator = torch.Generator().manual_seed(2000 + place // tensor)
    tokens = torch.randint(0, words, (micro_batches, batch, length + 1), generator=generator, device="cpu").to(job.device)
    inputs, labels = list(tokens[:, :, :-1]), [t.reshape(-1) for t in tokens[:, :, 1:]]
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    reducer = parallel.Buckets(net, job.traffic, data) if data is not None else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = pipeline.run(net, inputs, lambda y, i: F.cross_entropy(y.flatten(0, 1).float(), labels[i]))
        if reducer is not None:
            reducer.finish()
        optimizer.step()
        return loss

    return step, net


def gpt2_pp(job):
    """GPT-2 (124 M, an untied head), 4 micro-batches of 8 x 1,024 tokens, two stages; replicas if there are 4 GPUs."""
    return _gpt2(job, 1)


def gpt2_tp_pp(job):
    """The same, two stages of two tensor-parallel ranks."""
    return _gpt2(job, 2)


ALL = {f.__name__: f for f in (resnet_ddp, resnet_each, resnet_windows, resnet_shuffled, vit_dp, vit_tp, vit_hybrid, gpt2_pp,
                               gpt2_tp_pp)}
