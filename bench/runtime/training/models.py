"""ResNet-50, ViT-B and GPT-2, of plain PyTorch, with tensor parallelism after Megatron-LM's.

Every rank draws the whole of each weight from the same generator and keeps its shard, so that a model does not
depend on how it is divided. Linear layers that are split by their outputs are followed by ones that are split by
their inputs: one all-reduce forward and one backward for each such pair.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Whole:
    """No tensor parallelism."""

    rank, size = 0, 1

    @staticmethod
    def enter(x):
        return x

    leave = enter


def _weight(*shape, std=0.02):
    return torch.randn(*shape) * std


class SplitLinear(nn.Module):
    """by: "outputs" or "inputs". parts: how many matrices the outputs are made of, each of which is split."""

    def __init__(self, inputs, outputs, tp, by, parts=1):
        super().__init__()
        self.tp, self.by = tp, by
        weight = _weight(outputs, inputs)
        if by == "outputs":
            own = outputs // parts // tp.size
            weight = weight.view(parts, outputs // parts, inputs)[:, tp.rank * own:(tp.rank + 1) * own].reshape(-1, inputs)
            bias = torch.zeros(parts * own)
        else:
            own = inputs // tp.size
            weight = weight[:, tp.rank * own:(tp.rank + 1) * own]
            bias = torch.zeros(outputs)
        self.weight = nn.Parameter(weight.contiguous().clone())
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        if self.by == "outputs":
            return F.linear(self.tp.enter(x), self.weight, self.bias)
        return self.tp.leave(F.linear(x, self.weight)) + self.bias


def attention(q, k, v, causal):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    # PyTorch before 2.0: for the tests without GPUs.
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads, tp, causal):
        super().__init__()
        self.heads, self.causal = heads // tp.size, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = SplitLinear(width, 3 * width, tp, "outputs", parts=3)
        self.out = SplitLinear(width, width, tp, "inputs")
        self.up = SplitLinear(width, 4 * width, tp, "outputs")
        self.down = SplitLinear(4 * width, width, tp, "inputs")

    def forward(self, x):
        batch, length = x.shape[:2]
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = attention(qkv[0], qkv[1], qkv[2], self.causal)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, image=224, patch=16, classes=1000, tp=Whole):
        super().__init__()
        self.patch = patch
        patches = (image // patch) ** 2
        self.embed = nn.Linear(3 * patch * patch, width)
        self.token = nn.Parameter(_weight(1, 1, width))
        self.position = nn.Parameter(_weight(1, patches + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, tp, causal=False) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        batch, channels, side, _ = images.shape
        cut = side // self.patch
        x = images.view(batch, channels, cut, self.patch, cut, self.patch).permute(0, 2, 4, 1, 3, 5)
        x = self.embed(x.reshape(batch, cut * cut, -1))
        x = torch.cat([self.token.expand(batch, -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Gpt2Stage(nn.Module):
    """Stage `stage` of `stages` of a pipeline; the first takes tokens, the last gives logits (its matrix is its own)."""

    def __init__(self, stage, stages, layers=12, width=768, heads=12, length=1024, words=50304, tp=Whole):
        super().__init__()
        self.first, self.last = stage == 0, stage == stages - 1
        # Drawn on every rank, in one order, whatever its stage.
        embed, position = _weight(words, width), _weight(length, width)
        blocks = [Block(width, heads, tp, causal=True) for _ in range(layers)]
        head = _weight(words, width)
        if self.first:
            self.embed, self.position = nn.Parameter(embed), nn.Parameter(position)
        own = layers // stages
        self.blocks = nn.ModuleList(blocks[stage * own:(stage + 1) * own])
        if self.last:
            self.norm, self.head = nn.LayerNorm(width), nn.Parameter(head)

    def forward(self, x):
        if self.first:
            x = F.embedding(x, self.embed) + self.position[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.head) if self.last else x


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet50(nn.Module):
    """161 parameters, 25.6 million elements. `depths` and `width`: smaller ones for tests."""

    def __init__(self, depths=(3, 4, 6, 3), width=64, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Bottleneck(inputs, width << stage, 2 if stage > 0 and i == 0 else 1))
                inputs = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))
