"""A small Llama of transformers: troupe beside torch.distributed.pipelining.

    python bench/versus_transformers.py [--pairs 3]

Needs PyTorch and transformers in Python (pip install torch==2.11.0 numpy transformers),
and a release build. Both train the same folder on two ranks by 1f1b, one thread a rank,
on random tokens; troupe in one process. They alternate, and ratios are those of the
medians. Prints a Markdown table.
"""

import os
import statistics
import tempfile

from runs import (WARMUP, alternated, compared, flags, heading, parser, peer_step, row,
                  step_times, train)

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


def of_peer(folder, vocabulary):
    return peer_step("peer_transformers.py", "--model", folder, "--vocabulary", vocabulary,
                     *flags(SHAPE), "--steps", STEPS, "--warmup", WARMUP)


def of_troupe(a, folder, tokens):
    steps = train(a, "--model", folder, "--text", tokens, "--ranks", 2, "--schedule", "1f1b",
                  *flags(SHAPE), "--steps", STEPS + WARMUP)
    return {"step": statistics.median(step_times(steps)),
            "memory": steps[-1]["peak_memory_bytes"] / 2**20}


def main():
    a = parser(__doc__, text=False, pairs=3).parse_args()
    heading("case", "PyTorch ms", "troupe ms", "tokens/s", "PyTorch MiB", "troupe MiB", "memory")
    for name, fields in CASES.items():
        with tempfile.TemporaryDirectory() as place:
            folder, tokens = os.path.join(place, "model"), os.path.join(place, "tokens.npy")
            make_model(folder, fields)
            make_tokens(tokens, fields["vocab_size"])
            theirs, own = alternated(a.pairs, lambda: of_peer(folder, fields["vocab_size"]),
                                     lambda: of_troupe(a, folder, tokens))
        row(name, *compared(theirs, own), f"{own['memory'] / theirs['memory']:.0%}")


if __name__ == "__main__":
    main()
