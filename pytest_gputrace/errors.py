"""Every exception of the package, in one tree.

::

    GputraceError
    ├── IdentityError           two sources disagree about who this worker is, or a variable cannot be read
    ├── LayoutError             the configuration given and the rank folder contradict each other
    ├── NamingError             a name cannot be built within the limit, or is not one of ours
    ├── PublishError            one file could not be put on disk
    ├── MissingDependencyError  an optional package is needed and not installed
    ├── ExportError             at least one of a capture's two files could not be written
    │   ├── SessionStolenError  another profiler took the session; there is nothing to export
    │   └── EmptyCaptureError   the profile holds no event
    ├── ClusterError            simulated workers died, failed or did not come in time
    ├── ContractError           an exporter could not be held to the contract: no verdict
    │   └── DeclarationError    what was declared about it cannot be: an unknown check or capability
    ├── ControlError            a profile could not be controlled: a worker, an engine or an endpoint did not do its part
    │   ├── RequestError        what was asked for cannot be done; nothing was changed
    │   │   └── ForeignFolderError  its files would go where an endpoint may not write
    │   ├── UnheardError        an engine did not answer
    │   └── ActivityError       one profiler could not start, or what it wrote is not there
    ├── MergeError              files cannot be one timeline: a rank is absent, double or corrupt, a time counts from nowhere
    ├── SelectionError          a code was selected or ignored that no rule has
    └── UnknownPathError        what was to be read does not exist

Facts are kept as attributes and every error survives pickling, so that one raised in a simulated rank reaches the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "ActivityError",
    "ClusterError",
    "ContractError",
    "ControlError",
    "DeclarationError",
    "EmptyCaptureError",
    "ExportError",
    "ForeignFolderError",
    "GputraceError",
    "IdentityError",
    "LayoutError",
    "MergeError",
    "MissingDependencyError",
    "NamingError",
    "PublishError",
    "RequestError",
    "SelectionError",
    "SessionStolenError",
    "UnheardError",
    "UnknownPathError",
]


def _rebuild(cls: type[GputraceError], args: tuple[Any, ...], facts: dict[str, Any]) -> GputraceError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class GputraceError(Exception):
    """Base of every error that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the facts, whatever the subclass's constructor asks for."""
        return _rebuild, (type(self), self.args, self.__dict__)


class IdentityError(GputraceError):
    """Two sources claim different identities for one worker, or a launcher variable cannot be read.

    ``sources`` names the variables (or folder) that are to blame.
    """

    def __init__(self, message: str, *, sources: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.sources = tuple(sources)


class LayoutError(GputraceError):
    """An explicit configuration contradicts the rank folder the process runs in."""

    def __init__(self, message: str, *, folder: Path | None = None) -> None:
        super().__init__(message)
        self.folder = folder


class NamingError(GputraceError):
    """A file name cannot be built within its byte limit, or a text is not a name of ours."""


class PublishError(GputraceError):
    """A file could not be put on disk. ``path`` is the final name; ``__cause__`` holds the system's error."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class MissingDependencyError(GputraceError):
    """An optional package is needed and not installed; ``package`` names it."""

    def __init__(self, message: str, *, package: str) -> None:
        super().__init__(message)
        self.package = package


class ExportError(GputraceError):
    """A capture could not be exported whole.

    ``result`` is what was written all the same (``None`` when nothing was), ``rank`` the global rank, and ``causes``
    the error of each file that is missing.
    """

    def __init__(
        self,
        message: str,
        *,
        result: Any = None,
        rank: int | None = None,
        causes: Sequence[BaseException] = (),
    ) -> None:
        super().__init__(message)
        self.result = result
        self.rank = rank
        self.causes = tuple(causes)


class SessionStolenError(ExportError):
    """Another profiler in the process took the session over. Exporting such a profile kills the process on torch 2.13."""


class EmptyCaptureError(ExportError):
    """The profile holds no CPU event: success with an empty trace is the loss this package exists to prevent."""


class ClusterError(GputraceError):
    """Simulated workers died, raised, or were not done by the deadline. ``workers`` are their labels."""

    def __init__(self, message: str, *, workers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.workers = tuple(workers)


class ContractError(GputraceError):
    """An exporter could not be held to a check: set-up failed, a worker died or was late. Never a verdict on it.

    ``always`` says that the exporter fails in the plainest run too, so that every other check would end the same way.
    """

    def __init__(self, message: str, *, always: bool = False) -> None:
        super().__init__(message)
        self.always = always


class DeclarationError(ContractError):
    """A declaration names no check or capability there is, or lacks its reason."""


class ControlError(GputraceError):
    """A profile could not be controlled: a worker, an engine or an endpoint did not do its part in time."""


class RequestError(ControlError):
    """A profile that was asked for cannot be recorded; nothing was changed. ``reasons`` holds each thing in the way."""

    def __init__(self, message: str, *, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons) or (message,)


class ForeignFolderError(RequestError):
    """The folder that was asked for is not below the one where an endpoint may write."""


class UnheardError(ControlError):
    """No answer came. ``sent`` says whether the request may have reached the engine all the same."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class ActivityError(ControlError):
    """One profiler could not start, stop or write. ``activity`` is the word it was asked for by."""

    def __init__(self, message: str, *, activity: str) -> None:
        super().__init__(message)
        self.activity = activity


class MergeError(GputraceError):
    """Files cannot be put on one timeline; nothing was written, and what there was is untouched.

    ``reasons`` holds each thing that is in the way, the message all of them.
    """

    def __init__(self, message: str, *, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class SelectionError(GputraceError):
    """A code was selected or ignored that no rule has."""


class UnknownPathError(GputraceError):
    """A path that was to be read does not exist."""
