"""Jobs of several processes, for the programs of this folder."""

import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile

FLAT = ["gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2", "weight_stash", "two_bw"]
LOOPED = ["interleaved_1f1b", "breadth_first", "depth_first", "interleaved_zb", "hanayo"]
VEE = ["zb_v", "v_half", "v_min", "dualpipe_v"]
GATED = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 6,
         "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 256,
         "max_position_embeddings": 64}
CONFIGS = {
    "llama": GATED,
    "qwen3": GATED | {"head_dim": 8, "use_sliding_window": True, "sliding_window": 4,
                      "max_window_layers": 3, "tie_word_embeddings": True},
    "mixtral": GATED | {"num_local_experts": 3, "num_experts_per_tok": 2},
    "gpt2": {"n_embd": 16, "n_head": 2, "n_layer": 6, "n_positions": 64, "vocab_size": 256},
}


OPTIMIZERS = [["adamw"], ["adamw", "--eps", 1e-5, "--decay-of", "matrices"],
              ["sgd", "--momentum", 0.9], ["sgd", "--momentum", 0.8, "--nesterov"], ["lion"],
              ["adafactor"], ["muon"], ["muon", "--muon-except", "*head*", "--muon-scale", "original"]]
# Each is left out, or one of its alternatives is drawn.
COMMON = [
    [["--dtype", "bf16"], ["--dtype", "fp16"], ["--autocast", "bf16"], ["--autocast", "fp16"]],
    [["--dynamic-loss-scale"], ["--loss-scale", 128],
     ["--loss-scale", 1e6, "--dynamic-loss-scale"]],
    [["--clip", 0.5], ["--clip", 0.1, "--clip-norm-type", "inf"]],
    [["--recompute"]], [["--eval-every", 3]], [["--threads", 2]],
    [["--loss-mask", "mask"], ["--loss-mask", "mask", "--loss-weighting", "microbatches"]],
    [["--divide-gradients", "balanced"], ["--divide-gradients", "1,1"]],
    [["--accumulate-dtype", "same"]], [["--reduce-dtype", "same"]],
    [["--order", "ready_first"], ["--order", "any_ready"]],
    [["--overlap", "none"], ["--overlap", "reduce,pairs"]],
    [["--offload-activations"], ["--offload-activations", 0.5]],
    [["--offload-optimizer"]],
    [["--weight-split", "graph"], ["--weight-split", "layers"]],
    [["--split", "parameters"]],
    [["--decay", "cosine", "--warmup", 2], ["--decay", "wsd", "--cooldown", 3],
     ["--decay", "linear", "--min-lr", "10%"]],
    [["--parameters", "*weight:weight-decay=0"], ["--parameters", "*1.*:frozen"],
     ["--parameters", "*2.*:lr*0.5"]],
    [["--shard-whole", 1], ["--shard-whole", 99], ["--shard-multiple", 32]],
    [["--prefetch", 1], ["--prefetch", 5]],
]


class Hang(Exception):
    pass


def arguments(about, **more):
    """The common flags, and more numbers, by name with their defaults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--troupe", default="build/release/bin/troupe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keep", help="a folder for what failed", default="chaos")
    for name, value in more.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    return parser.parse_args()


def random_shape(choice):
    """Processes and flags of a job of two or three ranks; some are refused. A --model
    names a folder that `Folder` has."""
    schedule = choice(FLAT * 2 + LOOPED + VEE + ["dualpipe", "seq_1f1b"])
    ranks = 2 if schedule == "dualpipe" else choice([2, 2, 2, 3])
    doubled = schedule == "v_min" or schedule.startswith("dualpipe")
    copies = choice([1, 1, 2, 4])
    flags = ["--schedule", schedule, "--ranks", ranks,
             "--stages-per-rank", 2 if schedule in LOOPED + VEE else 1,
             "--microbatches", ranks * (2 if doubled else choice([1, 2])),
             "--data-parallel", copies]
    if schedule == "seq_1f1b":
        flags += ["--slices", 2]
    if schedule == "two_bw":
        flags += ["--breadth", ranks]
    if copies > 1:
        flags += choice([["--shard", "replicate"], ["--shard", "gradients"],
                         ["--shard", "all"]]
                        + ([["--shard", "hybrid", "--shard-group", 2]]
                           if copies == 4 else []))
    for alternatives in COMMON:
        if choice(range(6)) == 0:
            flags += choice(alternatives)
    if choice(range(3)) == 0:
        flags += ["--model", choice(list(CONFIGS)), "--from-scratch"]
        flags += choice([[], ["--lora-rank", 2], ["--lora-rank", 2, "--lora-dropout", 0.2],
                         ["--document-end", 32]])
    else:
        for extra in (["--model", "u_net"], ["--tie-embeddings"], ["--dropout", 0.3]):
            flags += choice([[]] * 4 + [extra])
        flags += ["--layers", 6, "--d-model", 16, "--heads", 2]
    flags += ["--optimizer"] + choice(OPTIMIZERS)
    return choice([1, 1, 2, ranks]), [str(each) for each in flags]


class Folder:
    """A temporary folder with a text and models, for one shape of a job."""

    def __init__(self, seed):
        self.path = tempfile.mkdtemp(prefix="troupe-chaos-")
        words = ["in the beginning ", "was the word ", "and the light shineth "]
        generator = random.Random(seed)
        with open(self.at("text"), "w") as text:
            text.write("".join(generator.choice(words) for _ in range(1500)))

        with open(self.at("mask"), "wb") as mask:  # of some rows all, of some none
            while mask.tell() < os.path.getsize(self.at("text")):
                mask.write(bytes([generator.randrange(2)]) * generator.choice([3, 5, 40]))
            mask.truncate(os.path.getsize(self.at("text")))
        for kind, config in CONFIGS.items():
            os.mkdir(self.at(kind))
            with open(self.at(os.path.join(kind, "config.json")), "w") as file:
                json.dump(config | {"model_type": kind}, file)

    inputs = {"mask", *CONFIGS}

    def at(self, name):
        return os.path.join(self.path, name)

    def content(self, name):
        with open(self.at(name), "rb") as file:
            return file.read()

    def clear(self, *names):
        for name in names:
            shutil.rmtree(self.at(name), ignore_errors=True)
            if os.path.exists(self.at(name)):
                os.remove(self.at(name))

    def keep(self, target):
        shutil.copytree(self.path, target, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.sock"))

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def start(self, troupe, processes, flags, environments=None):
        """The processes of `troupe train` with these flags. Process p writes to "outP"
        and gets environments[p] in addition."""
        started = []
        for p in range(processes):
            environment = dict(os.environ, RANK=str(p), WORLD_SIZE=str(processes),
                               LOCAL_WORLD_SIZE=str(processes))
            environment.update((environments or {}).get(p, {}))
            command = [troupe, "train", "--text", self.at("text"),
                       "--microbatch-size", "2",
                       *(self.at(each) if each in self.inputs else each for each in flags)]
            if processes > 1:
                command += ["--rendezvous", "unix:" + self.at("job")]
            with open(self.at(f"out{p}"), "wb") as output:
                started.append(subprocess.Popen(command, env=environment, stdout=output,
                                                stderr=subprocess.STDOUT))
        return started


def join(processes, seconds=120):
    """Their exit codes; kills them and raises Hang if they take longer than so."""
    try:
        return [each.wait(seconds) for each in processes]
    except subprocess.TimeoutExpired:
        for each in processes:
            each.kill()
        raise Hang
