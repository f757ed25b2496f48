"""Tests of packaging/troupe-libtorch, with wheels and an index that they make."""

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "packaging/troupe-libtorch"
FILES = {
    "torch": ["torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so",
              "torch/lib/libtorch_python.so", "torch/include/ATen/ATen.h",
              "torch/nn/modules.py"],
    "nvidia-cuda-runtime": ["nvidia/cu13/lib/libcudart.so.13",
                            "nvidia/cu13/lib/libcudart_static.a"],
}


class Libtorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.prefix = self.folder / "prefix"
        for name in "bin", "lib/troupe", "share/troupe":
            (self.prefix / name).mkdir(parents=True)
        self.script = shutil.copy(SCRIPT, self.prefix / "bin")
        self.wheels = self.folder / "wheels"
        self.wheels.mkdir()
        lines = ["# wheels"]
        for name, files in FILES.items():
            path = self.wheels / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for each in files:
                    archive.writestr(each, each)
                about = f"{name.replace('-', '_')}-1.0.dist-info"
                archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\n")
                archive.writestr(f"{about}/METADATA",
                                 f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            lines.append(f"{name}==1.0 {hashlib.sha256(path.read_bytes()).hexdigest()}")
        self.list = self.prefix / "share/troupe/libtorch_wheels.txt"
        self.list.write_text("\n".join(lines) + "\n")

    def run_script(self, *flags, **variables):
        return subprocess.run([self.script, *flags], capture_output=True, text=True,
                              env={**os.environ, "no_proxy": "127.0.0.1", **variables})

    def files(self):
        root = self.prefix / "lib/troupe"
        return sorted(str(each.relative_to(root)) for each in root.rglob("*")
                      if each.is_file())

    def test_the_part_for_cpus_is_unpacked(self):
        run = self.run_script("--wheels", str(self.wheels))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.files(), ["nvidia/cu13/lib/libcudart.so.13",
                                        "torch/lib/libtorch_cpu.so"])

    def test_development_brings_headers(self):
        (self.prefix / "lib/cmake/troupe").mkdir(parents=True)
        self.run_script("--wheels", str(self.wheels))
        self.assertIn("torch/include/ATen/ATen.h", self.files())

    def test_an_installed_torch_is_linked_and_replaced(self):
        torch = self.folder / "site/torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib/libtorch_cpu.so").touch()
        self.assertEqual(self.run_script("--link", str(torch)).returncode, 0)
        self.assertEqual((self.prefix / "lib/troupe/torch").resolve(), torch.resolve())
        self.assertEqual(self.run_script("--wheels", str(self.wheels)).returncode, 0)
        self.assertTrue((torch / "lib/libtorch_cpu.so").exists())
        self.assertFalse((self.prefix / "lib/troupe/torch").is_symlink())
        refused = self.run_script("--link", str(self.folder))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("libtorch_cpu.so is not there", refused.stderr)

    def test_another_wheel_is_refused(self):
        path = next(self.wheels.glob("torch-*"))
        path.write_bytes(path.read_bytes() + b"x")
        run = self.run_script("--wheels", str(self.wheels))
        self.assertEqual(run.returncode, 1)
        self.assertIn("no wheel of torch with the SHA-256", run.stderr)
        self.assertEqual(self.files(), [])

    def test_wheels_are_downloaded_from_an_index(self):
        for path in self.wheels.glob("*.whl"):
            name = path.name.split("-")[0].replace("_", "-")
            page = self.folder / "simple" / name
            page.mkdir(parents=True)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            (page / "index.html").write_text(
                f'<a href="../../wheels/{path.name}#sha256={digest}">{path.name}</a>')
        handler = functools.partial(http.server.SimpleHTTPRequestHandler,
                                    directory=self.folder)
        handler.log_message = lambda *_: None
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        index = f"http://127.0.0.1:{server.server_port}/simple"
        run = self.run_script(PIP_INDEX_URL=index)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("torch/lib/libtorch_cpu.so", self.files())
        missing = self.run_script(PIP_INDEX_URL=index + "/none", PIP_RETRIES="0")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("--wheels takes", missing.stderr)


if __name__ == "__main__":
    unittest.main()
