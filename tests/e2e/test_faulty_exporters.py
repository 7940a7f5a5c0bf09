"""Proof that the contract detects: exporters with one known fault each, and exactly the checks that must be broken by it.

A check without an exporter here that it alone, or with few others, finds is a check that could be blind unseen.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.conformance import CHECKS, Sizes, Subject, hold, not_checked
from pytest_gputrace.errors import ContractError
from tests.e2e.exporters import content, failing, legacy, names, pairing
from tests.e2e.exporters.good import Exporter, Replacing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: simulated nodes")

SIZES = Sizes(2, 2, 2)
LONG = ("CT108", "CT109")
"""A third of all the time would go into these two, which are about long names. Without ``GPUTRACE_REPEATS`` they are asked
only of exporters that are declared to break one, and of the correct one."""
COSTLY = ("CT304", "CT305", "CT306", "CT501")
"""A third of what is left of it would go into these. Without ``GPUTRACE_REPEATS`` each is asked only of exporters that
are declared to break some check of its family, and of the correct one."""
REPEATS = int(os.environ.get("GPUTRACE_REPEATS", "0"))

EVERYTHING_JUDGED = (
    "CT100 CT101 CT102 CT103 CT104 CT105 CT106 CT107 CT108 CT109 CT111 CT112 CT113 CT114 CT115 CT116 "
    "CT201 CT202 CT203 CT204 CT205"
)


@dataclass(frozen=True)
class Faulty:
    """An exporter, the checks it must break, what else its subject has, and the checks that can say nothing of it."""

    exporter: Exporter
    broken: str = ""
    subject: dict[str, Any] = field(default_factory=dict)
    no_verdict: str = ""

    def __str__(self) -> str:
        return repr(self.exporter)


def without(*capabilities: str) -> dict[str, Any]:
    return {"unclaimed": dict.fromkeys(capabilities, "it is not what this exporter is about")}


ALL = [
    Faulty(Exporter(), "", {"consumer": pairing.pair_all}),
    # Which configuration.
    Faulty(
        names.SuperBenchsDump(),
        "CT102 CT103 CT104 CT105 CT106 CT107 CT108 CT109 CT111 CT112 CT113 CT115 CT116 CT201 CT202 CT203 CT304 CT305 "
        "CT404 CT405 CT501 CT503 CT505 CT507 CT508",
    ),
    Faulty(names.LastPartOfTheConfiguration(), "CT104 CT109 CT113"),
    Faulty(names.ConfigurationWithoutSuffix(), "CT105 CT113"),
    Faulty(names.CleanedByARegularExpression(), "CT105 CT106 CT107 CT109 CT113"),
    Faulty(names.EscapedAndNoMore(), "CT106"),
    Faulty(names.ColonsKept(), "CT107 CT505"),
    Faulty(names.FolderWithAFinalDot(), "CT107"),
    Faulty(
        names.RawConfigurationAndFolderRank(),
        "CT102 CT104 CT105 CT106 CT107 CT108 CT109 CT111 CT113 CT115 CT116 CT201 CT202 CT203 CT505",
    ),
    Faulty(names.CutByCharactersWithADigest(), "CT109"),
    Faulty(names.CutByBytesWithoutADigest(), "CT108 CT109 CT113"),
    Faulty(names.OneByteTooMany(), "CT108"),
    Faulty(names.LongerTemporaryName(), "CT108"),
    # Which worker.
    Faulty(names.LocalRankOfAnyLauncher(), "CT102 CT111 CT113 CT115 CT116 CT201 CT202 CT203 CT205"),
    Faulty(names.NodeAndLocalRank(), "CT113 CT116 CT205"),
    Faulty(names.FirstVariableWins(), "CT113 CT205"),
    Faulty(names.RankVariableOnly(), "CT113 CT202 CT203 CT204 CT205"),
    # What is unique at the moment.
    Faulty(names.HostProcessAndMillisecond(), "CT110 CT111"),
    # Which round, which run.
    Faulty(names.SecondRoundReplaces(), "CT112 CT113"),
    Faulty(names.SecondRoundWritesNothing(), "CT112"),
    Faulty(Replacing(), "CT113"),
    Faulty(names.FirstRunStays(), "CT113 CT502"),
    Faulty(
        names.CleansTheFolder(),
        "CT101 CT102 CT103 CT104 CT105 CT106 CT107 CT108 CT109 CT110 CT111 CT112 CT113 CT114 CT116 CT201 CT202 CT203 CT204 "
        "CT205 CT501 CT502 CT505",
    ),
    Faulty(names.CleansUpAfterOthers(), "CT114"),
    # Several at once.
    Faulty(names.LooksThenWrites(), "CT115"),
    Faulty(names.SharedTemporaryName(), "CT115 CT307"),
    Faulty(names.FirstFreeNumber(), "CT110"),
    Faulty(
        names.AppendsGzipMembers(),
        "CT103 CT104 CT105 CT106 CT107 CT108 CT109 CT111 CT112 CT113 CT115 CT406 CT501 CT502 CT505",
    ),
    Faulty(names.AppendsDocuments(), "CT112 CT113 CT501 CT502"),
    # The legacy file.
    Faulty(legacy.NoLegacyFile(), "CT301 CT302 CT303 CT306 CT307"),
    Faulty(legacy.NoLegacyFile(), "CT301 CT307", without("torch_profiler")),
    Faulty(legacy.LegacyFileRenamed(), "CT301 CT302 CT303 CT306 CT307"),
    Faulty(legacy.LegacyFileByGlobalRank(), "CT102 CT111 CT115 CT116 CT201 CT202 CT203"),
    Faulty(legacy.LegacyFileOfTheFirst(), "CT303"),
    Faulty(legacy.LegacyFileUnsorted(), "CT302 CT303 CT306"),
    Faulty(legacy.LegacyFileCleaned(), "CT302"),
    Faulty(legacy.LegacyTimesRounded(), "CT302 CT303 CT306 CT601 CT602", {"consumer": pairing.pair_all}),
    Faulty(legacy.LegacyFileEmptiedThenAppendedTo(), "CT307 CT501"),
    Faulty(legacy.CopyOfTheLegacyFile(), "CT115 CT304 CT305 CT404 CT405"),
    Faulty(legacy.QualifiedOutsideTheLayout(), "CT306"),
    # What is in a file.
    Faulty(content.DeviceEventsToo(), "CT401"),
    Faulty(content.RangesTwice(), "CT401"),
    Faulty(
        content.EveryOtherEvent(),
        EVERYTHING_JUDGED + " CT304 CT305 CT401 CT402 CT403 CT404 CT405 CT501 CT502 CT505 CT506",
    ),
    Faulty(content.NoGpuTimes(), "CT402 CT403"),
    Faulty(content.GpuTimesOfHipOnly(), "CT402"),
    Faulty(content.NothingOnHip(), "CT403"),
    Faulty(content.NanTokens(), "CT404"),
    Faulty(content.HandMadeJson(), "CT405"),
    Faulty(content.SurrogateCrash(), "CT405"),
    Faulty(content.SurrogateEscapes(), "CT405"),
    Faulty(content.KinetosFile(), "CT113 CT503 CT504 CT506 CT507", without("legacy")),
    # When something goes wrong.
    Faulty(
        failing.WritesAtExit(),
        EVERYTHING_JUDGED + " CT401 CT402 CT403 CT404 CT405 CT504 CT505 CT506 CT507 CT508",
        without("legacy"),
        no_verdict="CT110 CT406 CT501 CT502 CT503",  # without any file nothing can collide, be cut, or fill a disk
    ),
    Faulty(failing.WritesInPlace(), "CT501 CT503"),
    Faulty(failing.TemporaryFilesLikeTraces(), "CT501"),
    Faulty(failing.StumblesOverItsLeftover(), "CT502"),
    Faulty(failing.ErrorsLogged(), "CT503 CT504"),
    Faulty(failing.DiskFullOverlooked(), "CT501 CT503"),
    Faulty(failing.NoPermissionIsNoError(), "CT504"),
    Faulty(failing.NoFolderIsNoError(), "CT506"),
    Faulty(failing.EmptyTraceWritten(), "CT507"),
    Faulty(failing.StolenSessionPassedOver(), "CT508"),
    # Who pairs the files.
    Faulty(names.TimeInTheName(), "CT110 CT603", {"consumer": pairing.pair_all}),
    Faulty(pairing.InAFolderBelow(), "CT603", {"consumer": pairing.pair_all}),
    Faulty(pairing.LikeALegacyFile(), "CT602", {"consumer": pairing.count_legacy_files}),
    Faulty(pairing.JustLikeALegacyFile(), "CT604", {"consumer": pairing.list_what_is_missing}),
]

MORE = [
    Faulty(
        names.ConfigurationForgotten(),
        "CT103 CT104 CT105 CT106 CT107 CT108 CT109 CT110 CT113 CT115 CT505",
    ),
    Faulty(names.DigestOfTheLowerCase(), "CT106 CT113"),
    Faulty(names.CutByCharacters(), "CT108 CT109 CT113"),
    Faulty(
        names.FirstRankOnly(),
        "CT101 CT102 CT111 CT113 CT114 CT115 CT116 CT201 CT202 CT203 CT204 CT501 CT502",
    ),
    Faulty(names.SlurmUnknown(), "CT113 CT202 CT205"),
    Faulty(names.MpiUnknown(), "CT113 CT203 CT205"),
    Faulty(names.ProcRankUnknown(), "CT113 CT204 CT205"),
    Faulty(names.HostAndLocalRank(), "CT111 CT113"),
    Faulty(names.ProcessInTheName(), "CT102 CT110 CT111 CT113 CT115 CT116 CT201 CT202 CT203"),
    Faulty(names.RemovesItsOwnEarlierFiles(), "CT113"),
    Faulty(legacy.LegacyFileAppendedTo(), "CT303 CT307 CT406 CT501"),
    Faulty(legacy.AnyFolderCalledRank(), "CT306"),
    Faulty(content.EachNameOnce(), "CT401"),
    Faulty(content.GpuTimesOfCudaOnly(), "CT403"),
    Faulty(content.NumbersRefused(), "CT302 CT404"),
    Faulty(failing.NothingIsRefused(), "CT507 CT508"),
]
"""Further faults of the same kinds, for a long run by hand: ``GPUTRACE_REPEATS=50``."""


def is_asked(check: str, declared: set[str]) -> bool:
    if REPEATS or not declared:
        return True
    if check in LONG:
        return not declared.isdisjoint(LONG)
    return check not in COSTLY or any(id[:3] == check[:3] for id in declared)


@pytest.mark.parametrize("faulty", [*ALL, *MORE] if REPEATS else ALL, ids=str)
def test_an_exporter_breaks_the_checks_of_its_fault_and_no_other(faulty: Faulty, tmp_path: Path) -> None:
    declared = set(faulty.broken.split())
    assert declared <= CHECKS.keys()
    subject = Subject(faulty.exporter, **faulty.subject)
    broken: dict[str, str] = {}
    silent: dict[str, str] = {}
    for check in CHECKS.values():
        if not is_asked(check.id, declared) or not_checked(check, subject, SIZES):
            continue
        try:
            verdict = hold(check, subject, tmp_path / check.id, SIZES)
        except ContractError as error:
            silent[check.id] = str(error)
            continue
        if not verdict.ok:
            broken[check.id] = verdict.message
    assert {id: text for id, text in silent.items() if id not in faulty.no_verdict.split()} == {}
    told = "\n\n".join(text for id, text in broken.items() if id not in declared)
    assert broken.keys() == declared, f"{faulty}: {(faulty.exporter.__doc__ or '').strip()}\n{told}"
    assert silent.keys() == {*faulty.no_verdict.split()}


def test_each_check_is_broken_by_an_exporter() -> None:
    assert {id for faulty in ALL for id in faulty.broken.split()} == CHECKS.keys()


RACES = ("CT111", "CT115", "CT304", "CT305", "CT307", "CT501")
RACY = [
    (names.HostProcessAndMillisecond(), "CT111"),
    (names.LooksThenWrites(), "CT115"),
    (names.SharedTemporaryName(), "CT115"),
    (legacy.CopyOfTheLegacyFile(), "CT115"),
    (legacy.CopyOfTheLegacyFile(), "CT304"),
    (legacy.CopyOfTheLegacyFile(), "CT305"),
    (legacy.LegacyFileEmptiedThenAppendedTo(), "CT307"),
    (failing.WritesInPlace(), "CT501"),
]


@pytest.mark.parametrize(
    ("exporter", "check", "ok"),
    [*((Exporter(), check, True) for check in RACES), *((exporter, check, False) for exporter, check in RACY)],
    ids=repr,
)
def test_verdicts_do_not_change(exporter: Exporter, check: str, ok: bool, tmp_path: Path) -> None:
    """By hand, more often: ``GPUTRACE_REPEATS=50 pytest -k verdicts tests/e2e/test_faulty_exporters.py``."""
    repeats = REPEATS or 5
    verdicts = [hold(CHECKS[check], Subject(exporter), tmp_path / str(turn), SIZES).ok for turn in range(repeats)]
    assert verdicts == [ok] * repeats
