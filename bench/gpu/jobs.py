"""Jobs of several processes on one GPU, over NCCL: bits, and a process that is lost.

NCCL 2.30 or later lets processes share a GPU, which troupe enables. Each job
has to train the parameters that --plain trains, byte for byte (--deterministic). In a
dry run the same jobs run on the CPU, over sockets.
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time

MODEL = ("--d-model 64 --layers 8 --heads 4 --seq 32 --microbatch-size 2 --microbatches 8 "
         "--steps 3 --validation-fraction 0 --endpoint none --log-level warn").split()
# name: processes, flags of both, flags of the job alone
JOBS = {
    "gpipe": (2, "", "--ranks 2 --schedule gpipe"),
    "1f1b": (2, "", "--ranks 2 --schedule 1f1b"),
    "interleaved_1f1b": (2, "", "--ranks 2 --schedule interleaved_1f1b --stages-per-rank 2"),
    "zb_v": (2, "", "--ranks 2 --schedule zb_v"),
    "dualpipe_v": (2, "", "--ranks 2 --schedule dualpipe_v"),
    "zb_h1, ties": (2, "--tie-embeddings", "--ranks 2 --schedule zb_h1"),
    "bf16": (2, "--autocast bf16", "--ranks 2 --schedule 1f1b"),
    "dropout and clip": (2, "--dropout 0.1 --clip 0.5", "--ranks 2 --schedule 1f1b"),
    "two replicas": (2, "--data-parallel 2", ""),
    "shards": (2, "--data-parallel 2", "--shard all"),
    "offloaded activations": (2, "", "--ranks 2 --schedule gpipe --offload-activations all"),
    "1f1b of four": (4, "", "--ranks 4 --schedule 1f1b"),
    "zb_v of four, clip": (4, "--clip 0.5", "--ranks 4 --schedule zb_v"),
    "two by two, shards, clip": (4, "--data-parallel 2 --clip 0.5",
                                 "--ranks 2 --schedule 1f1b --shard all"),
}
LIMIT = 60  # seconds of a job


def environment(a):
    found = dict(os.environ, OMP_NUM_THREADS="1")
    if a.nccl and a.on_gpu:
        found["LD_PRELOAD"] = os.path.abspath(a.nccl)
    return found


def train(a, words, path, processes=1):
    launch = ["launch", "--processes", str(processes), "--"] if processes > 1 else []
    command = [a.troupe, *launch, "train", "--text", a.text, *MODEL, "--device", a.device,
               *(["--deterministic"] if a.on_gpu else []), *words, "--save-parameters", path]
    return subprocess.Popen(command, env=environment(a), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def output_of(process):
    try:
        return process.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        process.kill()  # a launcher's processes end with it
        return process.communicate()[0] + f"\nkilled after {LIMIT} s"


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def outcome(a, name, plain):
    processes, common, own = JOBS[name]
    path = os.path.join(a.folder, "job")
    if common not in plain:
        process = train(a, [*common.split(), "--plain"], path)
        output = output_of(process)
        if process.returncode != 0:
            return {"verdict": "--plain failed", "output": output[-500:]}
        plain[common] = digest(path)
    begin = time.monotonic()
    process = train(a, [*common.split(), *own.split()], path, processes)
    output = output_of(process)
    took = round(time.monotonic() - begin, 2)
    if process.returncode != 0:
        return {"verdict": "failed", "seconds": took, "output": output[-500:]}
    same = digest(path) == plain[common]
    return {"verdict": "equal bytes" if same else "OTHER BYTES", "seconds": took}


def lost_process(a, which):
    """Seconds from the signal to the first message that names the process."""
    process = train(a, ["--ranks", "2", "--schedule", "1f1b", "--steps", "100000",
                        "--log-level", "info"],
                    os.path.join(a.folder, "lost"), 2)
    lines, victim, sent = [], None, 0.0
    outcome = {"verdict": "not named"}
    for line in process.stdout:
        lines.append(line)
        if victim is None and re.search(r"step 20/", line):
            children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True,
                                      text=True).stdout.split()
            victim, sent = int(children[-1]), time.monotonic()
            os.kill(victim, which)
        elif victim is not None and re.search(r"process 1|killed by signal|is stopped", line):
            outcome = {"named_after_s": round(time.monotonic() - sent, 2),
                       "by": line.strip()[:200]}
            break
    process.kill()
    if victim is not None and which == signal.SIGSTOP:
        os.kill(victim, signal.SIGKILL)
    process.wait()
    return outcome if "by" in outcome else outcome | {"output": "".join(lines)[-500:]}


def run(a, results):
    plain, outcomes = {}, {}
    for name in JOBS:
        outcomes[name] = outcome(a, name, plain)
        results.note("nccl", jobs=outcomes)
    results.note("nccl", killed=lost_process(a, signal.SIGKILL))
    results.note("nccl", stopped=lost_process(a, signal.SIGSTOP))
    wrong = [name for name, what in outcomes.items() if what["verdict"] != "equal bytes"]
    if wrong:
        sys.exit("nccl: " + ", ".join(wrong))
