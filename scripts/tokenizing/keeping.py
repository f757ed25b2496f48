"""What a run that ends early keeps, and a later one goes on with."""

import fcntl
import hashlib
import json
import os
from collections import deque

from .common import Problem, read_object


def kept_name(path):
    return path + ".kept"


def sum_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Kept:
    """How many documents are written, as how many tokens, and the sum of their texts:
    of each document's text and the sum before it."""

    def __init__(self, out, settings):
        self.path, self.settings = kept_name(out) + ".json", settings
        self.documents = self.tokens = self.earlier = 0
        self.sum = ""
        self.sums = deque()  # of documents that are read and not yet written

    def load(self):
        """Of an earlier run; while this one goes on with it, no other one does."""
        try:
            self.lock = open(self.path, "rb")
        except FileNotFoundError:
            raise Problem(f"--resume: {self.path} is missing: no run was interrupted, or "
                          "the last one was completed") from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(f"--resume: another run goes on with {self.path}") from None
        try:
            fields = read_object(self.path)
            then = fields["settings"]
            self.sum, self.tokens = str(fields["sum"]), int(fields["tokens"])
            self.documents = self.earlier = int(fields["documents"])
            differ = [name for name in self.settings if then[name] != self.settings[name]]
        except (KeyError, TypeError, ValueError):
            raise Problem(f"{self.path}: another program has changed it") from None
        if differ:
            raise Problem(f"--resume: the kept documents have another {differ[0]}; run "
                          "without --resume")

    def rest(self, documents):
        """The documents behind those of the earlier run, which must be as they were."""
        self.last, number = "", 0
        for number, document in enumerate(documents, 1):
            pieces = self.summed(document, number > self.earlier)
            if number <= self.earlier:
                deque(pieces, maxlen=0)
            else:
                yield list(pieces) if isinstance(document, list) else pieces
            if number == self.earlier and self.last != self.sum:
                number = 0
                break
        if number < self.earlier:
            raise Problem("--resume: the documents that are kept are not those of the "
                          "files any more; run without --resume")

    def summed(self, document, is_new):
        """Its pieces; the sum is there when they have ended."""
        text = hashlib.sha256(self.last.encode())
        for piece in document:
            text.update(f"{len(piece)} {piece}".encode())
            yield piece
        self.last = text.hexdigest()
        if is_new:
            self.sums.append(self.last)

    def written(self, tokens):
        """One more document; there are so many tokens now."""
        self.documents, self.tokens = self.documents + 1, tokens
        self.sum = self.sums.popleft()

    def save(self):
        temporary = f"{self.path}.{os.getpid()}"
        with open(temporary, "w") as file:
            json.dump({"documents": self.documents, "tokens": self.tokens,
                       "sum": self.sum, "settings": self.settings}, file)
        os.replace(temporary, self.path)

    def forget(self):
        if os.path.exists(self.path):
            os.remove(self.path)
