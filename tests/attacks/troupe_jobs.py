"""What the attacks share: a small training as processes, and sockets with deadlines."""

import os
import re
import socket
import subprocess
import tempfile
import time

SHAPE = ["--d-model", "64", "--layers", "4", "--heads", "4", "--seq", "64", "--microbatch-size", "2",
         "--microbatches", "4", "--ranks", "2"]
PATIENCE = 60


class Folder:
    """A temporary folder with a text to train on and a secret."""

    def __init__(self):
        self.own = tempfile.TemporaryDirectory()
        self.text = self.at("text")
        with open(self.text, "w", encoding="ascii") as file:
            file.write("".join(chr(97 + i * i % 26) for i in range(40000)))
        self.secret = self.secret_file("secret", "a-secret-of-the-attacks-41c7")

    def at(self, name):
        return os.path.join(self.own.name, name)

    def secret_file(self, name, text):
        path = self.at(name)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return path


class Process:
    """A program in the background, its output in a file; killed at the end."""

    def __init__(self, command, path, place=None):
        self.path = path
        environment = dict(os.environ, OMP_NUM_THREADS="1", **(place or {}))
        with open(path, "wb") as output:
            self.child = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def output(self):
        with open(self.path, "r", encoding="utf-8", errors="replace") as file:
            return file.read()

    def waits_for(self, pattern):
        return until(lambda: re.search(pattern, self.output()))

    def end(self):
        self.child.kill()
        self.child.wait()

    def resident_mib(self):
        with open(f"/proc/{self.child.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4 / 1024


def training(program, folder, process, processes, flags):
    place = {"RANK": str(process), "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    command = [program, "train", "--text", folder.text, "--endpoint", "none", *SHAPE, *flags]
    return Process(command, folder.at(f"output{process}"), place if processes > 1 else {})


def until(found, seconds=PATIENCE):
    """What `found` returns once it is true; nothing if it does not become so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = found()
        if result:
            return result
        time.sleep(0.01)
    return None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port, seconds=PATIENCE):
    def attempt():
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=seconds)
        except ConnectionRefusedError:
            return None
    return until(attempt, seconds)


def first_loss(process):
    found = process.waits_for(r"step 1/\d+ loss (\S+)")
    return found.group(1) if found else None
