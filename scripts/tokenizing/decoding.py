"""Text of token ids, for scripts/tokenize."""

import os
import re
import struct
import sys
from array import array

from .common import (
    TYPES, Problem, greatest_token, little_endian, load_tokenizer, number_of
)

# What `troupe generate` prints before the continuation of each of several
# prompts.
HEADING = "--- prompt "
MEGATRON_TYPES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}
# Magic, version, type, numbers of sequences and of documents.
MEGATRON_HEADER = struct.Struct("<9sQBQQ")


def bytes_left(file):
    return os.fstat(file.fileno()).st_size - file.tell()


def wrong_size(file, what, size):
    return Problem(f"{file.name}: {what} ({size} bytes) are announced, but "
                   f"{bytes_left(file)} bytes are there")


def numbers(file, code, count=None):
    """The rest of a file, where `count` are announced."""
    width = array(code).itemsize
    if count is not None and bytes_left(file) != count * width:
        raise wrong_size(file, f"{count} tokens", count * width)
    while block := file.read(width << 13):
        if len(block) % width:
            raise Problem(f"{file.name}: ends within a token")
        yield from little_endian(code, block)


def npy_form(file):
    """The type and number of the tokens, which follow then."""
    start = file.read(8)
    if len(start) < 8 or start[:6] != b"\x93NUMPY":
        raise Problem(f"{file.name}: is not a .npy file")
    major, minor = start[6:]
    if major not in (1, 2, 3) or minor != 0:
        raise Problem(f"{file.name}: is a .npy file of version {major}.{minor}; those "
                      "of 1.0, 2.0 and 3.0 are read")
    length = int.from_bytes(file.read(2 if major == 1 else 4), "little")
    if not 0 < length <= bytes_left(file):
        raise Problem(f"{file.name}: is cut off within its .npy header")
    header = file.read(length).decode("latin-1")
    # As troupe reads it: the values are not evaluated as Python.
    descr = re.search("'descr': *'([^']*)'", header)
    if not descr:
        raise Problem(f"{file.name}: has a .npy header without a plain item type")
    if descr[1] not in TYPES:
        raise Problem(f"{file.name}: has items of type {descr[1]!r}; token ids are of "
                      + ", ".join(TYPES))
    shape = re.search(r"'shape': *\(([0-9]{1,15}),\)", header)
    if not shape:
        raise Problem(f"{file.name}: has no shape such as (3,); tokens are one sequence")
    return TYPES[descr[1]], int(shape[1])


def megatron_form(index):
    head = index.read(MEGATRON_HEADER.size)
    if len(head) < MEGATRON_HEADER.size or not head.startswith(b"MMIDIDX\0\0"):
        raise Problem(f"{index.name}: is not an index of Megatron-LM (magic MMIDIDX)")
    _, version, code, sequences, documents = MEGATRON_HEADER.unpack(head)
    if version != 1:
        raise Problem(f"{index.name}: is an index of version {version}; that of 1 is "
                      "read")
    if code not in MEGATRON_TYPES:
        raise Problem(f"{index.name}: its tokens have type {code}, which is none of "
                      "token ids")
    size = 12 * sequences + 8 * documents
    if size > bytes_left(index):
        raise wrong_size(index, f"{sequences} sequences and {documents} documents", size)
    count = 0
    for first in range(0, sequences, 1 << 16):
        some = min(1 << 16, sequences - first)
        count += sum(little_endian("i", index.read(4 * some)))
    return MEGATRON_TYPES[code], count


def ids_of(path):
    with open(path, "rb") as file:
        form, index = ("H",), path.removesuffix(".bin") + ".idx"
        if path.endswith(".npy"):
            form = npy_form(file)
        elif os.path.exists(index):
            with open(index, "rb") as other:
                form = megatron_form(other)
        yield from numbers(file, *form)


def given_ids(paths):
    """Ids, and the headings between those on standard input, which are texts."""
    for path in paths:
        yield from ids_of(path)
    if not paths:
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        for line in sys.stdin:
            if line.startswith(HEADING):
                yield line
                continue
            for word in line.split():
                id = number_of(word)
                if id is None:
                    raise Problem(f"'{word}' on standard input is not a token id")
                yield id


def decode(options):
    """Decodes some tokens again before each part, as theirs can depend on these."""
    sys.stdout.reconfigure(encoding="utf-8")
    tokenizer, _ = load_tokenizer(options.tokenizer)
    most = greatest_token(tokenizer)

    def text_of_ids(ids):
        return tokenizer.decode(ids, skip_special_tokens=False)

    def flush():
        whole, known = text_of_ids(before + part), text_of_ids(before)
        if not whole.startswith(known):
            whole, known = text_of_ids(part), ""
        sys.stdout.write(whole[len(known):])

    before, part, place = [], [], 0
    for id in given_ids(options.files):
        if isinstance(id, str):
            flush()
            before, part = [], []
            sys.stdout.write(("\n" if place else "") + id)
            continue
        if not 0 <= id <= most:
            raise Problem(f"token {place} is {id}; the tokenizer's go up to {most}")
        part.append(id)
        place += 1
        if len(part) < 4096:
            continue
        if text_of_ids(part[-16:]).endswith("\ufffd") and len(part) < 4200:
            continue  # within a character
        flush()
        before, part = part[-16:], []
    flush()
    sys.stdout.write("\n" if sys.stdout.isatty() else "")
