"""The oracle: which captures are kept, lost, mixed, doubled, strange; and that to see nothing is never good."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_gputrace.checks.captures import Check, complete, distinct, finite, judge, kept, read_folder, valid
from pytest_gputrace.model import Capture, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

A = Capture("node0", 0, "fp16")
B = Capture("node0", 1, "fp16")
C = Capture("node1", 2, "fp16")
STALE = Capture("node0", 0, "fp16", 999)
LEGACY = "torch-profiler-sb-resnet50-0.json"
LEGACY_1 = "torch-profiler-sb-resnet50-1.json"


def marks(capture: Capture, indices: Sequence[int] = (0, 1, 2)) -> list[str]:
    return [capture.mark(index, 3) for index in indices]


def text(*names: str) -> str:
    return json.dumps([{"name": name} for name in names])


def write(folder: Path, **files: str) -> None:
    """Files by name without suffix; ``L0`` and ``L1`` are legacy names."""
    for name, content in files.items():
        path = folder / {"L0": LEGACY, "L1": LEGACY_1}.get(name, f"{name}.json")
        path.write_text(content, encoding="utf-8")


def codes(check: Check) -> list[str]:
    return [finding.code for finding in check.findings]


def test_all_kept(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A), "aten::mm"), b=text("aten::mm", *marks(B)), L0=text(*marks(A)))
    verdict = judge(read_folder(tmp_path), [A, B])
    assert verdict.ok
    assert verdict.findings == ()
    assert verdict.kept == (A, B)
    assert verdict.lost == ()
    assert [(check.name, check.looked_at) for check in verdict.checks] == [
        ("valid", 2), ("finite", 2), ("distinct", 2), ("complete", 2),
    ]  # fmt: skip


def test_names_are_not_trusted(tmp_path: Path) -> None:
    swapped = {"torch-profiler-sb-m__cfg=fp16__node=node0-0": A, "torch-profiler-sb-m__cfg=fp16__node=node0-1": B}
    write(tmp_path, **{name: text(*marks(other)) for name, other in zip(swapped, (B, A), strict=True)})
    assert judge(read_folder(tmp_path), [A, B]).kept == (A, B)


@pytest.mark.parametrize("check", [valid, finite, distinct])
def test_nothing_looked_at_is_an_error(tmp_path: Path, check: type[Check]) -> None:
    result = check(read_folder(tmp_path))  # type: ignore[call-arg, arg-type]  # a check function, typed as its result
    [finding] = result.findings
    assert (finding.code, finding.severity, result.looked_at, result.ok) == ("GT100", Severity.ERROR, 0, False)
    assert "not checked, nothing was looked at" in finding.message


def test_nothing_expected_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A)))
    result = complete(read_folder(tmp_path), [], others=True)
    assert codes(result) == ["GT100"]
    assert not result.ok


def test_judge_of_nothing_is_not_ok(tmp_path: Path) -> None:
    assert not judge([]).ok
    verdict = judge([], [A])
    assert not verdict.ok
    assert verdict.lost == (A,)


def test_files_without_marks_are_fine_where_nothing_is_expected(tmp_path: Path) -> None:
    write(tmp_path, a=text("aten::mm"), empty="[]")
    readings = read_folder(tmp_path)
    assert valid(readings).ok
    assert finite(readings).ok
    assert codes(distinct(readings)) == ["GT100"]


def test_valid_and_finite(tmp_path: Path) -> None:
    write(tmp_path, a='[{"name": "x", "t": NaN}]', b='[{"name": "x",}]', c=text("x"))
    readings = read_folder(tmp_path)
    assert sorted(codes(valid(readings))) == ["GT201", "GT204"]
    assert codes(finite(readings)) == ["GT204"]


def test_legacy_files_are_not_judged_beside_others(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A)), L0='[{"name": "x", "t": NaN}', L1=text(*marks(A)))
    assert judge(read_folder(tmp_path), [A]).ok


def one(check: Check) -> Finding:
    [finding] = check.findings
    assert finding.severity is Severity.ERROR
    assert "\n" not in finding.message
    return finding


def test_gt103_no_event_and_no_mark(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A)), empty="[]", plain=text("x", "y"))
    messages = [finding.message for finding in complete(read_folder(tmp_path), [A]).findings]
    assert messages == [
        "empty.json: it has no event, so nothing proves which capture it holds",
        "plain.json: none of its 2 events is a mark, so nothing proves which capture it holds",
    ]
    assert complete(read_folder(tmp_path), [A], others=True).ok


def test_gt104_two_captures_in_one_file(tmp_path: Path) -> None:
    write(tmp_path, mixed=text(*marks(A), *marks(B)))
    readings = read_folder(tmp_path)
    finding = one(distinct(readings))
    assert finding.code == "GT104"
    assert finding.file == str(tmp_path / "mixed.json")
    assert finding.message == (
        "mixed.json holds marks of 2 captures (fp16 on node0 rank 0, fp16 on node0 rank 1); "
        "did two workers write one file?"
    )
    assert codes(complete(readings, [A, B])) == ["GT104", "GT106", "GT106"]
    assert kept(readings) == []


def test_gt104_one_foreign_mark_is_enough(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A), B.mark(0, 3)))
    assert judge(read_folder(tmp_path), [A]).lost == (A,)


def test_gt104_two_halves_do_not_make_one_capture(tmp_path: Path) -> None:
    write(tmp_path, mixed=text(*marks(A, (0, 1)), *marks(B, (2,))))
    readings = read_folder(tmp_path)
    assert judge(readings, [A, B]).lost == (A, B)
    assert codes(distinct(readings)) == ["GT104"]
    assert not readings[0].whole(A)


@pytest.mark.parametrize(
    ("indices", "what"),
    [((0, 1), "2 of 3 marks (missing: 2)"), ((0, 1, 2, 1), "a mark more than once (number 1)")],
)
def test_gt105_half_a_capture_or_a_mark_twice(tmp_path: Path, indices: Sequence[int], what: str) -> None:
    write(tmp_path, half=text(*marks(A, indices)))
    readings = read_folder(tmp_path)
    finding = one(distinct(readings))
    assert (finding.code, finding.node, finding.rank) == ("GT105", "node0", 0)
    assert f"half.json holds {what} of fp16 on node0 rank 0" in finding.message
    assert codes(complete(readings, [A])) == ["GT105", "GT106"]


def test_gt106_says_what_became_of_the_capture(tmp_path: Path) -> None:
    invalid = text(*marks(B))[:-1]
    write(tmp_path, a=text(*marks(A)), b=invalid, L0=text(*marks(C)))
    lost = [Capture("node1", 3, "fp16"), B, C]
    findings = complete(read_folder(tmp_path), [A, *lost]).findings
    assert [(finding.code, finding.node, finding.rank) for finding in findings] == [
        ("GT106", capture.node, capture.rank) for capture in lost
    ]
    gone = "none of its marks is anywhere; it was never written, or another capture took its place"
    assert [finding.message for finding in findings] == [
        f"no file holds fp16 on node1 rank 3: {gone}",
        "no file holds fp16 on node0 rank 1: b.json does not, being broken",
        f"no file holds fp16 on node1 rank 2: only the legacy file {LEGACY} has it, which the next writer replaces",
    ]


def test_a_capture_with_a_bad_number_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A))[:-1] + ', {"name": "x", "t": 1e999}]')
    assert judge(read_folder(tmp_path), [A]).lost == (A,)


def test_gt107_one_capture_in_two_files(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A)), again=text(*marks(A)), L0=text(*marks(A)))
    readings = read_folder(tmp_path)
    finding = one(distinct(readings))
    assert finding.code == "GT107"
    assert finding.message.startswith("fp16 on node0 rank 0 is in 2 files: a.json, again.json; was it exported twice")
    assert judge(readings, [A]).kept == (A,)
    assert not judge(readings, [A]).ok


def test_gt108_a_capture_that_was_not_expected(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A)), stale=text(*marks(STALE)), L0=text(*marks(B)))
    readings = read_folder(tmp_path)
    finding = one(complete(readings, [A]))
    assert finding.code == "GT108"
    assert finding.message == (
        "stale.json holds fp16 on node0 rank 0 round 999, which was not expected; is it a file of an earlier run?"
    )
    assert complete(readings, [A], others=True).ok
    assert judge(readings, [A]).kept == (A,)


def test_an_exporter_of_legacy_files_only_keeps_what_is_left_in_them(tmp_path: Path) -> None:
    write(tmp_path, L0=text(*marks(B)), L1=text(*marks(C)))
    verdict = judge(read_folder(tmp_path), [A, B, C])
    assert verdict.kept == (B, C)
    assert verdict.lost == (A,)
    assert {finding.code for finding in verdict.findings} == {"GT106"}


def test_legacy_files_count_for_nothing_beside_any_other_file(tmp_path: Path) -> None:
    write(tmp_path, L0=text(*marks(B)), other=text("x"))
    assert judge(read_folder(tmp_path), [B]).lost == (B,)


def test_gt107_between_legacy_files_where_there_is_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, L0=text(*marks(B)), L1=text(*marks(B)))
    assert codes(distinct(read_folder(tmp_path))) == ["GT107"]


def test_a_finding_is_told_once(tmp_path: Path) -> None:
    write(tmp_path, a='[{"name": "x", "t": NaN}]', mixed=text(*marks(A), *marks(B)))
    found = [finding.code for finding in judge(read_folder(tmp_path), [A]).findings]
    assert sorted(found) == ["GT104", "GT106", "GT108", "GT204"]


def test_expected_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path, a=text(*marks(A)))
    verdict = judge(read_folder(tmp_path), [A, A, B])
    assert (verdict.kept, verdict.lost) == ((A,), (B,))
    assert verdict.checks[-1].looked_at == 2
