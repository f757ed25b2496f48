"""Tests of what gpu_check computes: tables of a GPU's trace, partial results, a bundle."""

import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench")
sys.path[:0] = [os.path.join(BENCH, "gpu"), BENCH]

import bundle  # noqa: E402
import kernels  # noqa: E402
import tables  # noqa: E402


def span(category, name, ts, dur, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "tid": 1,
            "args": args}


class Kernels(unittest.TestCase):
    def test_a_kernel_belongs_to_the_op_that_launched_it(self):
        """It runs later, during another op of the host."""
        times = kernels.table_of([
            span("user_annotation", "ProfilerStep#3", 0, 100),
            span("user_annotation", "0F0", 0, 10), span("user_annotation", "0B0", 10, 10),
            span("cuda_runtime", "cudaLaunchKernel", 5, 1, correlation=1),
            span("cuda_runtime", "cudaLaunchKernel", 15, 1, correlation=2),
            span("cuda_runtime", "cudaLaunchKernel", 50, 1, correlation=3),
            span("kernel", "void gemm<float>(float*)", 12, 30, correlation=1),
            span("kernel", "void gemm<float>(float*)", 42, 7, correlation=2),
            span("gpu_memcpy", "Memcpy DtoH", 60, 2, correlation=3)])
        self.assertEqual(times, {("forward", "gemm<float>"): 30,
                                 ("backward", "gemm<float>"): 7,
                                 ("between ops", "Memcpy DtoH"): 2})

    def test_an_operator_counts_without_those_within_it(self):
        times = kernels.table_of([
            span("user_annotation", "1UPDATE", 0, 100),
            span("cpu_op", "aten::linear", 10, 20), span("cpu_op", "aten::addmm", 12, 15),
            span("cpu_op", "aten::add", 40, 5)])
        self.assertEqual(times, {("update", "aten::linear"): 5, ("update", "aten::addmm"): 15,
                                 ("update", "aten::add"): 5})


class Tables(unittest.TestCase):
    def test_what_was_cut_off_is_shown_as_far_as_it_came(self):
        text = tables.of({
            "machine": {}, "tests": {"status": "failed", "gpu": {"summary": "2 failed"}},
            "nccl": {"status": "running", "jobs": {"1f1b": {"verdict": "equal bytes"}}},
            "speed": {"status": "cut off after 9 s", "tokens": 100,
                      "tokens_per_s": {"eager": [50.0, 50.0], "1f1b P=1": [100.0], "plain": []}},
            "monitors": {"status": "not begun: the time was over"}})
        for part in ("2 failed", "| 1f1b | equal bytes | - |", "cut off after 9 s",
                     "| 1f1b P=1 | 100 | 1000.0 | 2.000 |", "not begun: the time was over"):
            self.assertIn(part, text)


class Bundle(unittest.TestCase):
    def test_libraries_of_torch_cuda_and_the_system_are_left_out(self):
        for name in ("libtorch_cpu.so", "libc10.so", "libcublasLt.so.13", "libnvJitLink.so.13",
                     "libnccl.so.2", "libc.so.6", "libstdc++.so.6", "libutil.so.1"):
            self.assertTrue(bundle.THEIRS.match(name), name)
        for name in ("libcrypto.so.3", "libfmt.so.9", "libcaf_core.so", "libtcmalloc_minimal.so.4"):
            self.assertFalse(bundle.THEIRS.match(name), name)

    def test_code_for_other_gpus_is_zeroed(self):
        def entry(kind, architecture, payload):
            head = struct.pack("<HHIQ", kind, 0, 32, len(payload)).ljust(28, b"\1")
            return head + struct.pack("<I", architecture) + payload

        entries = entry(2, 80, b"8" * 16) + entry(2, 90, b"9" * 16) + entry(1, 90, b"p" * 16)
        data = bytearray(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries)
        bundle.zero_other_code(data, 0, len(data), 90)
        self.assertEqual([data.count(byte) for byte in b"89p"], [0, 16, 0])


def said(*words):
    """What gpu_check says of arguments that it refuses."""
    done = subprocess.run([sys.executable, os.path.join(BENCH, "gpu/check.py"), *words],
                          capture_output=True, text=True)
    return done.stderr if done.returncode else "no error"


class Arguments(unittest.TestCase):
    def test_wrong_ones_are_refused(self):
        with tempfile.NamedTemporaryFile() as file:
            for words, why in ((["--minutes", "nan"], "a number above 0"),
                               (["--minutes", "-1"], "a number above 0"),
                               (["--rounds", "0"], "at least 1"),
                               (["--only", "speeed"], "there are tests, kernels"),
                               (["--tables", "/absent"], "isn't there"),
                               (["--nccl", "/absent"], "isn't there"),
                               (["--out", file.name], "can't be a folder")):
                self.assertIn(why, said(*words))


PART = """
import subprocess, sys, time
sys.path[:0] = {paths}
import check
check.end_with_parent()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("begun", flush=True)
time.sleep(60)
"""
RUN = """
import os, subprocess, sys
part = subprocess.Popen([sys.executable, "-c", {part!r}], start_new_session=True,
                        env=dict(os.environ, GPU_CHECK_PARENT=str(os.getpid())))
print(part.pid, flush=True)
part.wait()
"""


class Killed(unittest.TestCase):
    def test_a_part_ends_with_the_run_that_began_it(self):
        part = PART.format(paths=[os.path.join(BENCH, "gpu"), BENCH])
        run = subprocess.Popen([sys.executable, "-c", RUN.format(part=part)],
                               stdout=subprocess.PIPE, text=True)
        group = int(run.stdout.readline())
        self.assertEqual(run.stdout.readline(), "begun\n")
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()
        deadline = time.monotonic() + 30
        with self.assertRaises(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(group, 0)


if __name__ == "__main__":
    unittest.main()
