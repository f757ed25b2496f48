"""Documents of text files, for scripts/tokenize."""

import codecs
import gzip
import io
import json
import os
import re
import sys
import time
import zlib

from .common import BadRow, Problem

PACKED_WRONGLY = [EOFError, gzip.BadGzipFile, zlib.error]


def open_zstandard(raw, path):
    """Of a file that `zstd` compressed, whatever it consists of."""
    try:
        from compression import zstd  # since Python 3.14
    except ImportError:
        pass
    else:
        PACKED_WRONGLY.append(zstd.ZstdError)
        return zstd.ZstdFile(raw)
    try:
        import zstandard
    except ImportError:
        raise Problem(
            f"{path}: .zst files are read by zstandard, which is not installed: "
            f"{sys.executable} -m pip install zstandard"
        ) from None
    PACKED_WRONGLY.append(zstandard.ZstdError)
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return io.BufferedReader(reader)


OPENS_PACKED = {
    ".gz": lambda raw, path: gzip.GzipFile(fileobj=raw),
    ".zst": open_zstandard,
}


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


class BadRows:
    """They end the run, or are skipped and counted."""

    def __init__(self, skip):
        self.skip, self.count, self.first = skip, 0, ""

    def meet(self, problem):
        if not self.skip:
            raise problem
        self.first = self.first or str(problem)
        self.count += 1


def strings(row, fields, where):
    """The fields' strings of one document."""
    if not isinstance(row, dict):
        raise BadRow(f"{where}: is not a JSON object with named fields")
    for field in fields:
        if field not in row:
            has = ", ".join(map(str, row)) or "none"
            raise BadRow(f"{where}: has no field '{field}' (its fields: {has})")
        if not isinstance(row[field], str):
            kind = type(row[field]).__name__
            raise BadRow(f"{where}: field '{field}' is of type {kind}, not a string")
        if re.search("[\ud800-\udfff]", row[field]):
            raise BadRow(f"{where}: field '{field}' has half of a surrogate pair, "
                         "which is no text")
    return [row[field] for field in fields]


def row_of(line, first, fields, where):
    """The strings of a line; none of an empty one."""
    try:
        text = line.decode("utf-8-sig" if first else "utf-8").strip()
        row = json.loads(text) if text else None
    except ValueError as error:  # of both
        raise BadRow(f"{where}: is not JSON: {error}") from None
    except RecursionError:
        raise BadRow(f"{where}: is nested too deep") from None
    return strings(row, fields, where) if text else None


def lines_of(file, path, fields, bad):
    for number, line in enumerate(file, 1):
        try:
            row = row_of(line, number == 1, fields, f"{path}:{number}")
        except BadRow as problem:
            bad.meet(problem)
            continue
        if row is not None:
            yield row


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
    except tuple(PACKED_WRONGLY) as error:
        raise Problem(f"{path}: {error}") from None


def rows_of(path, fields, bad):
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
                try:
                    texts = strings(row, fields, f"{path}: row {number}")
                except BadRow as problem:
                    bad.meet(problem)
                    continue
                yield texts
    except (ArrowException, OverflowError, ValueError) as error:
        raise Problem(f"{path}: {error}") from None


def documents(path, fields, bad, progress):
    """Of each document an iterable of its pieces, or [prompt, completion]."""
    name, packed = os.path.splitext(path)
    if packed not in OPENS_PACKED:
        name, packed = path, ""
    kind = os.path.splitext(name)[1]
    if kind == ".parquet" and name == path:
        yield from rows_of(path, fields, bad)
        progress.end(path)
        return
    if kind not in (".txt", ".jsonl", ".json"):
        raise Problem(
            f"{path}: is none of .txt, .jsonl, .json, these with .gz or .zst, and "
            ".parquet"
        )
    if kind == ".txt" and len(fields) == 2:
        raise Problem(f"{path}: a text file has no prompts and completions")
    with open(path, "rb") as raw:
        progress.begin(raw)
        file = OPENS_PACKED[packed](raw, path) if packed else raw
        try:
            if kind == ".txt":
                yield text_of(file, path)
            else:
                yield from lines_of(file, path, fields, bad)
        except tuple(PACKED_WRONGLY) as error:
            raise Problem(f"{path}: {error}") from None
    progress.end(path)
