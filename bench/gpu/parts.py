"""The parts of gpu_check: each notes its figures as it has them."""

import dataclasses
import glob
import importlib.util
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

import jobs
import kernels
import llama
import memory
import speed
from runs import HERE as BENCH
from runs import report

TINY = dict(d_model=64, layers=4, heads=4, seq=32, microbatch_size=2, microbatches=4)
LARGE = dict(d_model=1024, layers=28, heads=16, seq=1024, microbatch_size=8, microbatches=8)
PROGRAMS = ("troupe", "troupe-runtime", "tests/gpu", "tests/gpu_training", "bench/fused",
            "bench/monitors", "bench/overhead")


@dataclasses.dataclass
class Part:
    run: object  # of the arguments and the results
    limit: int   # seconds


def complete(a):
    """Adds to the arguments what follows from them."""
    a.on_gpu = not a.dry_run
    a.device = "cpu" if a.dry_run else "cuda:0"
    a.troupe = os.path.join(a.build, "bin/troupe")
    a.shape = TINY if a.dry_run else LARGE
    a.tokens = a.shape["microbatches"] * a.shape["microbatch_size"] * a.shape["seq"]
    a.steps, a.warmup = (2, 1) if a.dry_run else (10, 4)
    if a.dry_run:
        a.rounds = 1
    a.has_torch = importlib.util.find_spec("torch") is not None
    find_libraries(a)
    find_nccl(a)
    if a.text:
        a.text = os.path.abspath(a.text)
    else:
        a.text = os.path.join(a.out, "text")
        write_text(a.text)


def find_libraries(a):
    """Programs of a bundle find LibTorch where Python has it."""
    said = subprocess.run(["ldd", a.troupe + "-runtime"], capture_output=True, text=True).stdout
    if "not found" in said and a.has_torch:
        torch = importlib.util.find_spec("torch").submodule_search_locations[0]
        own = os.environ.get("LD_LIBRARY_PATH", "")
        os.environ["LD_LIBRARY_PATH"] = ":".join(
            [os.path.join(torch, "lib"), os.path.join(a.build, "lib"), *([own] if own else [])])


def find_nccl(a):
    """The NCCL of a bundle is packed; unpacked it is too large to be brought back."""
    packed = os.path.join(a.build, "lib/libnccl.so.2.xz")
    if a.nccl or not a.on_gpu or not os.path.exists(packed):
        return
    a.nccl = os.path.join(tempfile.gettempdir(), "gpu_check_libnccl.so.2")
    if not os.path.exists(a.nccl):
        with lzma.open(packed) as source, open(a.nccl + ".part", "wb") as target:
            shutil.copyfileobj(source, target)
        os.replace(a.nccl + ".part", a.nccl)


def write_text(path):
    """The documentation, which is in every tree, as often as it needs."""
    pages = sorted(glob.glob(os.path.join(BENCH, "../docs/**/*.md"), recursive=True))
    text = b"".join(open(page, "rb").read() for page in pages)
    with open(path, "wb") as file:
        while file.tell() < 4_000_000:
            file.write(text)


def missing(a):
    """Why nothing can be run here; empty: it can."""
    for name in PROGRAMS:
        if not os.path.exists(os.path.join(a.build, "bin", name)):
            return f"{name} is not in {a.build}/bin: run scripts/build release, or give --build"
    tried = subprocess.run(
        [a.troupe, "train", "--text", a.text, "--device", a.device, "--dry-run"],
        capture_output=True, text=True)
    if tried.returncode != 0:
        return (tried.stderr.strip().splitlines() or ["troupe says nothing"])[-1]
    return ""


def machine(a):
    environment = subprocess.run([a.troupe, "env"], capture_output=True, text=True).stdout
    return {"dry_run": a.dry_run, "env": environment, "cores": os.cpu_count(),
            "python_torch": a.has_torch}


def test_gpu(a, results):
    """Runs each program's test cases; a GPU that is missing skips them."""
    for name in ("gpu", "gpu_training"):
        done = subprocess.run([os.path.join(a.build, "bin/tests", name), "--reporter", "compact"],
                              capture_output=True, text=True)
        lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
        problems = [line for line in lines if re.search(r": failed: |: skipped: ", line)]
        results.note("tests", **{name: {"exit_code": done.returncode, "summary": lines[-1],
                                        "problems": problems[:20]}})
        if done.returncode not in (0, 4):  # 4: all were skipped
            sys.exit(f"tests/{name}: {lines[-1]}")


def kernel_times(a, results):
    out = report([os.path.join(a.build, "bin/bench/fused"), "--json", "--rounds",
                  20 if a.on_gpu else 1, "--cuda" if a.on_gpu else "--dry-run"])
    results.note("kernels", **out)


def monitor_costs(a, results):
    shape = [w for k, v in a.shape.items() for w in ("--" + k.replace("_", "-"), v)]
    out = report([os.path.join(a.build, "bin/bench/monitors"), *shape, "--bf16",
                  "--rounds", a.rounds, *(["--cuda"] if a.on_gpu else [])])
    results.note("monitors", modes=out["modes"])


def op_overhead(a, results):
    out = report([os.path.join(a.build, "bin/bench/overhead"),
                  *(["--cuda"] if a.on_gpu else [])])
    results.note("overhead", **{key: out[key] for key in
                                ("within_rank_us", "across_ranks_us", "device_us")})


ALL = {
    "tests": Part(test_gpu, 120),
    "kernels": Part(kernel_times, 40),
    "nccl": Part(jobs.run, 150),
    "speed": Part(speed.run_part, 170),
    "monitors": Part(monitor_costs, 60),
    "overhead": Part(op_overhead, 30),
    "llama": Part(llama.run, 150),
    "memory": Part(memory.run, 60),
    "profile": Part(kernels.run, 40),
}
