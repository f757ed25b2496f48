"""Token files, for scripts/tokenize."""

import contextlib
import fcntl
import glob
import os
import struct
from array import array

from .common import TYPES, Problem, little_endian
from .keeping import kept_name

NPY_HEADER = 128
PARTIAL = ".partial"


def put(file, code, values):
    little_endian(code, values).tofile(file)


def npy_header(descr, count):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}"
    text = text.ljust(NPY_HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def lock(file):
    """Until it is closed; whether no other program has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_killed(path):
    """What killed runs have left of such a result."""
    for name in glob.glob(f"{glob.escape(path)}.*{PARTIAL}*"):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            if lock(file):
                os.remove(name)


class Writer:
    """Writes beside the results' names, and renames at the end."""

    def __init__(self, path, descr, end, masked, kept, progress):
        self.path, self.descr, self.end, self.progress = path, descr, end, progress
        self.megatron, self.kept = path.endswith(".bin"), kept
        self.width = array(TYPES[descr]).itemsize
        stem = os.path.splitext(path)[0]
        self.index, self.mask = stem + ".idx", stem + ".mask.npy"
        self.count, self.documents, self.length = kept.tokens, kept.documents, 0
        self.files = {}
        start = 0 if self.megatron else NPY_HEADER
        self.tokens = self.open(path, start, self.width * kept.tokens)
        self.lengths = self.masks = None
        if self.megatron:
            self.lengths = self.open(self.index, 0, 4 * kept.documents)
        if masked:
            self.masks = self.open(self.mask, NPY_HEADER, kept.tokens)

    def open(self, path, start, size):
        """A new file with room for a header, or a kept one, up to what it has."""
        if self.kept.earlier:
            file = open(kept_name(path), "r+b")
            if os.path.getsize(file.name) < start + size:
                raise Problem(f"{file.name}: another program has changed it")
            file.truncate(start + size)
            file.seek(0, os.SEEK_END)
        else:
            remove_killed(path)
            file = open(f"{path}.{os.getpid()}{PARTIAL}", "w+b")
            lock(file)
            file.write(bytes(start))
        self.files[path] = file
        return file

    def add(self, ids, counts=1):
        put(self.tokens, TYPES[self.descr], ids)
        if self.masks:
            self.masks.write(bytes([counts]) * len(ids))
        self.count += len(ids)
        self.length += len(ids)
        self.progress.tokens = self.count
        self.progress.show()

    def end_document(self):
        if self.end is not None:
            self.add([self.end])
        if self.lengths:
            if self.length >= 2**31:
                raise Problem("a document has 2^31 tokens or more; write .npy instead")
            put(self.lengths, "i", [self.length])
        self.documents, self.length = self.documents + 1, 0
        self.kept.written(self.count)

    def finish_index(self):
        """Puts the header before the lengths, and offsets and documents behind."""
        kind = {"<u2": 8, "<u4": 4}[self.descr]  # ids below 2^31 are int32's as well
        count = self.documents
        head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, kind, count, count + 1)
        lengths = self.lengths
        whole = self.files[self.index] = open(lengths.name + "2", "w+b")
        lock(whole)
        whole.write(head)
        for rewrite in (lambda n, at: n, lambda n, at: at):
            lengths.seek(0)
            at = 0
            while block := lengths.read(1 << 16):
                out = []
                for n in little_endian("i", block):
                    out.append(rewrite(n, at * self.width))
                    at += n
                put(whole, "i" if rewrite(1, 0) else "q", out)
        for first in range(0, count + 1, 1 << 16):
            put(whole, "q", range(first, min(first + (1 << 16), count + 1)))
        lengths.close()
        os.remove(lengths.name)

    def finish(self):
        for file, descr in ((self.tokens, self.descr), (self.masks, "|u1")):
            if file and not (self.megatron and file is self.tokens):
                file.seek(0)
                file.write(npy_header(descr, self.count))
        if self.megatron:
            self.finish_index()
            if os.path.exists(self.path):  # never the old one with the new index
                os.remove(self.path)
        for path, file in reversed(self.files.items()):
            file.close()
            os.replace(file.name, path)
        self.forget()

    def forget(self):
        """What an earlier run has kept."""
        self.kept.forget()
        for path in self.files:
            if os.path.exists(kept_name(path)):
                os.remove(kept_name(path))

    def keep(self):
        """Leaves the documents that are complete to a later run; whether there are
        any."""
        if not self.kept.documents:
            self.abandon()
            return False
        try:
            for file in self.files.values():
                file.close()
        except OSError:  # a full disk
            self.abandon()
            return False
        self.kept.forget()
        for path, file in self.files.items():
            os.replace(file.name, kept_name(path))
        self.kept.save()
        return True

    def abandon(self):
        for file in [*self.files.values(), self.lengths]:
            if file:
                with contextlib.suppress(OSError):
                    file.close()
                if os.path.exists(file.name):
                    os.remove(file.name)
        if self.kept.earlier:
            self.kept.forget()
