"""What can go wrong. Each message says what to do."""


class TroupeError(Exception):
    """Any error of this package."""


class AddressError(TroupeError):
    """An address or a token file that can't be used, or no job, or several."""


class UnsupportedError(TroupeError):
    """This version of Python lacks what the connection needs."""


class JobError(TroupeError):
    """The job can't be reached, speaks another version, or ended a stream early."""


class RefusedError(JobError):
    """The job refused a request; `status` is that of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RunFileError(TroupeError):
    """A file of a run that can't be read, or a folder without any."""
