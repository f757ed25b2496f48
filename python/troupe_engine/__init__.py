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

from .errors import (
    AddressError, JobError, RefusedError, RunFileError, TroupeError, UnsupportedError,
)
from .job import Attached, Event, Job, Stream, attach, events
from .places import own_jobs
from .run import Run, Series, read_run

__all__ = [
    "AddressError", "Attached", "Event", "Job", "JobError", "RefusedError", "Run",
    "RunFileError", "Series", "Stream", "TroupeError", "UnsupportedError", "attach",
    "events", "own_jobs", "read_run",
]
