"""What the parts of scripts/tokenize share."""

import json
import os
import sys
from array import array

# array's code for the types that token files have, by NumPy's names
TYPES = {"|u1": "B", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q"}


class Problem(Exception):
    """What is wrong, for the user."""


class BadRow(Problem):
    """What is wrong with one row of a file of many."""


def little_endian(code, values):
    """An array of them: from numbers for a file, or from a file's bytes."""
    numbers = array(code, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def tokenizer_file(path):
    return os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path


def load_tokenizer(path):
    from tokenizers import Tokenizer

    file = tokenizer_file(path)
    if not os.path.exists(file):
        raise Problem(
            f"{file}: there is no such file. transformers makes it from other forms: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    try:
        tokenizer = Tokenizer.from_file(file)
    except Exception as error:
        raise Problem(f"{file}: is no tokenizer: {error}") from None
    if tokenizer.get_vocab_size() == 0:
        raise Problem(f"{file}: has no tokens")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, os.path.dirname(os.path.abspath(file))


def greatest_token(tokenizer):
    return max(tokenizer.get_vocab(with_added_tokens=True).values())


def read_object(path):
    try:
        with open(path, encoding="utf-8") as f:
            fields = json.load(f)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None
    except RecursionError:
        raise Problem(f"{path}: is nested too deep") from None
    if not isinstance(fields, dict):
        raise Problem(f"{path}: is not a JSON object")
    return fields


def named_end(folder):
    """The end-of-text token of the model's files: its text, or its id as text."""
    path = os.path.join(folder, "tokenizer_config.json")
    token = read_object(path).get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    if isinstance(token, str):
        return token
    if token is not None:
        raise Problem(f"{path}: eos_token is {token!r}, not a string")
    path = os.path.join(folder, "config.json")
    id = read_object(path).get("eos_token_id")
    id = id[0] if isinstance(id, list) and id else id
    if type(id) is int and id >= 0:
        return str(id)
    if id is not None:
        raise Problem(f"{path}: eos_token_id is {id!r}, not the id of a token")
    raise Problem(
        "the tokenizer's folder names no end-of-text token: choose one with "
        "--end-of-text ID_OR_TOKEN, or none"
    )


def number_of(text):
    """An id, if that is what the text can be."""
    if text.isascii() and text.isdecimal() and len(text) < 20:
        return int(text)
    return None


def end_of_text(given, tokenizer, folder, most):
    """Its id, or None for no such token."""
    if given == "none":
        return None
    if given is None:
        given = named_end(folder)
    id = number_of(given)
    if id is not None:
        if id > most:
            raise Problem(f"end of text {given}: the greatest token is {most}")
        return id
    try:
        id = tokenizer.token_to_id(given)
    except UnicodeEncodeError:  # half of a surrogate pair
        id = None
    if id is None:
        raise Problem(f"end of text '{given}': the tokenizer has no such token")
    return id
