"""Text of token ids, for scripts/tokenize."""

import ast
import os
import struct
import sys
from array import array

from .common import TYPES, Problem, greatest_token, little_endian, load_tokenizer

# What `troupe generate` prints before the continuation of each of several
# prompts.
HEADING = "--- prompt "
MEGATRON_TYPES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}


def numbers(file, code):
    size = array(code).itemsize << 13
    while block := file.read(size):
        if len(block) % array(code).itemsize:
            raise Problem(f"{file.name}: ends within a token")
        yield from little_endian(code, block)


def ids_of(path):
    with open(path, "rb") as file:
        if path.endswith(".npy"):
            start = file.read(8)
            if start[:6] != b"\x93NUMPY":
                raise Problem(f"{path}: is not a .npy file")
            form = "<H" if start[6] == 1 else "<I"
            (length,) = struct.unpack(form, file.read(struct.calcsize(form)))
            header = ast.literal_eval(file.read(length).decode())
            if header["descr"] not in TYPES or len(header["shape"]) != 1:
                raise Problem(f"{path}: holds no token ids: {header}")
            return (yield from numbers(file, TYPES[header["descr"]]))
        code, index = "H", path.removesuffix(".bin") + ".idx"
        if os.path.exists(index):
            with open(index, "rb") as other:
                code = MEGATRON_TYPES.get(other.read(18)[-1])
        if code is None:
            raise Problem(f"{index}: its type is none of token ids")
        yield from numbers(file, code)


def given_ids(paths):
    """Ids, and the headings between those on standard input, which are texts."""
    for path in paths:
        yield from ids_of(path)
    if not paths:
        for line in sys.stdin:
            if line.startswith(HEADING):
                yield line
                continue
            for word in line.split():
                if not (word.isascii() and word.isdecimal()):
                    raise Problem(f"'{word}' on standard input is not a token id")
                yield int(word)


def decode(options):
    """Decodes some tokens again before each part, as theirs can depend on these."""
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
