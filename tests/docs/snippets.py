"""The code blocks of README.md, docs/*.md and docs/migration/*.md, compiled and run.

snippets.py extract FOLDER   writes each C++ block, as a function, to a file
snippets.py run TROUPE       runs the shell, Python, JSON, YAML, CMake blocks
"""
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = "--seq 8 --microbatch-size 1 --endpoint none --steps 2".split()
TINY = "--d-model 8 --layers 6 --heads 2".split() + SHORT
WITHOUT_DRY_RUN = ("plan", "verify", "simulate", "launch", "top", "attach",
                   "events", "detach", "certificates", "ranks", "move", "drain")


def blocks():
    """(place, language, text) of every block."""
    docs = ROOT / "docs"
    for page in [ROOT / "README.md", *sorted(docs.glob("*.md")),
                 *sorted(docs.glob("migration/*.md"))]:
        text = page.read_text()
        for found in BLOCK.finditer(text):
            line = text[:found.start()].count("\n") + 1
            yield f"{page.relative_to(ROOT)}:{line}", *found.groups()


def extract(folder):
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for place, language, text in blocks():
        if language == "cpp":
            name = re.sub(r"\W", "_", place)
            expected[f"{name}.cpp"] = (
                '#include "troupe/tests/docs/surroundings.hpp"\n\n'
                f"void {name}() {{\nTROUPE_GIVEN {{\n#line 1 \"{place}\"\n"
                f"{text}}}\n}}\n")
    for old in folder.glob("*.cpp"):
        if old.name not in expected:
            old.unlink()
    for name, text in expected.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        print(path)


class Runner:
    def __init__(self, troupe, folder):
        self.troupe, self.folder, self.failed, self.ran = troupe, folder, [], 0
        words = "in the beginning was the word and the word was with " * 400
        (folder / "book.txt").write_text(words)
        (folder / "schedule.csv").write_text("0F0,0B0\n1F0,1B0\n")
        (folder / "stuck.csv").write_text("0F0,0B0\n1F0,1B0\n")
        (folder / "prompts.txt").write_text("In the\nword\n")
        self.job, self.endpoint = None, ""

    def check(self, place, holds, why):
        self.ran += 1
        if not holds:
            self.failed.append(f"{place}: {why}")

    def call(self, place, arguments, seconds=60):
        done = subprocess.run(arguments, cwd=self.folder, text=True,
                              capture_output=True, timeout=seconds)
        self.check(place, done.returncode == 0,
                   f"{shlex.join(map(str, arguments))} ended with "
                   f"{done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return done

    def live_job(self):
        """The endpoint of a job that runs until the end of the tests."""
        if self.job is None:
            path = self.folder / "job.sock"
            self.endpoint = f"unix:{path}"
            self.job = subprocess.Popen(
                [self.troupe, "train", "--text", "book.txt", *TINY, "--endpoint",
                 self.endpoint, "--attach-folder", "attached", "--steps",
                 "1000000"], cwd=self.folder,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 30
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        return self.endpoint

    def trained_run(self):
        """A run whose checkpoint prompts can be given to."""
        if not (self.folder / "run").exists():
            self.call("run", [self.troupe, "train", "--text", "book.txt", *TINY,
                              "--seq", "64", "--checkpoints", "run"])

    def transformers_model(self, name):
        """A folder as transformers writes it, and tokens for it."""
        if (self.folder / name).exists():
            return
        config = {"model_type": "llama", "vocab_size": 99, "hidden_size": 8,
                  "intermediate_size": 8, "num_hidden_layers": 4,
                  "num_attention_heads": 2, "max_position_embeddings": 64}
        (self.folder / "fresh").mkdir()
        (self.folder / "fresh/config.json").write_text(json.dumps(config))
        header = "{'descr': '|u1', 'fortran_order': False, 'shape': (500,), }\n"
        (self.folder / "corpus.npy").write_bytes(
            b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
            + header.encode() + bytes(500))
        self.call("model", [self.troupe, "train", "--text", "corpus.npy", *SHORT,
                            "--model", "fresh/", "--from-scratch", "--steps", "0",
                            "--save-model", name])

    def shell(self, place, text):
        lines = re.sub(r"\\\n\s*", " ", text).splitlines()
        for line in lines:
            if text.startswith("$") and line[:1] != "$":
                continue  # output
            words = shlex.split(line.removeprefix("$ ").replace("$book", "book.txt"),
                                comments=True)
            if words:
                self.line(place, words)

    def line(self, place, words):
        if words[0] == "curl":
            self.curl(place, words)
        elif words[0] == "troupe" and "..." not in words:
            self.command(place, words[1:])
        elif words[0].startswith(("scripts/", "examples/")):
            script = ROOT / words[0]
            self.check(place, script.is_file(), f"{words[0]} does not exist")
            known = script.read_text() if script.is_file() else ""
            for flag in (word for word in words[1:] if word.startswith("--")):
                self.check(place, flag == "--" or flag in known or "--" in words,
                           f"{words[0]} has no {flag}")

    def command(self, place, words):
        command = words[0]
        if command == "authority" or "--authority" in words:
            return self.has_flags(place, words)
        if command == "train":
            if "--save-model" in words:
                self.transformers_model(words[words.index("--model") + 1])
            sizes = SHORT if "--save-model" in words else TINY
            words = [*words, *sizes, "--dry-run"]
        if "generate" in words:
            self.trained_run()
        elif command == "launch":
            words = [*words, *TINY]
        if command in ("top", "attach", "events", "detach"):
            words = [re.sub(r"^(unix:\S+|ENDPOINT)$", self.live_job(), word)
                     for word in words]
            if self.endpoint not in words:
                words.insert(1, self.endpoint)
            return self.attached(place, words)
        if command in ("move", "drain"):  # the job has one process
            return
        if command in ("replan", "ranks"):
            words = [re.sub(r"^unix:\S+$", self.live_job(), word) for word in words]
            if self.endpoint not in words:
                words.insert(1, self.endpoint)
        if command == "lab":
            return self.attached(place, ["lab"])  # at a port that is free
        self.call(place, [self.troupe, *words])

    def has_flags(self, place, words):
        """A command of several machines: its flags, and those of what it launches."""
        for start in (0, words.index("--") + 1 if "--" in words else len(words)):
            if start == len(words):
                continue
            known = subprocess.run([self.troupe, words[start], "--help-all"], text=True,
                                   capture_output=True, check=True).stdout
            for flag in words[start + 1:]:
                if flag == "--":
                    break
                self.check(place, not flag.startswith("--") or f"{flag} " in known,
                           f"troupe {words[start]} has no {flag}")

    def attached(self, place, words):
        """A command that ends with its job, or by a signal: it has to be running after 1 s."""
        if words[0] == "detach":
            return
        with subprocess.Popen([self.troupe, *words], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL) as running:
            try:
                output, _ = running.communicate(timeout=1)
                self.check(place, running.returncode == 0,
                           f"{words} ended: {output[-500:]}")
            except subprocess.TimeoutExpired:
                self.check(place, True, "")
                running.terminate()

    def curl(self, place, words):
        """A request to the live job; a stream goes on until the time is over.

        Left out where curl is not installed, as on a bare system."""
        if not shutil.which("curl"):
            print(f"{place}: not tried, as there is no curl")
            return
        path = self.live_job().removeprefix("unix:")
        words = [path if "/run/user/" in word or word == "SOCKET" else word
                 for word in words]
        done = subprocess.run([*words, "--silent", "--show-error", "--max-time", "3"],
                              capture_output=True, text=True, timeout=60)
        lines = done.stdout.splitlines()
        self.check(place, done.returncode in (0, 28) and lines
                   and all(isinstance(json.loads(line), dict) and "error" not in line
                           for line in lines[:2]),
                   f"{shlex.join(words)} ended with {done.returncode}: {done.stdout[:500]}"
                   f"{done.stderr[:500]}")

    def python(self, place, text):
        if "troupe_engine" in text:  # tests/cli/python_test.py runs such code
            compile(text, place, "exec")
            package = (ROOT / "python/troupe_engine/__init__.py").read_text()
            for name in re.findall(r"troupe_engine\.(\w+)", text):
                self.check(place, f'"{name}"' in package,
                           f"troupe_engine exports no {name}")
            return
        if "AF_UNIX" in text:
            path = self.live_job().removeprefix("unix:")
            return self.call(place, [sys.executable, "-c",
                                     re.sub(r"/run/user/[^\"]*", path, text)])
        self.call(place, [self.troupe, "train", "--text", "book.txt", *TINY,
                          "--log-json", "run.jsonl"])
        self.call(place, [sys.executable, "-c", text + "\nassert loss, lines\n"
                          "assert all(x == x and x > 0 for x in loss), loss\n"])

    def run(self, place, language, text):
        if language == "sh" or text.startswith("$ troupe"):
            self.shell(place, text)
        elif language == "python":
            self.python(place, text)
        elif language == "json":
            for line in text.splitlines():
                self.check(place, isinstance(json.loads(line), dict), line)
        elif language == "yaml":
            self.check(place, "\t" not in text and re.match(r"\w+:\n", text),
                       "is no mapping")
        elif language == "cmake":
            used = (ROOT / "tests/package/CMakeLists.txt").read_text()
            libraries = re.search(r"PRIVATE ([^)]*)\)", text).group(1)
            self.check(place, libraries in used,
                       f"tests/package does not link {libraries}")


def main():
    if sys.argv[1] == "extract":
        return extract(Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(sys.argv[2], Path(folder))
        try:
            for block in blocks():
                runner.run(*block)
        finally:
            if runner.job:
                runner.job.kill()
                runner.job.wait()
    print(*runner.failed, sep="\n")
    print(f"{runner.ran - len(runner.failed)} passed, "
          f"{len(runner.failed)} failed")
    sys.exit(1 if runner.failed else 0)


main()
