"""Decoder models of Hugging Face's transformers: small random configurations, with
what the package computes for them.

    python make_models.py FOLDER [TYPE...]

writes FOLDER/TYPE.safetensors for every type of TYPES. Each holds CASES cases. The
metadata of case k: `config.k` (config.json as save_pretrained writes it),
`config_v4.k` (the same model in the field names of transformers 4.40), `names.k`
([name, shape] of every parameter in the order of the state dict; a tied head is left
out) and `saved.k` ([name, shape] of every tensor in the file that save_pretrained
writes, in its order; experts are apart there, and GPT-NeoX's head is embed_out). Its
tensors:

- `k.ids` [rows, length] (int64): the tokens of step 0;
- `k.logits`: samples of the logits at step 0;
- `k.loss` [4] (float64): of steps 0 to 3, each before its update, on its own tokens;
- `k.gradient.NAME`: samples of the gradient at step 0, and `k.gradient_norm`
  (float64), the norm of all gradients;
- `k.trained.NAME`: samples of the parameter after 3 updates by AdamW.

Samples of n elements are those at j * n // min(n, 24), row-major, as float32.
Adam's epsilon is so large that gradients which are zero but for rounding, as of
keys' biases, move no weight: what is trained must not depend on the processor. It
is computed here in two more ways, and no sample may differ by more than a fifth of
what tests tolerate.

Weights and tokens follow formulas (`weight` and `tokens` below), so that tests can
make them. Attention is transformers' "eager"; "sdpa", float64 and the two
configurations read from files are checked against it here. Made once, with torch
2.11.0 and transformers 5.24.0.
"""

import copy
import json
import math
import os
import random
import sys
import tempfile
import warnings

import numpy as np
import torch
from model_configs import CASES, TYPES, older_fields, random_config
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tensor_files import safetensors_shapes, write_safetensors

ROWS, STEPS, SAMPLES = 2, 3, 24
EPSILON = 1e-3
ROUNDING = 2e-6  # relative to a tensor's largest sample
GOLDEN_RATIO = 0x9E3779B97F4A7C15


def mixed(seed, count):
    """splitmix64 of seed + (i + 1) * GOLDEN_RATIO, all modulo 2^64."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN_RATIO)
        z += np.uint64(seed % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def fnv1a(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def weight(name, shape):
    count = math.prod(shape)
    u = (mixed(fnv1a(name), count) >> np.uint64(40)).astype(np.float64) / 2**24
    v = 2 * u - 1
    if len(shape) != 1:
        v = 0.2 * v
    elif name.endswith("weight"):
        v = 1 + 0.1 * v
    else:
        v = 0.1 * v
    return torch.from_numpy(v.astype(np.float32)).reshape(shape)


def tokens(step, length, vocabulary):
    z = mixed(0x5EED + step * 1000003, ROWS * length) >> np.uint64(33)
    ids = (z % np.uint64(vocabulary)).astype(np.int64)
    return torch.from_numpy(ids).reshape(ROWS, length)


def samples(t):
    n = t.numel()
    count = min(n, SAMPLES)
    at = torch.tensor([j * n // count for j in range(count)])
    return t.detach().reshape(-1)[at].float()


def make_model(config, attention="eager"):
    model = AutoModelForCausalLM.from_config(
        copy.deepcopy(config),
        attn_implementation=attention,
        experts_implementation="eager",
        dtype=torch.float32,
    )
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weight(name, list(p.shape)))
    return model.train()


def routing_gap(output, config):
    """The least difference of probability between the last chosen expert and the
    first one left out."""
    gap, chosen = 1.0, getattr(config, "num_experts_per_tok", 0)
    for logits in getattr(output, "router_logits", None) or ():
        p = logits.softmax(-1).sort(-1, descending=True).values
        if chosen < p.shape[-1]:
            gap = min(gap, (p[:, chosen - 1] - p[:, chosen]).min().item())
    return gap


def forward(model, ids):
    routed = any(n.endswith("mlp.gate.weight") for n, _ in model.named_parameters())
    counted = getattr(model.config, "output_router_logits", False)
    output = model(input_ids=ids, labels=ids)
    if not routed or counted:
        return output, output.loss, routing_gap(output, model.config)
    with torch.no_grad():
        routed = model(input_ids=ids, output_router_logits=True)
    return output, output.loss, routing_gap(routed, model.config)


def gradient_norm(model):
    squares = [p.grad.double().square().sum() for p in model.parameters()]
    return torch.stack(squares).sum().sqrt()


def train(model, length):
    """What a case's tensors hold, under their names, and the least routing gap."""
    update = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=EPSILON, weight_decay=0.01
    )
    out, losses, least = {}, [], 1.0
    for step in range(STEPS + 1):
        ids = tokens(step, length, model.config.vocab_size)
        update.zero_grad()
        output, loss, gap = forward(model, ids)
        least = min(least, gap)
        losses.append(loss.detach().double())
        if step == STEPS:
            break
        loss.backward()
        for p in model.parameters():  # of experts that no token chose
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        if step == 0:
            out |= {"ids": ids, "logits": samples(output.logits)}
            for name, p in model.named_parameters():
                out["gradient." + name] = samples(p.grad)
            out["gradient_norm"] = gradient_norm(model)
        update.step()
    out["loss"] = torch.stack(losses)
    for name, p in model.named_parameters():
        out["trained." + name] = samples(p)
    return out, least


def first_step(model, ids):
    """Logits and the norm of gradients, to tell whether two models are the same."""
    output = model(input_ids=ids, labels=ids)
    output.loss.backward()
    return output.logits.detach(), gradient_norm(model)


def read_config(text):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            f.write(text)
        return AutoConfig.from_pretrained(folder)


def check_same(config, logits, norm, ids):
    other_logits, other_norm = first_step(make_model(config), ids)
    assert torch.equal(logits, other_logits) and norm == other_norm, config


def saved_form(model, logits, ids):
    """config.json and the tensors of what save_pretrained writes."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json")) as f:
            text = f.read()
        shapes = safetensors_shapes(os.path.join(folder, "model.safetensors"))
        back = AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager", experts_implementation="eager"
        )
        assert torch.equal(back(input_ids=ids).logits, logits)
    return text, shapes


def rounding(out, other):
    """How far two ways of computing are apart: their trained samples."""
    return max(
        ((out[name] - other[name]).abs().max() / out[name].abs().max()).item()
        for name in out
        if name.startswith("trained.")
    )


def make_case(kind, k):
    """A case's tensors and metadata; another configuration if one is unstable."""
    for attempt in range(50):
        fields, length = random_config(random.Random(f"{kind}.{k}.{attempt}"), kind, k)
        ids = tokens(0, length, fields["vocab_size"])
        if fields.get("pad_token_id") == "used":
            fields["pad_token_id"] = ids[0, 1].item()
        config = AutoConfig.for_model(kind, **fields)
        out, gap = train(make_model(config), length)
        if gap > 1e-4:
            break
    else:
        raise RuntimeError(f"{kind} {k}: every attempt routes by rounding errors")
    errors, wider = [], copy.deepcopy(config)
    if kind == "gpt2":  # which reordered attention refuses float64
        wider.reorder_and_upcast_attn = False
    model = make_model(config)
    logits, norm = first_step(model, ids)
    for other in (make_model(config, "sdpa"), make_model(wider).double()):
        with torch.no_grad():
            assert (other(input_ids=ids).logits - logits).abs().max() < 1e-4
        again = train(other, length)[0]
        assert (out["loss"] - again["loss"]).abs().max() < 1e-4
        errors.append(rounding(out, again))
    assert max(errors) < ROUNDING, (kind, k, errors)
    text, saved = saved_form(model, logits, ids)
    older = older_fields(json.loads(text), k)
    check_same(read_config(text), logits, norm, ids)
    check_same(read_config(json.dumps(older)), logits, norm, ids)
    names = [[n, list(p.shape)] for n, p in model.named_parameters()]
    print(kind, k, fields, length, [round(x, 4) for x in out["loss"].tolist()],
          f"norm {out['gradient_norm']:.4f}, rounding {max(errors):.1e}", flush=True)
    tensors = {f"{k}.{name}": t for name, t in out.items()}
    return tensors, {
        f"config.{k}": text,
        f"config_v4.{k}": json.dumps(older, indent=2, sort_keys=True) + "\n",
        f"names.{k}": json.dumps(names),
        f"saved.{k}": json.dumps(saved),
    }


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder, *kinds = sys.argv[1:]
    for kind in kinds or TYPES:
        tensors, metadata = {}, {}
        for k in range(CASES):
            tensors_of_case, texts = make_case(kind, k)
            tensors |= tensors_of_case
            metadata |= texts
        path = os.path.join(folder, kind + ".safetensors")
        write_safetensors(path, tensors, metadata)


if __name__ == "__main__":
    main()
