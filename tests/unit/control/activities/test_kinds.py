from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_gputrace.control.activities import kinds, refusals
from pytest_gputrace.control.request import ACTIVITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_gputrace.control.activities.protocol import Recorder, Setup


class Quiet:
    """A kind that can record whatever is asked, or says why not."""

    def __init__(self, *words: str, reasons: tuple[str, ...] = ()) -> None:
        self.words = words
        self.asked: list[tuple[str, ...]] = []
        self._reasons = reasons

    def refusals(self, words: tuple[str, ...]) -> Iterable[str]:
        self.asked.append(words)
        return self._reasons

    def recorder(self, setup: Setup) -> Recorder:
        raise NotImplementedError


def test_every_activity_has_one_kind_and_viztracer_stops_first() -> None:
    words = [word for kind in kinds() for word in kind.words]
    assert words == ["CPU", "GPU", "MEM", "CUDA_PROFILER", "PROTON", "VIZTRACER"]
    assert sorted(words) == sorted(ACTIVITIES)


def test_importing_the_kinds_imports_no_profiler() -> None:
    heavy = ("torch", "triton", "tokenspeed_triton", "libproton", "viztracer", "numpy", "pytest")
    code = (
        "import sys; from pytest_gputrace.control.activities import kinds; kinds(); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_proton_has_no_room_beside_another_gpu_profiler() -> None:
    there = [Quiet("CPU", "GPU"), Quiet("CUDA_PROFILER"), Quiet("PROTON")]
    [reason] = refusals(["CPU", "GPU", "CUDA_PROFILER", "PROTON"], there)
    assert reason == (
        "PROTON cannot be recorded together with GPU and CUDA_PROFILER, as a process has room for one GPU profiler; "
        "ask for one or the other (CPU, MEM and VIZTRACER go with both)"
    )
    assert "together with CUDA_PROFILER," in refusals(["PROTON", "CUDA_PROFILER"], there)[0]


def test_what_records_on_the_host_goes_with_proton() -> None:
    there = [Quiet("CPU", "GPU"), Quiet("MEM"), Quiet("PROTON"), Quiet("VIZTRACER")]
    assert refusals(["CPU", "MEM", "PROTON", "VIZTRACER"], there) == []


def test_a_word_that_nothing_records_is_refused() -> None:
    assert refusals(["CPU", "XPU"], [Quiet("CPU", "GPU")]) == ["nothing here records XPU; what there is: CPU, GPU"]


def test_each_kind_is_asked_about_its_own_words_and_every_reason_is_told() -> None:
    torch, proton, unasked = Quiet("CPU", "GPU", reasons=("a",)), Quiet("PROTON", reasons=("b", "c")), Quiet("MEM")
    assert refusals(["PROTON", "CPU"], [torch, proton, unasked]) == ["a", "b", "c"]
    assert (torch.asked, proton.asked, unasked.asked) == ([("CPU",)], [("PROTON",)], [])
