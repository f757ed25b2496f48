"""The files that a run wrote, as numpy arrays."""

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Union

import numpy as np
import numpy.typing as npt

from .errors import RunFileError
from .places import PathLike

OP = np.dtype([
    ("step", "<i8"), ("replica", "<i4"), ("rank", "<i4"), ("stage", "<i4"),
    ("microbatch", "<i4"), ("category", "<U16"), ("type", "<U32"), ("name", "<U48"),
    ("begin_us", "<f8"), ("duration_us", "<f8"),
])

_PREFIXES = {"training": "train/", "validation": "validation/",
             "inference": "inference/"}
_NO_METRICS = {"step", "time"}


@dataclass(frozen=True)
class Series:
    """A metric: `values[i]` is that of step `steps[i]`; steps ascend."""

    steps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class Run:
    """What `read_run` found: metrics by name, alerts as written, and a timeline for
    each trace: an array with the fields of `OP`, where -1 means none."""

    metrics: dict[str, Series] = field(default_factory=dict)
    timelines: dict[str, "npt.NDArray[np.void]"] = field(default_factory=dict)
    alerts: list[dict[str, Any]] = field(default_factory=list)


class _Collected:
    def __init__(self) -> None:
        self.values: dict[str, dict[int, float]] = {}
        self.alerts: list[dict[str, Any]] = []

    def add(self, step: int, name: str, value: Any) -> None:
        self.values.setdefault(name, {})[step] = float(value)

    def series(self) -> dict[str, Series]:
        return {name: _series(self.values[name]) for name in sorted(self.values)}


def read_run(folder: PathLike) -> Run:
    """Reads what a run wrote directly in a folder, or one such file: the lines of
    `--log-json` and `--sink json:FILE`, `--sink csv:FILE`, and traces (`--trace FILE`).

    A line that the run is still writing is left out. Of a metric that several files
    have, the last file by name counts. Raises `RunFileError` for a file that can't be
    read, and where there is none of these.
    """
    root = Path(folder)
    files = [root] if root.is_file() else _files_in(root)
    collected = _Collected()
    timelines = {}
    used = 0
    for path in files:
        kind = _kind_of(path)
        used += kind is not None
        if kind == "trace":
            timelines[path.name] = _read_trace(path)
        elif kind == "lines":
            _read_lines(path, collected)
        elif kind == "csv":
            _read_csv(path, collected)
    if not used:
        raise RunFileError(
            f"{root}: no file of a run is in it; troupe train writes them with "
            "--log-json FILE.jsonl, --sink json:FILE or csv:FILE, and --trace FILE.json"
        )
    return Run(collected.series(), timelines, collected.alerts)


def _files_in(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_file())
    except OSError as reason:
        raise RunFileError(f"{folder}: {reason.strerror}") from None


def _kind_of(path: Path) -> Union[str, None]:
    """By the file's first bytes, as its name may be any."""
    try:
        with path.open("rb") as opened:
            head = opened.read(200)
    except OSError as reason:
        raise RunFileError(f"{path}: {reason.strerror}") from None
    if head.startswith(b"step,phase,name,value"):
        return "csv"
    if head.startswith(b"{") and b'"traceEvents"' in head:
        return "trace"
    if re.match(rb'\{"(step|warning|failure)":', head):
        return "lines"
    return None


def _series(by_step: dict[int, float]) -> Series:
    steps = sorted(by_step)
    return Series(np.array(steps, np.int64),
                  np.array([by_step[step] for step in steps], np.float64))


def _complete_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8", newline="") as opened:
        for number, line in enumerate(opened, 1):
            if line.endswith("\n"):
                yield number, line


def _read_lines(path: Path, collected: _Collected) -> None:
    for number, text in _complete_lines(path):
        try:
            _take_line(json.loads(text), collected)
        except (ValueError, KeyError, TypeError, AttributeError) as reason:
            raise RunFileError(f"{path}:{number}: no line of a run: {reason}") from None


def _take_line(line: dict[str, Any], collected: _Collected) -> None:
    if {"alert", "failure", "warning", "epoch"} & line.keys():
        collected.alerts.append(line)
        return
    step, phase = int(line["step"]), line["phase"]
    prefix = _PREFIXES.get(phase, phase + "/")
    for name, value in line.items():
        if name not in _NO_METRICS and _is_number(value):
            collected.add(step, prefix + name, value)
    for name, value in line.get("metrics", {}).items():
        other = phase == "validation" and not name.startswith(prefix)
        collected.add(step, prefix + name if other else name, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity")


def _read_csv(path: Path, collected: _Collected) -> None:
    rows = csv.reader(text for _, text in _complete_lines(path))
    for number, row in enumerate(rows, 1):
        if number == 1:
            continue
        try:
            step, phase, name, value = row
            other = phase == "validation" and not name.startswith("validation/")
            collected.add(int(step), "validation/" + name if other else name, value)
        except ValueError as reason:
            raise RunFileError(f"{path}:{number}: no row of a run: {reason}") from None


def _read_trace(path: Path) -> "npt.NDArray[np.void]":
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        ranks = {(each["pid"], each["tid"]): _rank_in(each["args"]["name"])
                 for each in entries if each["name"] == "thread_name"}
        rows = [_row_of(each, ranks) for each in entries if each["ph"] == "X"]
    except (ValueError, KeyError, TypeError) as reason:
        raise RunFileError(f"{path}: no trace of a run: {reason}") from None
    return np.sort(np.array(rows, OP), order=["begin_us", "replica", "rank"])


def _rank_in(thread: str) -> int:
    found = re.search(r"rank (\d+)", thread)
    return int(found[1]) if found else -1


def _row_of(each: dict[str, Any], ranks: dict[tuple[int, int], int]) -> tuple[Any, ...]:
    about = each.get("args", {})
    return (about.get("step", -1), each["pid"],
            ranks.get((each["pid"], each["tid"]), -1), about.get("stage", -1),
            about.get("microbatch", -1), each.get("cat", ""), about.get("type", ""),
            each["name"], each["ts"], each["dur"])
