"""The troupe program beside Hugging Face's transformers and PEFT.

    python compare_program.py PROGRAM [--seed N] [TYPE...]

makes small random models of every type by the package, as make_models.py does, runs
the program on their folders and compares:

- `round trip`: what --save-model writes without training has the same bytes of every
  tensor and file, and AutoModelForCausalLM gives the same logits for it;
- `fresh`: parameters of --from-scratch have the deviations of the package's, and the
  same constants (biases, norms, the row of the padding token);
- `losses` of single rows, and `training`: of the steps before, between and behind 3
  updates by AdamW, within 1e-5;
- `generate`: the greedy continuations, also where they meet an end-of-text id of
  generation_config.json or config.json;
- `adapter`: PEFT loads it, and merged by PEFT its logits are those of the model that
  the program merged, within 1e-5 of the largest;
- `bf16`: rows' losses of the model in bf16. Against those of its weights in fp32, the
  program may be off by at most 1.5 times as much as the package in bf16, in the median
  of all rows of a type (in some, rounding chooses another expert). A type passes if its
  ratio is below that with a confidence of 99.5 %, by resampling its rows (bootstrap).

Prints a line for each case, and ends with 1 if anything differs. Another --seed draws
other models.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from make_models import fnv1a, make_model, mixed
from model_configs import CASES, TYPES, random_config
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

ROWS, BF16_ROWS, STEPS, PROMPT, MOST_TOKENS = 8, 48, 3, 2, 12
TOLERANCE, BF16_RATIO = 1e-5, 1.5
ADAPTED = ["*", "", "*.0.*"]  # in turn; "": those of the type
ADAPTED_BY_TYPE = {"gpt2": "c_*", "gpt_neox": "query_key_value"}
# transformers 5 has all experts of a layer in one module, and PEFT does not find its
# way to some of them.
WITH_EXPERTS = ["*_attn.*", "q_proj,gate", "*.0.self_attn.*"]


class Difference(Exception):
    pass


def require(holds, what):
    if not holds:
        raise Difference(what)


def near(actual, expected, what):
    actual, expected = np.asarray(actual), np.asarray(expected)
    require(actual.shape == expected.shape, f"{what}: {actual.shape}, not {expected.shape}")
    most = np.abs(actual - expected).max() / max(1, np.abs(expected).max())
    require(most < TOLERANCE, f"{what} differ by {most:.1e}")


def read_json(path):
    with open(path) as f:
        return json.load(f)


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f)


def load(folder, dtype="float32"):
    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", experts_implementation="eager", dtype=dtype
    )
    return model.eval()


class Case:
    def __init__(self, program, kind, k, seed, folder):
        self.program, self.number, self.folder = program, k, folder
        fields, self.length = random_config(random.Random(f"{kind}.{k}{seed}"), kind, k)
        vocabulary = fields["vocab_size"]
        z = mixed(fnv1a(f"rows {k}{seed}"), BF16_ROWS * (self.length + 1)) >> np.uint64(33)
        rows = (z % np.uint64(vocabulary)).astype(np.int64).reshape(BF16_ROWS, -1)
        if fields.get("pad_token_id") == "used":
            fields["pad_token_id"] = int(rows[0, 1])
        if "output_router_logits" in fields:  # an average of all rows
            fields["output_router_logits"] = False
        self.all_rows = torch.from_numpy(rows)
        self.rows = self.all_rows[:ROWS]
        # Files of a row each, which --mix takes in turn.
        self.texts = [self.path(f"{i}.npy") for i in range(BF16_ROWS)]
        for path, row in zip(self.texts, rows):
            np.save(path, row.astype(np.uint16))
        config = AutoConfig.for_model(kind, **fields)
        self.model = make_model(config).eval()
        self.base = self.path("base")
        shard = ["5GB", "20KB"][k % 2]
        self.model.save_pretrained(self.base, max_shard_size=shard)
        write_json(os.path.join(self.base, "tokenizer.json"), {"kept": k})

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *flags):
        done = subprocess.run([self.program, *flags], capture_output=True, text=True)
        require(done.returncode == 0, done.stderr.strip().replace("\n", "; "))
        return done.stdout

    def train(self, model, *flags, rows=ROWS):
        """The losses of the steps, on the first rows in turn."""
        log = self.path("log.json")
        if os.path.exists(log):
            os.remove(log)
        self.run(
            *("train", "--model", model, "--text", *self.texts[:rows]),
            *("--mix", ",".join("1" * rows)),
            *("--seq", str(self.length), "--microbatch-size", "1"),
            *("--ranks", str(min(2, self.model.config.num_hidden_layers))),
            *("--validation-fraction", "0", "--log-level", "error"),
            *("--endpoint", "none", "--log-json", log, *flags),
        )
        with open(log) as f:
            return [json.loads(line)["loss"] for line in f]

    def logits(self, model, rows=ROWS):
        with torch.no_grad():
            return model(input_ids=self.all_rows[:rows, :-1]).logits.float()

    def row_losses(self, model, rows=ROWS):
        logits = self.logits(model, rows).transpose(1, 2)
        losses = torch.nn.functional.cross_entropy(
            logits, self.all_rows[:rows, 1:], reduction="none"
        )
        return losses.mean(1).tolist()

    def round_trip(self):
        out = self.path("out")
        self.train(
            self.base, "--steps", "0", "--save-model", out, "--max-shard-size", "30KB"
        )
        require(tensors_of(out) == tensors_of(self.base), "tensors differ")
        for name in ("config.json", "generation_config.json", "tokenizer.json"):
            with open(os.path.join(self.base, name), "rb") as a:
                with open(os.path.join(out, name), "rb") as b:
                    require(a.read() == b.read(), f"{name} differs")
        same = torch.equal(self.logits(load(out)), self.logits(self.model))
        require(same, "logits differ")

    def fresh(self):
        config, theirs = self.path("config"), self.path("theirs")
        os.mkdir(config)
        shutil.copy(os.path.join(self.base, "config.json"), config)
        torch.manual_seed(self.number)
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config))
        model.save_pretrained(theirs)
        out = self.path("fresh")
        self.train(config, "--from-scratch", "--steps", "0", "--save-model", out)
        actual, expected = (load_tensors(folder) for folder in (out, theirs))
        require(actual.keys() == expected.keys(), "names of fresh tensors differ")
        for name, value in expected.items():
            a, b = statistics(actual[name]), statistics(value)
            spread = 6 / math.sqrt(value.numel())  # six deviations of the difference
            near(a[0], b[0], f"shares of zeros and ones in fresh {name}")
            require(abs(a[1] - b[1]) <= spread * b[1], f"{name} deviates by {a}, {b}")

    def losses(self):
        near(self.single_rows(self.base), self.row_losses(self.model), "losses")

    def single_rows(self, folder, *flags, rows=ROWS):
        return self.train(
            *(folder, "--steps", str(rows), "--microbatches", "1", "--lr", "0"),
            *flags, rows=rows,
        )

    def training(self):
        actual = self.train(
            *(self.base, "--steps", str(STEPS + 1), "--microbatches", str(ROWS)),
            *("--lr", "1e-3", "--weight-decay", "0.01"),
        )
        model, expected = load(self.base).train(), []
        update = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
        for _ in range(STEPS + 1):
            update.zero_grad()
            logits = model(input_ids=self.rows[:, :-1]).logits.transpose(1, 2)
            loss = torch.nn.functional.cross_entropy(logits, self.rows[:, 1:])
            loss.backward()
            update.step()
            expected.append(loss.item())
        near(actual, expected, "losses of training")

    def generate(self):
        prompt = self.rows[0, :PROMPT].tolist()
        config = self.model.config
        last = config.max_position_embeddings
        rope = getattr(config, "rope_parameters", None) or {}
        if rope.get("rope_type") == "longrope":  # others depend on the length
            last = rope["original_max_position_embeddings"]
        count = min(MOST_TOKENS, last - PROMPT)
        plain = self.both_continue(prompt, count, None)
        middle = plain[len(plain) // 2]
        for name in ("generation_config.json", "config.json"):
            for end in (middle, [10**6, middle], None):
                self.both_continue(prompt, count, end, name)

    def both_continue(self, prompt, count, end, name="generation_config.json"):
        """The continuation, with the end of text in that file alone."""
        settings = os.path.join(self.base, "generation_config.json")
        if os.path.exists(settings):
            os.remove(settings)
        config = read_json(os.path.join(self.base, "config.json"))
        write_json(os.path.join(self.base, "config.json"), config | {"eos_token_id": 1})
        if name != "config.json":
            write_json(settings, {})
        path = os.path.join(self.base, name)
        write_json(path, read_json(path) | {"eos_token_id": end})
        output = json.loads(
            self.run(
                *("generate", "--checkpoint", self.base, "--temperature", "0"),
                *("--max-tokens", str(count), "--ids", "--json"),
                *("--prompt", " ".join(map(str, prompt))),
            )
        )
        with torch.no_grad():
            ids = torch.tensor([prompt])
            ids = load(self.base).generate(
                ids,
                attention_mask=torch.ones_like(ids),  # padding is a token like others
                do_sample=False,
                max_new_tokens=count,
            )
        expected = ids[0, len(prompt) :].tolist()
        ends = end if isinstance(end, list) else [end]
        if expected[-1] in ends:
            expected.pop()
        require(output["ids"] == expected, f"{end} in {name}: {output['ids']}, not {expected}")
        return expected

    def adapter(self):
        merged, adapter = self.path("merged"), self.path("adapter")
        has_experts = hasattr(self.model.config, "num_experts_per_tok")
        globs = WITH_EXPERTS if has_experts else ADAPTED
        own = ADAPTED_BY_TYPE.get(self.model.config.model_type, "*_proj")
        self.train(
            *(self.base, "--steps", "3", "--microbatches", "2", "--lr", "0.05"),
            *("--lora-rank", "2", "--save-model", merged, "--save-adapter", adapter),
            *("--lora-modules", globs[self.number % len(globs)] or own),
        )
        expected = self.logits(load(merged))
        near(
            self.logits(
                PeftModel.from_pretrained(load(self.base), adapter).merge_and_unload()
            ),
            expected,
            "logits with the adapter",
        )
        moved = (expected - self.logits(self.model)).abs().max()
        require(moved > 1e-2, "the adapter changes nothing")

    def bf16(self):
        """The errors of the program and of transformers."""
        half = self.path("half")
        load(self.base, "bfloat16").save_pretrained(half)
        exact = np.array(self.row_losses(load(half), BF16_ROWS))
        near(self.single_rows(half), exact[:ROWS], "losses of bf16 weights in fp32")
        ours = self.single_rows(half, "--dtype", "bf16", rows=BF16_ROWS)
        theirs = self.row_losses(load(half, "bfloat16"), BF16_ROWS)
        return np.abs([ours - exact, theirs - exact])


def tensors_of(folder):
    """Dtype, shape and bytes of each, by name."""
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), "pt") as f:
                for key in f.keys():
                    t = f.get_tensor(key)
                    raw = t.flatten().view(torch.uint8).numpy().tobytes()
                    require(key not in tensors, f"{key} is there twice")
                    tensors[key] = (t.dtype, t.shape, raw)
    return tensors


def load_tensors(folder):
    return load_file(os.path.join(folder, "model.safetensors"))


def statistics(tensor):
    """The shares of zeros and ones, and the deviation of all others from zero."""
    constants = [(tensor == value).double().mean().item() for value in (0, 1)]
    others = tensor[(tensor != 0) & (tensor != 1)].double()
    return constants, others.square().mean().sqrt().item() if len(others) else 0.0


def ratio_interval(errors):
    """The program's median error over the package's, and its interval of 99 %."""
    drawn = np.random.default_rng(0).integers(errors.shape[1], size=(2000, errors.shape[1]))
    ours, theirs = np.median(errors[:, drawn], 2)
    return np.quantile(ours / theirs, [0.005, 0.995])


def compare(program, kind, k, seed):
    """Whether a case passes, and its errors in bf16."""
    problems, errors = [], None
    with tempfile.TemporaryDirectory() as folder:
        case = Case(program, kind, k, seed, folder)
        checks = ["round_trip", "fresh", "losses", "training", "generate", "adapter"]
        checks.append("bf16")
        if getattr(case.model.config, "num_experts_per_tok", 0) == 1:
            checks.remove("training")  # a router's gradients are rounding errors
        for check in checks:
            try:
                result = getattr(case, check)()
                errors = result if check == "bf16" else errors
            except Exception as problem:  # the packages', too
                problems.append(f"{check}: {type(problem).__name__} {problem}"[:400])
    print(kind, k, "; ".join(problems) or "same: " + ", ".join(checks), flush=True)
    return not problems, errors


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    flags = argparse.ArgumentParser(description="The program beside transformers")
    flags.add_argument("program", type=os.path.abspath)
    flags.add_argument("types", nargs="*", help="model types; none: all of them")
    flags.add_argument("--seed", default="", help="draws other configurations")
    options = flags.parse_intermixed_args()
    failed, cases = 0, 0
    for kind in options.types or TYPES:
        results = [compare(options.program, kind, k, options.seed) for k in range(CASES)]
        errors = [each for _, each in results if each is not None]
        errors = np.hstack(errors or [[[0], [1]]])
        ours, theirs = np.median(errors, 1)
        least, most = ratio_interval(errors)
        close = most <= BF16_RATIO
        failed += sum(not passed for passed, _ in results) + (not close)
        cases += len(results)
        verdict = "" if close else ", which is too much"
        print(f"{kind} bf16: losses off by {ours:.1e}, transformers' by {theirs:.1e}: "
              f"{least:.2f} to {most:.2f} of it" + verdict, flush=True)
    print(f"{cases} cases, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
