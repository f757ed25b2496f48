"""Losses and final weights of three steps, computed by PyTorch in Python.

    troupe train --plain --text book.txt --steps 0 ... --save-initial FILE

gives the initial weights; this script trains an independent implementation of
the same GPT from them, on batches that it writes beside the losses:

    python make_golden.py initial.safetensors golden.safetensors

The result holds `ids` [steps, microbatches, rows, length + 1] (int64) and
`losses` [steps] (float64, mean over microbatches), and the initial weights.
tests/actors/golden_test.cpp reads it. Made once, with torch 2.11.0.
"""

import sys

import torch
import torch.nn.functional as F
from tensor_files import read_safetensors, write_safetensors

STEPS, MICROBATCHES, ROWS, LENGTH = 3, 4, 2, 8
HEADS, VOCABULARY = 2, 32


def attention(p, prefix, x):
    """Written out, not by scaled_dot_product_attention."""
    b, t, d = x.shape
    qkv = F.linear(x, p[prefix + "qkv.weight"], p[prefix + "qkv.bias"])
    q, k, v = (
        part.reshape(b, t, HEADS, d // HEADS).transpose(1, 2)
        for part in qkv.split(d, dim=-1)
    )
    scores = q @ k.transpose(-2, -1) / (d // HEADS) ** 0.5
    ahead = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
    y = scores.masked_fill(ahead, float("-inf")).softmax(-1) @ v
    y = y.transpose(1, 2).reshape(b, t, d)
    return F.linear(y, p[prefix + "out.weight"], p[prefix + "out.bias"])


def norm(p, prefix, x):
    return F.layer_norm(x, x.shape[-1:], p[prefix + "weight"], p[prefix + "bias"])


def logits(p, ids):
    x = F.embedding(ids, p["tok.weight"]) + p["pos.weight"][: ids.shape[1]]
    layer = 0
    while f"blocks.{layer}.ln1.weight" in p:
        b = f"blocks.{layer}."
        x = x + attention(p, b + "attn.", norm(p, b + "ln1.", x))
        h = norm(p, b + "ln2.", x)
        h = F.gelu(F.linear(h, p[b + "mlp.up.weight"], p[b + "mlp.up.bias"]))
        x = x + F.linear(h, p[b + "mlp.down.weight"], p[b + "mlp.down.bias"])
        layer += 1
    return F.linear(norm(p, "ln_f.", x), p["head.weight"], p["head.bias"])


def main():
    torch.set_num_threads(1)
    initial = read_safetensors(sys.argv[1])
    p = {k: v.clone().requires_grad_(True) for k, v in initial.items()}
    update = torch.optim.AdamW(p.values(), lr=1e-2)
    gen = torch.Generator().manual_seed(5)
    shape = (STEPS, MICROBATCHES, ROWS, LENGTH + 1)
    ids = torch.randint(0, VOCABULARY, shape, generator=gen)
    losses = []
    for step in ids:
        total = 0.0
        for rows in step:
            out = logits(p, rows[:, :-1])
            loss = F.cross_entropy(out.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))
            (loss / MICROBATCHES).backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(p.values(), 0.5)
        update.step()
        update.zero_grad()
        losses.append(total / MICROBATCHES)
    out = dict(initial)
    out["ids"] = ids
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    out["final.head.weight"] = p["head.weight"].detach()
    write_safetensors(sys.argv[2], out)
    print(losses)


if __name__ == "__main__":
    main()
