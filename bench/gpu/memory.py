"""The peak of the GPU's memory beside PyTorch's, and what offloading activations costs.

The driver tells what a process has taken (nvidia-smi), for both sides alike; in a dry
run the peak of the process's own memory stands for it.
"""

import statistics
import subprocess
import threading

from runs import flags, peer, step_times, train


class Peak:
    """The most memory in use on the GPU, in MiB, while it lives; none without one."""

    def __init__(self, a):
        self.value = None
        self.over = threading.Event()
        self.watch = threading.Thread(target=self.sample, daemon=True)
        if a.on_gpu:
            self.watch.start()

    def sample(self):
        while not self.over.wait(0.05):
            said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used",
                                   "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True).stdout.split()
            if said:
                self.value = max(self.value or 0, int(said[0]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()


def troupe(a, *words):
    with Peak(a) as peak:
        steps = train(a, "--text", a.text, *flags(a.shape), "--device", a.device,
                      "--autocast", "bf16", "--steps", a.steps + a.warmup, "--endpoint",
                      "none", *words)
    return {"step_s": statistics.median(step_times(steps, a.warmup)),
            "peak_mib": peak.value or steps[-1]["peak_memory_bytes"] / 2**20}


def run(a, results):
    if a.has_torch:
        with Peak(a) as peak:
            theirs = peer("peer_cuda_loop.py", *flags(a.shape), "--text", a.text, "--device",
                          a.device, "--steps", a.steps, "--warmup", a.warmup)
        results.note("memory", eager={"step_s": theirs["step_s"],
                                      "peak_mib": peak.value or theirs["peak_mib"]})
    for name, words in {"1f1b P=1": ["--ranks", 1],
                        "gpipe P=1": ["--ranks", 1, "--schedule", "gpipe"],
                        "gpipe P=1, half offloaded": ["--ranks", 1, "--schedule", "gpipe",
                                                      "--offload-activations", 0.5]}.items():
        results.note("memory", **{name: troupe(a, *words)})
