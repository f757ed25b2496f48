"""Gradients of one update of the byte GPT, as peers compute them in half precision.

  fp32           all in fp32
  autocast       parameters in fp32, autocast, GradScaler for fp16: Transformers' --bf16 and
                 --fp16
  parameters     parameters and .grad in 16 bits, unscaled there: model.to(dtype)
  main_grad      parameters in 16 bits, each microbatch's gradient added to one in fp32, which
                 is unscaled: Megatron-LM's main_grad, DeepSpeed's grad_accum_dtype fp32

The batch is all rows of a text, the loss their mean. Writes the gradients by
parameter as an .npz; the last line printed is one JSON object.
"""

import argparse
import json

import numpy
import torch

import gpt


def gradients(a, model, x, y):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[a.dtype]
    if a.arithmetic in ("parameters", "main_grad"):
        model.to(dtype)
    main = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in model.named_parameters()}
    for xs, ys in zip(x.chunk(a.microbatches), y.chunk(a.microbatches)):
        with torch.autocast("cpu", dtype=dtype, enabled=a.arithmetic == "autocast"):
            logits = model(xs)
        loss = gpt.loss_fn(logits, ys) if a.arithmetic != "autocast" else gpt.loss_fn(
            logits.float(), ys)
        (loss * (a.scale / a.microbatches)).backward()
        if a.arithmetic == "main_grad":
            for name, p in model.named_parameters():
                main[name] += p.grad
                p.grad = None
    if a.arithmetic != "main_grad":
        main = {name: p.grad for name, p in model.named_parameters()}
    return {name: (each / a.scale).float().numpy() for name, each in main.items()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--arithmetic", required=True)
    ap.add_argument("--dtype", default="fp32")
    ap.add_argument("--scale", type=float, default=1)
    ap.add_argument("--text", required=True)
    ap.add_argument("--initial", required=True, help="parameters, as an .npz")
    ap.add_argument("--out", required=True)
    for flag in ("d-model", "layers", "heads", "seq", "microbatches"):
        ap.add_argument("--" + flag, type=int, required=True)
    a = ap.parse_args()
    torch.set_num_threads(1)
    model = gpt.GPTStage(a.d_model, a.layers, a.heads, a.seq)
    with numpy.load(a.initial) as values:
        model.load_state_dict({name: torch.from_numpy(values[name]) for name in values.files})
    data = gpt.load_bytes(a.text).long()
    rows = (data.numel() - 1) // a.seq
    x = data[: rows * a.seq].view(rows, a.seq)
    y = data[1 : rows * a.seq + 1].view(rows, a.seq)
    found = gradients(a, model, x, y)
    numpy.savez(a.out, **found)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
