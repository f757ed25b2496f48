"""A Llama of 1.1 B parameters with random weights, in rows of 2048 tokens.

transformers' own implementation in PyTorch's loop, eager and compiled, beside
`troupe train --model FOLDER --from-scratch`; both by autocast to bf16, with AdamW in
fp32. Runs alternate.
"""

import json
import os
import random
import statistics
import struct

from runs import flags, peer, step_times, train
from speed import measure, run_names

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

    def theirs(name):
        words = [] if name == "eager" else ["--compile",
                                            "default" if name == "compile" else name]
        return peer("peer_cuda_loop.py", *flags(sizes), "--model", folder, "--device", a.device,
                    "--steps", a.steps, "--warmup", a.warmup, *words)

    def ours(name):
        schedule, ranks, *graphs = name.split()
        steps = train(a, "--model", folder, "--from-scratch", "--text", tokens,
                      "--text-format", "nano_gpt", *flags(sizes), "--device", a.device,
                      "--autocast", "bf16", "--steps", a.steps + a.warmup, "--schedule",
                      schedule, "--ranks", ranks.removeprefix("P="), "--endpoint", "none",
                      *(["--cuda-graphs"] if graphs else []))
        return {"tokens_per_s": a.tokens / statistics.median(step_times(steps, a.warmup)),
                "losses": [step["losses"]["loss"] for step in steps[:20]]}

    results.note("llama", parameters=parameters(LARGE if a.on_gpu else TINY))
    measure(a, results, "llama", [name for name in run_names(a, OURS) if name != "max-autotune"],
            lambda name: ours(name) if " " in name else theirs(name))


def parameters(c):
    d, ff, kv = (c["hidden_size"], c["intermediate_size"],
                 c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"])
    block = 2 * d * d + 2 * d * kv + 3 * d * ff + 2 * d
    return c["num_hidden_layers"] * block + 2 * c["vocab_size"] * d + d
