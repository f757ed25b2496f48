"""Documents of text files, for scripts/tokenize."""

import codecs
import gzip
import json
import os
import re
import sys
import time
import zlib

from .common import Problem

PACKED_WRONGLY = EOFError, gzip.BadGzipFile, zlib.error


class Progress:
    """Bytes of all input files, shown on a terminal."""

    def __init__(self, paths):
        self.total = sum(os.path.getsize(path) for path in paths)
        self.before, self.file, self.tokens = 0, None, 0
        self.started = self.shown = time.monotonic()
        self.visible = sys.stderr.isatty()

    def begin(self, file):
        self.file = file

    def end(self, path):
        self.before, self.file = self.before + os.path.getsize(path), None

    def show(self, last=False):
        now = time.monotonic()
        if not self.visible or (now - self.shown < 0.2 and not last):
            return
        self.shown = now
        done = self.before + (self.file.tell() if self.file else 0)
        share = min(done / self.total, 1.0) if self.total else 1.0
        bar = "#" * int(30 * share)
        speed = self.tokens / max(now - self.started, 1e-9)
        print(f"\r[{bar:30}] {share:4.0%} {self.tokens:,} tokens, {speed:,.0f}/s ",
              end="\n" if last else "", file=sys.stderr, flush=True)


def strings(row, fields, where):
    """The fields' strings of one document."""
    if not isinstance(row, dict):
        raise Problem(f"{where}: is not a JSON object with named fields")
    for field in fields:
        if field not in row:
            has = ", ".join(map(str, row)) or "none"
            raise Problem(f"{where}: has no field '{field}' (its fields: {has})")
        if not isinstance(row[field], str):
            kind = type(row[field]).__name__
            raise Problem(f"{where}: field '{field}' is of type {kind}, not a string")
        if re.search("[\ud800-\udfff]", row[field]):
            raise Problem(f"{where}: field '{field}' has half of a surrogate pair, "
                          "which is no text")
    return [row[field] for field in fields]


def lines_of(file, path, fields):
    for number, line in enumerate(file, 1):
        where = f"{path}:{number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if not text:
                continue
            row = json.loads(text)
        except ValueError as error:  # of both
            raise Problem(f"{where}: is not JSON: {error}") from None
        except RecursionError:
            raise Problem(f"{where}: is nested too deep") from None
        yield strings(row, fields, where)


def text_of(file, path):
    """Pieces of a text file."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    place = 0
    try:
        while block := file.read(1 << 16):
            yield decoder.decode(block)
            place += len(block)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Problem(f"{path}: is not UTF-8 after byte {place}: {error}") from None
    except PACKED_WRONGLY as error:
        raise Problem(f"{path}: {error}") from None


def rows_of(path, fields):
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Problem(
            f"{path}: .parquet files are read by pyarrow, which is not installed: "
            f"{sys.executable} -m pip install pyarrow"
        ) from None
    try:
        file, number = parquet.ParquetFile(path), 0
        columns = file.schema_arrow.names
        for field in fields:
            if field not in columns:
                has = ", ".join(columns)
                raise Problem(f"{path}: has no column '{field}' (its columns: {has})")
        for batch in file.iter_batches(batch_size=256, columns=fields):
            for row in batch.to_pylist():
                number += 1
                yield strings(row, fields, f"{path}: row {number}")
    except (ArrowException, OverflowError, ValueError) as error:
        raise Problem(f"{path}: {error}") from None


def documents(path, fields, progress):
    """Of each document an iterable of its pieces, or [prompt, completion]."""
    name = path.removesuffix(".gz")
    kind = os.path.splitext(name)[1]
    if kind == ".parquet" and name == path:
        yield from rows_of(path, fields)
        progress.end(path)
        return
    if kind not in (".txt", ".jsonl", ".json"):
        raise Problem(
            f"{path}: is none of .txt, .jsonl, .json, these with .gz, and .parquet"
        )
    if kind == ".txt" and len(fields) == 2:
        raise Problem(f"{path}: a text file has no prompts and completions")
    with open(path, "rb") as raw:
        progress.begin(raw)
        file = raw if name == path else gzip.GzipFile(fileobj=raw)
        try:
            if kind == ".txt":
                yield text_of(file, path)
            else:
                yield from lines_of(file, path, fields)
        except PACKED_WRONGLY as error:
            raise Problem(f"{path}: {error}") from None
    progress.end(path)
