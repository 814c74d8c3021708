#!/usr/bin/env python3
"""Trains small models of PyTorch by plans of `gordian plan`, and holds losses and parameters against
DistributedDataParallel's and against a naive twin's. Over gloo; run_plan.py starts it.

  plan_job.py CASE[,CASE] WORK GORDIAN     # training, refusals, hang

The twin is one process without gordian.torch: it computes the gradients of each rank's batches, and applies what the
file says is applied. Its sums have the same order, so all is compared bit by bit.
"""

import copy
import json
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from gordian.torch import measure, plan

WORLD = 2
BATCH = 16
OWN = 2            # iterations of DDP's own, before the plan
TOLERANCE = 0.01   # of accuracy
BUCKET_BYTES = 4096

CASES, WORK, GORDIAN = sys.argv[1:4]


def require(condition, what):
    if not condition:
        raise AssertionError(what)


class Images:
    """Ten patterns of 8 x 8 under noise, for a small CNN."""
    rate, momentum = 0.03, 0
    clip = None
    views = False  # gradients are parts of DDP's buckets

    @staticmethod
    def model():
        return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(2, 16), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    @staticmethod
    def batch(seed, count):
        patterns = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(1))
        random = torch.Generator().manual_seed(1000 + seed)
        labels = torch.randint(10, (count,), generator=random)
        return patterns[labels] + 0.4 * torch.randn(count, 1, 8, 8, generator=random), labels


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(8, 16), nn.Parameter(torch.zeros(12, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 8)

    def forward(self, tokens):
        return self.head(self.layer(self.tokens(tokens) + self.places).mean(1))


class Tokens:
    """Which of eight tokens is the most frequent of twelve, for a small transformer."""
    rate, momentum = 0.02, 0.9
    clip = 1.0
    views = True

    model = Transformer

    @staticmethod
    def batch(seed, count):
        random = torch.Generator().manual_seed(2000 + seed)
        labels = torch.randint(8, (count,), generator=random)
        tokens = torch.randint(8, (count, 12), generator=random)
        often = torch.rand(count, 12, generator=random) < 0.6
        return torch.where(often, labels[:, None], tokens), labels


def batch_of(task, t, rank):
    return task.batch(t * WORLD + rank, BATCH)


def loss_of(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])


def new_model(task):
    torch.manual_seed(3)
    return task.model()


def wrapped(task):
    dist._DEFAULT_FIRST_BUCKET_BYTES = BUCKET_BYTES  # of small models: DDP's is a MiB
    return DistributedDataParallel(new_model(task), bucket_cap_mb=BUCKET_BYTES / 2 ** 20,
                                   gradient_as_bucket_view=task.views)


def sgd(task, model):
    return torch.optim.SGD(model.parameters(), lr=task.rate, momentum=task.momentum)


def clip_of(task, model):
    return (lambda: nn.utils.clip_grad_norm_(model.parameters(), task.clip)) if task.clip else (lambda: None)


def train(task, iterations, path=None, second_link=None):
    """By DDP, or by a plan: losses, the model, and the optimizer."""
    model = wrapped(task)
    clip, optimizer = clip_of(task, model), sgd(task, model)
    if path:
        optimizer = plan.follow(model, optimizer, path, second_link, before_update=clip)
    losses = []
    for t in range(iterations):
        optimizer.zero_grad()
        loss = loss_of(model, batch_of(task, t, dist.get_rank()))
        loss.backward()
        if not path:
            clip()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.module, optimizer


def gradients(task, model, t):
    """Of each rank's batch, divided by the number of ranks as DDP does."""
    of_ranks = []
    for rank in range(WORLD):
        model.zero_grad()
        loss_of(model, batch_of(task, t, rank)).backward()
        of_ranks.append([parameter.grad * (1 / WORLD) for parameter in model.parameters()])
    return of_ranks


def twin(task, iterations, path):
    """The model after so many iterations, and after a flush."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    warm_up, period = document["warm_up"], document["period"]
    model = new_model(task)
    clip, optimizer = clip_of(task, model), sgd(task, model)
    history = []

    def apply(first, last, merged):
        sums = []
        for rank in range(WORLD):
            total = [gradient.clone() for gradient in history[first][rank]]
            for t in range(first + 1, last + 1):
                total = [a + b for a, b in zip(total, history[t][rank])]
            sums.append(total)
        for parameter, a, b in zip(model.parameters(), *sums):
            parameter.grad = (a + b) / (merged if document["merge"] == "mean" else 1)
        clip()
        optimizer.step()

    for t in range(-OWN, iterations - OWN + 4 * len(period)):
        if t < iterations - OWN:
            history.append(gradients(task, model, t + OWN))
        elif t == iterations - OWN:
            unflushed = copy.deepcopy(model)
        if t < 0:
            apply(t + OWN, t + OWN, 1)
            continue
        turn, at = (0, t) if t < len(warm_up) else divmod(t - len(warm_up), len(period))
        shape = warm_up[t] if t < len(warm_up) else period[at]
        for update in shape["updates"]:
            first = update["first_gradient"] + turn * len(period) + OWN
            last = min(first + update["merged"], len(history)) - 1
            if first <= last:
                apply(first, last, last - first + 1)
    return unflushed, model


def make_plan(table, name, comm_us, *options):
    """Of a model's buckets, each with 10 us forward, 10 us backward and what is asked for as all-reduce."""
    path = os.path.join(WORK, f"{name}.json")
    if dist.get_rank() == 0:
        buckets = [dict(bucket, forward_us=10, backward_us=10, comm_us=comm_us) for bucket in table["buckets"]]
        with open(f"{path}.table", "w", encoding="utf-8") as file:
            json.dump({"buckets": buckets}, file)
        subprocess.run([GORDIAN, "plan", f"{path}.table", "-o", path, *options], check=True, capture_output=True)
    dist.barrier()
    return path


def table_of(task):
    model = wrapped(task)
    times = measure.Times(model)
    for t in range(OWN + 5):
        loss_of(model, batch_of(task, t, dist.get_rank())).backward()
    table = times.table()
    names = {name for name, _ in model.module.named_parameters()}
    require(len(table["buckets"]) >= 3, table)
    require(sum(bucket["elements"] for bucket in table["buckets"]) == sum(p.numel() for p in model.parameters()), table)
    require(all(names.issuperset(bucket["name"].split(" to ")) for bucket in table["buckets"]), table)
    require(all(bucket["comm_us"] > 0 and bucket["backward_us"] > 0 for bucket in table["buckets"]), table)
    require(sum(bucket["forward_us"] for bucket in table["buckets"]) > 0, table)
    return table


def same(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters()))


def accuracy(task, model):
    inputs, labels = task.batch(10 ** 6, 1000)
    with torch.no_grad():
        return (model(inputs).argmax(1) == labels).float().mean().item()


COMPARED = 15  # iterations
# name: all-reduce of a bucket in us (10 forward, 10 backward), options, must merge gradients
PLANS = {
    "late": (9, [], False),
    "merged": (39, [], True),
    "mean": (39, ["--merge", "mean"], True),
    "two-links": (36, ["--links", "2"], True),
    "pieces": (25, ["--partition", "500"], True),
}


def training():
    for task, iterations, kinds in ((Images, 150, PLANS), (Tokens, 100, ["merged", "two-links"])):
        name = task.__name__
        table = table_of(task)
        losses, ddp, _ = train(task, iterations)
        reached = accuracy(task, ddp)
        require(reached > 0.9, f"{name}: DDP learns nothing: {reached}")
        at_once = make_plan(table, f"{name}-at-once", 2, "--scale", "2")
        planned_losses, planned, optimizer = train(task, 30, at_once)
        require(optimizer.updates == 30, f"{name}: a plan without delay has {optimizer.updates} updates")
        require(planned_losses == losses[:30], f"{name}: without delay, losses are not DDP's")
        for kind in kinds:
            comm_us, options, merges = PLANS[kind]
            path = make_plan(table, f"{name}-{kind}", comm_us, *options)
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            require(merges == (max(document["merged"]) > 1), f"{path}: merges {document['merged']}")
            require(document["staleness"]["max"] > 0, f"{path}: {document['staleness']}")
            unflushed, flushed = twin(task, COMPARED, path)
            # The links of a plan of two are made, or given.
            second_link = dist.new_group([0, 1]) if kind == "two-links" and task is Tokens else None
            _, planned, optimizer = train(task, COMPARED, path, second_link)
            require(same(planned, unflushed), f"{path}: parameters are not the twin's")
            optimizer.flush()
            require(same(planned, flushed), f"{path}: after flush(), parameters are not the twin's")
        learns(task, f"{WORK}/{name}-merged.json", iterations, reached)


def learns(task, path, iterations, reached):
    _, planned, optimizer = train(task, iterations, path)
    optimizer.flush()
    require(optimizer.updates < 0.6 * iterations, f"{path}: {optimizer.updates} updates")
    mine = accuracy(task, planned)
    require(mine >= reached - TOLERANCE, f"{path}: accuracy {mine}, DDP's is {reached}")
    if dist.get_rank() == 0:
        print(f"{path}: accuracy {mine:.3f} after {optimizer.updates} updates, DDP {reached:.3f} after {iterations}",
              flush=True)


def refused(action, *wanted):
    try:
        action()
    except plan.PlanError as error:
        for text in wanted:
            require(text in str(error), f"{error}\n  says nothing of: {text}")
        return
    raise AssertionError(f"not refused: {wanted}")


def follow(task, path):
    model = wrapped(task)
    return model, plan.follow(model, sgd(task, model), path)


def refusals():
    rank = dist.get_rank()
    images, tokens = table_of(Images), table_of(Tokens)
    good = make_plan(images, "good", 39)
    other = make_plan(images, "other", 15)
    with open(good, encoding="utf-8") as good_file, open(other, encoding="utf-8") as other_file:
        hashes = [json.load(good_file)["hash"], json.load(other_file)["hash"]]
    refused(lambda: follow(Images, [good, other][rank]), f"rank 0: plan {hashes[0]}", f"rank 1: plan {hashes[1]}")
    mean = make_plan(images, "mean", 39, "--merge", "mean")
    refused(lambda: follow(Images, [good, mean][rank]), "as a sum; rank 1: plan", "as a mean")
    missing = os.path.join(WORK, "missing.json")
    refused(lambda: follow(Images, missing if rank else good), "rank 1: ", "missing.json", "No such file")
    newer = os.path.join(WORK, "newer.json")
    if rank == 0:
        with open(good, encoding="utf-8") as file, open(newer, "w", encoding="utf-8") as out:
            json.dump(dict(json.load(file), schema="gordian.plan.v9"), out)
    dist.barrier()
    refused(lambda: follow(Images, newer), "ranks 0, 1: ", "newer.json", "gordian.plan.v9", "gordian.plan.v1")
    tables = {"layers": tokens, "one-more": {"buckets": [*images["buckets"], images["buckets"][0]]},
              "renamed": {"buckets": [dict(images["buckets"][0], name="stem.weight"), *images["buckets"][1:]]},
              "larger": {"buckets": [dict(images["buckets"][0], elements=images["buckets"][0]["elements"] + 1),
                                     *images["buckets"][1:]]}}
    count, first = len(images["buckets"]), images["buckets"][0]
    says = {"layers": ("the plan", "another model"), "one-more": (f"DDP has {count} buckets, the plan {count + 1}",),
            "renamed": (f"bucket 1 is {first['name']}, in the plan stem.weight",),
            "larger": (f"bucket 1 ({first['name']}) has {first['elements']} elements, in the plan {first['elements'] + 1}",)}
    for name, table in tables.items():
        model, optimizer = follow(Images, make_plan(table, name, 39))

        def iterations(model=model, optimizer=optimizer):
            for t in range(OWN):
                optimizer.zero_grad()
                loss_of(model, batch_of(Images, t, rank)).backward()
                optimizer.step()

        refused(iterations, f"{name}.json", *says[name])
    misused(good)


def misused(path):
    """Loops that do not follow the plan: an error says so, on the rank that errs."""
    def expect(error, text, action):
        try:
            action()
        except error as e:
            require(text in str(e), f"{e}\n  says nothing of: {text}")
            return
        raise AssertionError(f"no error: {text}")

    unused = DistributedDataParallel(new_model(Images), find_unused_parameters=True)
    expect(plan.PlanError, "find_unused_parameters", lambda: plan.follow(unused, sgd(Images, unused), path))
    expect(plan.PlanError, "Sequential", lambda: plan.follow(new_model(Images), sgd(Images, unused), path))
    model, optimizer = follow(Images, path)
    torch.optim.lr_scheduler.StepLR(optimizer, 10)  # takes optimizers alone
    expect(RuntimeError, "without a backward pass", optimizer.step)
    expect(RuntimeError, "closure", lambda: optimizer.step(lambda: 0))
    expect(RuntimeError, "GradScaler", lambda: optimizer._step_supports_amp_scaling)
    for t in range(OWN + 1):
        loss_of(model, batch_of(Images, t, dist.get_rank())).backward()
        optimizer.step()
    expect(RuntimeError, "0 of", optimizer.step)
    loss_of(model, batch_of(Images, 0, dist.get_rank())).backward()
    expect(RuntimeError, "no_sync", loss_of(model, batch_of(Images, 0, dist.get_rank())).backward)


def hang():
    """Rank 1 leaves out an iteration and goes on to the metric of the epoch, which has a group of its own."""
    metrics = dist.new_group([0, 1])
    dist.barrier(group=metrics)
    model, optimizer = follow(Images, make_plan(table_of(Images), "hang", 39))
    for t in range(12):
        if t == 7 and dist.get_rank() == 1:
            continue
        optimizer.zero_grad()
        loss_of(model, batch_of(Images, t, dist.get_rank())).backward()
        optimizer.step()  # guilty: the rank that waits
    dist.barrier(group=metrics)  # guilty: the rank that left


torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
dist.init_process_group("gloo")
for case in CASES.split(","):
    {"training": training, "refusals": refusals, "hang": hang}[case]()
dist.destroy_process_group()
if os.environ["RANK"] == "0":
    print("done", flush=True)
