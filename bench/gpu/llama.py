"""A Llama of 1.1 B parameters with random weights, in rows of 2048 tokens.

transformers' own implementation in PyTorch's loop, eager and compiled, beside
`troupe train --model FOLDER --from-scratch`; both by autocast to bf16, with AdamW in
fp32. Runs alternate.
"""

import json
import os
import random
import struct

from runs import flags
from speed import THEIRS, measure, pipeline, pytorch, run_names

LARGE = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
             num_attention_heads=32, num_key_value_heads=4, vocab_size=32000)
TINY = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, vocab_size=512)
OURS = ["1f1b P=1", "1f1b P=2"]


def shape(a):
    return (dict(seq=2048, microbatch_size=4, microbatches=4) if a.on_gpu
            else dict(seq=32, microbatch_size=2, microbatches=4))


def make_folder(a):
    """The configuration alone: both sides draw their own weights."""
    config = dict(LARGE if a.on_gpu else TINY, model_type="llama", hidden_act="silu",
                  architectures=["LlamaForCausalLM"], max_position_embeddings=2048,
                  rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False,
                  tie_word_embeddings=False, torch_dtype="float32")
    folder = os.path.join(a.folder, "model")
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    return folder, config["vocab_size"]


def make_tokens(a, vocabulary):
    path = os.path.join(a.folder, "tokens.bin")
    draw = random.Random(1)
    count = 400_000 if a.on_gpu else 20_000
    with open(path, "wb") as file:  # ids of two bytes, as of nanoGPT
        file.write(struct.pack(f"<{count}H", *(draw.randrange(vocabulary)
                                               for _ in range(count))))
    return path


def run(a, results):
    folder, vocabulary = make_folder(a)
    tokens = make_tokens(a, vocabulary)
    sizes = shape(a)
    a.tokens = sizes["seq"] * sizes["microbatch_size"] * sizes["microbatches"]

    own_words = ["--model", folder, "--from-scratch", "--text", tokens, "--text-format",
                 "nano_gpt", *flags(sizes)]
    peer_words = ["--model", folder, *flags(sizes)]

    def figures_of(name):
        if name in THEIRS:
            return pytorch(a, name, peer_words)
        return pipeline(a, name, own_words)

    results.note("llama", parameters=parameters(LARGE if a.on_gpu else TINY))
    names = [name for name in run_names(a, OURS) if name != "max-autotune"]
    measure(a, results, "llama", names, figures_of)


def parameters(c):
    d, ff, kv = (c["hidden_size"], c["intermediate_size"],
                 c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"])
    block = 2 * d * d + 2 * d * kv + 3 * d * ff + 2 * d
    return c["num_hidden_layers"] * block + 2 * c["vocab_size"] * d + d
