"""Watch jobs of troupe and read what they wrote, from Python.

    import troupe_engine

    for event in troupe_engine.events():              # of your only job
        if event["event"] == "step":
            print(event["source"]["step"], event["losses"][0][1])

    for finding in troupe_engine.attach("unix:/tmp/x.sock", "overflow"):
        print(finding["type"], finding.get("text"))

    run = troupe_engine.read_run("logs")
    run.metrics["train/loss"].values                  # a numpy array

docs/python.md describes it, docs/endpoint.md what a job serves.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import Event
    from .errors import (
        AddressError, JobError, RefusedError, RunFileError, TroupeError,
        UnsupportedError,
    )
    from .job import Attached, Job, attach, events
    from .places import own_jobs
    from .run import Run, Series, read_run
    from .stream import Stream

# The modules are loaded on use, as the wheel's commands, which are in this package, need
# none of them.
_MODULES = {
    "answers": ("Event",),
    "errors": ("AddressError", "JobError", "RefusedError", "RunFileError",
               "TroupeError", "UnsupportedError"),
    "job": ("Attached", "Job", "attach", "events"),
    "places": ("own_jobs",),
    "run": ("Run", "Series", "read_run"),
    "stream": ("Stream",),
}

__all__ = [
    "AddressError", "Attached", "Event", "Job", "JobError", "RefusedError", "Run",
    "RunFileError", "Series", "Stream", "TroupeError", "UnsupportedError", "attach",
    "events", "own_jobs", "read_run",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
