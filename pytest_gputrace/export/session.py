"""The one door to torch for the exporter: its profiler, and whether a session is still ours.

torch is imported inside the functions that need it, never when this module is.
"""

from __future__ import annotations

from typing import Any

from pytest_gputrace.errors import MissingDependencyError

__all__ = ["STOLEN", "profiler", "someone_profiles", "was_stolen"]

STOLEN = (
    "another profiler in this process took the session over while it ran (torch allows one at a time), so nothing was "
    "recorded; look for torch.profiler.profile or torch.autograd.profiler.profile inside the profiled code"
)


def profiler() -> Any:
    """``torch.profiler``, as it is when asked: a test may have put a fake ``profile`` into it.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    try:
        import torch.profiler
    except ImportError as error:
        raise MissingDependencyError(
            "profiled() records with torch.profiler, and torch is not installed; install your GPU's build of torch, or "
            "`pip install pytest-gputrace[torch]` where any build will do",
            package="torch",
        ) from error
    return torch.profiler


def someone_profiles() -> bool:
    """Whether a torch profiler session runs in this process."""
    import torch.autograd

    return bool(torch.autograd._profiler_enabled())


def was_stolen(profile: Any) -> bool:
    """Whether a stopped profile lost its session to another profiler.

    torch 2.12 and newer then report an empty profile whose trace began at 0; asking such a profile for its chrome
    trace kills the process. A profile that is merely empty has a start.
    """
    results = getattr(getattr(profile, "profiler", None), "kineto_results", None)
    start_ns = getattr(results, "trace_start_ns", None)
    return callable(start_ns) and isinstance(start := start_ns(), int) and start == 0
