"""A small Llama of transformers: troupe beside torch.distributed.pipelining.

    python bench/versus_transformers.py [--pairs 3]

Needs PyTorch and transformers in Python (pip install torch==2.11.0 numpy transformers),
and a release build. Both train the same folder on two ranks by 1f1b, one thread a rank,
on random tokens; troupe in one process. They alternate, and ratios are those of the
medians. Prints a Markdown table.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

import versus_torch
from versus_torch import HERE, WARMUP, run

SHAPE = dict(microbatches=8, microbatch_size=4, seq=128)
STEPS = 4
# name: fields of the configuration
CASES = {
    "vocabulary of 2,048": dict(vocab_size=2048),
    "vocabulary of 32,768": dict(vocab_size=32768),
}
COMMON = dict(hidden_size=256, intermediate_size=704, num_hidden_layers=8,
              num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256)


def make_model(folder, fields):
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(LlamaConfig(**COMMON, **fields)).save_pretrained(folder)


def make_tokens(path, vocabulary):
    import numpy

    numpy.save(path, numpy.random.default_rng(1).integers(
        0, vocabulary, 100_000).astype("<u2"))


def peer(folder, vocabulary):
    command = [sys.executable, "peer_transformers.py", "--model", folder,
               "--vocabulary", str(vocabulary), *versus_torch.flags(SHAPE),
               "--steps", str(STEPS), "--warmup", str(WARMUP)]
    out = json.loads(run(command, os.path.join(HERE, "peers")).splitlines()[-1])
    return {"step": out["step_s"], "memory": sum(out["rss_peak_mib"])}


def troupe(a, folder, tokens):
    with tempfile.TemporaryDirectory() as place:
        log = os.path.join(place, "log")
        run([a.troupe, "train", "--model", folder, "--text", tokens, "--ranks", "2",
             "--schedule", "1f1b", *versus_torch.flags(SHAPE), "--validation-fraction", "0",
             "--steps", str(STEPS + WARMUP), "--log-json", log])
        with open(log) as f:
            lines = [json.loads(line) for line in f]
    ends = [line["ended_at"] for line in lines]
    steps = [b - a for a, b in zip(ends, ends[1:])][WARMUP - 1 :]
    return {"step": statistics.median(steps),
            "memory": lines[-1]["peak_memory_bytes"] / 2**20}


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--troupe", default=os.path.join(HERE, "../build/release/bin/troupe"))
    ap.add_argument("--pairs", type=int, default=3)
    a = ap.parse_args()
    a.troupe = os.path.abspath(a.troupe)
    print("| case | PyTorch ms | troupe ms | tokens/s | PyTorch MiB | troupe MiB | memory |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, fields in CASES.items():
        with tempfile.TemporaryDirectory() as place:
            folder, tokens = os.path.join(place, "model"), os.path.join(place, "tokens.npy")
            make_model(folder, fields)
            make_tokens(tokens, fields["vocab_size"])
            theirs, own = [], []
            for _ in range(a.pairs):
                theirs.append(peer(folder, fields["vocab_size"]))
                own.append(troupe(a, folder, tokens))

        def middle(rows, key):
            return statistics.median(r[key] for r in rows)

        print(f"| {name} | {middle(theirs, 'step') * 1e3:.1f}"
              f" | {middle(own, 'step') * 1e3:.1f}"
              f" | {middle(theirs, 'step') / middle(own, 'step'):.2f} x"
              f" | {middle(theirs, 'memory'):.0f} | {middle(own, 'memory'):.0f}"
              f" | {middle(own, 'memory') / middle(theirs, 'memory') * 100:.0f} % |",
              flush=True)


if __name__ == "__main__":
    main()
