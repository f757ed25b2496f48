"""Replicas and shards of a GPT, trained by PyTorch's DDP and FSDP.

    python make_sharded.py sharded.safetensors

Each case trains the same model (make_golden.py's, with weights by a formula) on
the same four microbatches a step, by AdamW with clipped gradients: 2 processes
with two microbatches each, or 4 with one. They talk by gloo, on CPUs. The result
holds `ids` [steps, microbatches, rows, length + 1] (int64), the initial weights,
and for each case `CASE.losses` and `CASE.norms` [steps] (float64: the mean over
microbatches; the gradients' norm before clipping) and `CASE.NAME`, the weights
after the last step. tests/actors/golden_shards_test.cpp reads it. Made once, with
torch 2.11.0.
"""

import math
import os
import sys
import tempfile
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from make_golden import HEADS, VOCABULARY
from tensor_files import write_safetensors
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

STEPS, MICROBATCHES, ROWS, LENGTH = 4, 4, 2, 8
WIDTH, BLOCKS = 16, 2
# So large that gradients which are zero but for rounding move no weight.
EPSILON = 1e-4


@dataclass
class Case:
    processes: int
    shards: int = 0  # processes of a group that shares parameters; 0: DDP
    reshard: bool = True  # between forward and backward
    divide: float = 0  # the sum of gradients by this; 0: their mean
    dtype: torch.dtype = torch.float32


CASES = {
    "ddp2": Case(2),
    "ddp4": Case(4),
    "fsdp2": Case(2, 2),
    "fsdp4": Case(4, 4),
    "fsdp2_whole": Case(2, 2, reshard=False),
    "fsdp4_whole": Case(4, 4, reshard=False),
    "hsdp4": Case(4, 2),
    "fsdp2_sum": Case(2, 2, divide=1),
    "fsdp4_divide": Case(4, 4, divide=3),
    "fsdp4_bf16": Case(4, 4, dtype=torch.bfloat16),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            part.reshape(b, t, HEADS, d // HEADS).transpose(1, 2)
            for part in self.qkv(x).split(d, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / (d // HEADS) ** 0.5
        ahead = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        y = scores.masked_fill(ahead, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.mlp = Attention(), MLP()

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.pos = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def initial():
    """Waves of another length for each parameter; norms are near 1."""
    weights = {}
    for place, (name, p) in enumerate(GPT().named_parameters()):
        wave = [
            math.sin(0.37 * (i + 1) * (place + 2)) * 0.2 for i in range(p.numel())
        ]
        base = 1.0 if ".ln" in "." + name and name.endswith("weight") else 0.0
        weights[name] = torch.tensor(wave).reshape(p.shape) + base
    return weights


def all_ids():
    count = STEPS * MICROBATCHES * ROWS * (LENGTH + 1)
    flat = torch.tensor([(i * i * 7 + i // 5) % VOCABULARY for i in range(count)])
    return flat.reshape(STEPS, MICROBATCHES, ROWS, LENGTH + 1)


def distributed(model, case):
    if case.shards == 0:
        return DistributedDataParallel(model)
    sizes = (case.processes // case.shards, case.shards)
    mesh = (
        init_device_mesh("cpu", sizes, mesh_dim_names=("replicas", "shards"))
        if sizes[0] > 1
        else init_device_mesh("cpu", (case.shards,))
    )
    half = case.dtype != torch.float32
    policy = (
        MixedPrecisionPolicy(param_dtype=case.dtype, reduce_dtype=torch.float32)
        if half
        else MixedPrecisionPolicy()
    )
    options = {
        "mesh": mesh,
        "reshard_after_forward": case.reshard,
        "mp_policy": policy,
    }
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    if case.divide > 0:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(case.divide)
                # gloo can't multiply while it adds.
                module.set_force_sum_reduction_for_comms(True)
    return model


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def backward(model, case, rows, last, losses):
    """Accumulates a microbatch's gradients; the last one reduces them."""
    logits = model(rows[:, :-1]).float()
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))
    losses.append(loss.detach().double())
    (loss / (MICROBATCHES // case.processes)).backward()


def step(model, case, rank, microbatches):
    each = MICROBATCHES // case.processes
    losses = []
    for k in range(each):
        rows, last = microbatches[rank * each + k], k == each - 1
        if case.shards == 0 and not last:
            with model.no_sync():
                backward(model, case, rows, last, losses)
            continue
        if case.shards > 0:
            model.set_requires_gradient_sync(last)
        backward(model, case, rows, last, losses)
    total = torch.stack(losses).sum()
    dist.all_reduce(total)
    return total / MICROBATCHES


def train(rank, case, name, meeting, result):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=case.processes
    )
    model = GPT()
    model.load_state_dict(initial())
    model = distributed(model, case)
    update = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=EPSILON)
    losses, norms = [], []
    for microbatches in all_ids():
        losses.append(step(model, case, rank, microbatches))
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        norms.append(whole(norm).double())
        update.step()
        update.zero_grad()
    out = {
        f"{name}.losses": torch.stack(losses),
        f"{name}.norms": torch.stack(norms),
    }
    for key, value in model.named_parameters():
        out[f"{name}.{key.removeprefix('module.')}"] = whole(value.detach()).clone()
    if rank == 0:
        torch.save(out, result)
    dist.barrier()
    dist.destroy_process_group()


def main():
    out = {"ids": all_ids(), **initial()}
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            result = os.path.join(folder, name)
            mp.spawn(train, (case, name, result + ".meeting", result), case.processes)
            part = torch.load(result)
            print(name, part[f"{name}.losses"].tolist(), part[f"{name}.norms"].tolist())
            out |= part
    write_safetensors(sys.argv[1], out)


if __name__ == "__main__":
    main()
