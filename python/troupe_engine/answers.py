"""What a job answers: JSON, in which numbers that are not finite are texts."""

import json
from typing import Any

from .errors import JobError

Event = dict[str, Any]

MOST_BYTES = 16 << 20  # of an answer or a line
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


def parsed(text: bytes, where: str) -> Any:
    try:
        return _with_numbers(json.loads(text))
    except ValueError:
        raise JobError(f"{where}: what answers there is no job of troupe") from None


def _with_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_numbers(each) for each in value]
    return float(value) if isinstance(value, str) and value in _NOT_FINITE else value
