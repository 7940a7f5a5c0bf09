"""Names of the files of a profile: injective, portable, bounded, readable, and read back."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gputrace.control.request import new_profile_id
from pytest_gputrace.errors import NamingError
from pytest_gputrace.naming import DEFAULT_LIMIT, is_capture_name, is_legacy_name, name_limit, parse_name
from pytest_gputrace.windownames import (
    ENDINGS,
    PROFILERS,
    parse_window_name,
    stage_field,
    window_name,
    worker_tag,
)

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = "1790857026000000000-0f3a9c2e"


def name(
    tag: str = "DP0-TP1",
    profile_id: str = PROFILE,
    stage: str | None = None,
    profiler: str = "torch",
    ending: str = ".json.gz",
    attempt: int = 1,
    limit: int = DEFAULT_LIMIT,
) -> str:
    return window_name(profile_id, tag, stage=stage, profiler=profiler, ending=ending, attempt=attempt, limit=limit)


# Texts that look like other parts of a name meet more often than any texts do.
PIECES = st.sampled_from(
    ["a", "A", "0", "-", ".", "~", "=", "_", "rank", "rank1", "node", "node=", "DP0", "TP", "RANK0", "PREFILL", ".a2", "-rank1",
     ".torch", ".json", ".gz", "é", "/", "\0", "\udc80", "con.", "~abcdefghijklmnop"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=5).map("".join) | st.text(st.characters(), max_size=300)
COORDINATES = st.dictionaries(
    st.text(string.ascii_uppercase, min_size=1, max_size=8).filter(lambda word: word != "RANK"),
    st.integers(0, 10**18 - 1) | st.integers(0, 2),
    max_size=4,
)
KNOWN = st.fixed_dictionaries(
    {}, optional={"coordinates": COORDINATES, "node": TEXTS, "rank": st.integers(0, 10**18 - 1) | st.integers(0, 2)}
).filter(lambda known: bool(known.get("coordinates")) or "node" in known or "rank" in known)
OTHERS = st.fixed_dictionaries({
    "stage": st.none() | TEXTS,
    "attempt": st.integers(1, 20),
    "profiler": st.sampled_from(PROFILERS),
    "ending": st.sampled_from(ENDINGS),
})  # fmt: skip
WINDOWS = st.tuples(TEXTS, KNOWN, OTHERS)


def named(window: tuple[str, dict[str, Any], dict[str, Any]], limit: int = DEFAULT_LIMIT) -> str:
    profile_id, known, others = window
    return name(worker_tag(**known), profile_id, **others, limit=limit)


def meaning(window: tuple[str, dict[str, Any], dict[str, Any]]) -> tuple[Any, ...]:
    """What a window is; the order of coordinates stands in the name."""
    profile_id, known, others = window
    coordinates = tuple((known.get("coordinates") or {}).items())
    return profile_id, coordinates, known.get("node"), known.get("rank"), sorted(others.items())


@pytest.mark.parametrize(
    ("known", "tag"),
    [
        ({"coordinates": {"DP": 1, "CP": 0, "TP": 2}}, "DP1-CP0-TP2"),
        ({"coordinates": {"DP": 1, "TP": 2}, "node": "n0", "rank": 5}, "DP1-TP2-node=n0-rank5"),
        ({"node": "0", "rank": 3}, "node=0-rank3"),
        ({"coordinates": {}, "rank": 0}, "rank0"),
        ({"node": "gpu-7.cluster"}, "node=gpu-7.cluster"),
    ],
)
def test_a_tag_holds_what_is_known_and_no_more(known: dict[str, Any], tag: str) -> None:
    assert worker_tag(**known) == tag


def test_a_worker_of_whom_nothing_is_known_has_no_tag() -> None:
    with pytest.raises(NamingError, match="nothing tells this worker from others; give its coordinates"):
        worker_tag()


@pytest.mark.parametrize(
    "coordinates", [{"dp": 1}, {"": 1}, {"D1": 1}, {"TENSORPAR": 1}, {"RANK": 1}, {"TP": -1}, {"TP": True}, {"TP": "1"}, {"TP": 10**18}]
)  # fmt: skip
def test_a_coordinate_of_another_form_is_refused(coordinates: dict[str, Any]) -> None:
    with pytest.raises(NamingError, match=r"coordinate|expected a whole number"):
        worker_tag(coordinates=coordinates)


@pytest.mark.parametrize("rank", [-1, True, 1.0, "1"])
def test_a_rank_that_is_none_is_refused(rank: Any) -> None:
    with pytest.raises(NamingError, match="rank is"):
        worker_tag(rank=rank)


def test_a_plain_window_reads_as_itself() -> None:
    assert name() == f"{PROFILE}-DP0-TP1.torch.json.gz"
    whole = name("DP1-TP2-node=n0-rank5", stage="PREFILL", profiler="proton", ending=".chrome_trace", attempt=2)
    assert whole == f"{PROFILE}-DP1-TP2-node=n0-rank5-PREFILL.a2.proton.chrome_trace"


def test_a_new_profile_id_is_plain_text_in_a_name() -> None:
    profile_id = new_profile_id()
    assert str(parse_window_name(name(profile_id=profile_id)).profile) == profile_id


@given(WINDOWS)
@example(("x-rank0", {"rank": 1}, {"stage": None, "attempt": 1, "profiler": "torch", "ending": ".json"}))
@example(("x", {"node": "n-rank5"}, {"stage": "DP1", "attempt": 2, "profiler": "torch", "ending": ".json"}))
@example(("x", {"node": "n.torch.json"}, {"stage": None, "attempt": 1, "profiler": "torch", "ending": ".json.gz"}))
@example(("x", {"node": "n-"}, {"stage": None, "attempt": 1, "profiler": "torch", "ending": ".json"}))
@example(("x", {"node": "n.a2-rank1"}, {"stage": None, "attempt": 1, "profiler": "torch", "ending": ".json"}))
def test_a_name_gives_back_all_that_went_in(window: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    profile_id, known, others = window
    parsed = parse_window_name(named(window))
    assert parsed.profile.matches(profile_id)
    assert parsed.tag == worker_tag(**known)
    assert list(parsed.coordinates.items()) == list(known.get("coordinates", {}).items())
    assert (parsed.node is None) == ("node" not in known)
    assert parsed.node is None or parsed.node.matches(known["node"])
    assert parsed.rank == known.get("rank")
    assert parsed.stage == (None if others["stage"] is None else stage_field(others["stage"]))
    assert (parsed.attempt, parsed.profiler, parsed.ending) == (others["attempt"], others["profiler"], others["ending"])


@given(WINDOWS, WINDOWS)
def test_two_windows_never_have_one_name(
    one: tuple[str, dict[str, Any], dict[str, Any]], two: tuple[str, dict[str, Any], dict[str, Any]]
) -> None:
    assert (named(one) == named(two)) == (meaning(one) == meaning(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"tag": worker_tag(node="n0-rank5")}, {"tag": worker_tag(node="n0", rank=5)}),
        ({"tag": worker_tag(node="n0.a2")}, {"tag": worker_tag(node="n0"), "attempt": 2}),
        ({"profile_id": "x-rank0", "tag": "rank1"}, {"profile_id": "x", "tag": "rank0", "stage": "rank1"}),
        ({"tag": "DP0", "stage": "TP1"}, {"tag": "DP0-TP1"}),
        ({"stage": "prefill"}, {"stage": "PREFILL"}),
        ({"stage": ""}, {"stage": None}),
        ({"stage": "STAGE"}, {"stage": ""}),
        ({"stage": "P" * 65}, {"stage": "P" * 66}),
        ({"profile_id": "Run"}, {"profile_id": "run"}),
        ({"profile_id": ".x"}, {"profile_id": "x"}),
        ({"profile_id": ""}, {"profile_id": "profile"}),
    ],
)
def test_what_looks_alike_has_two_names(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert name(**one).casefold() != name(**two).casefold()


RANKED = KNOWN.filter(lambda known: "rank" in known)


@given(TEXTS, RANKED, OTHERS, RANKED, OTHERS)
def test_where_case_is_folded_the_ranks_of_one_profile_stay_apart(
    profile_id: str,
    known: dict[str, Any],
    others: dict[str, Any],
    its_known: dict[str, Any],
    its_others: dict[str, Any],
) -> None:
    one, two = (profile_id, known, others), (profile_id, its_known, its_others)
    assert (named(one).casefold() == named(two).casefold()) == (meaning(one) == meaning(two))


@given(WINDOWS, st.integers(150, DEFAULT_LIMIT))
def test_a_name_is_portable_and_within_its_limit_or_refused(
    window: tuple[str, dict[str, Any], dict[str, Any]], limit: int
) -> None:
    try:
        made = named(window, limit)
    except NamingError as refused:
        assert f"a name of {limit} bytes has no room" in str(refused)  # noqa: PT017 # most of them have
        return
    assert len(made) <= limit
    assert re.fullmatch(r"[A-Za-z0-9_~][A-Za-z0-9._~=-]*", made)
    assert not re.match(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\.", made)  # no device of Windows
    assert parse_window_name(made).profile.matches(window[0])


@given(TEXTS, st.text(max_size=300), st.none() | TEXTS)
def test_every_text_has_a_name_within_the_common_limit(profile_id: str, node: str, stage: str | None) -> None:
    tag = worker_tag(
        coordinates={"DP": 10**4, "PP": 10**4, "CP": 10**4, "TP": 10**4, "EP": 10**4}, node=node, rank=10**6
    )
    made = name(tag, profile_id, stage=stage, profiler="viztracer", ending=".hatchet_msgpack", attempt=100_000)
    assert parse_window_name(made).tag == tag  # whole: the files of a worker have one tag


def test_a_long_profile_and_node_keep_readable_heads() -> None:
    tag = worker_tag(coordinates={"TP": 1}, node="n" * 500, rank=5)
    made = name(tag, "llama-" * 40, stage="DECODE")
    assert len(made) == DEFAULT_LIMIT
    assert made.startswith("llama-llama-")
    assert "-TP1-node=nnnn" in made
    assert made.endswith("-rank5-DECODE.torch.json.gz")
    short = parse_window_name(name(tag, "llama-" * 40, stage="DECODE", limit=120))
    assert short.node is not None
    assert short.node.matches("n" * 500)


def test_a_limit_without_room_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(NamingError, match="a name of 30 bytes has no room for DP0-TP1; the shortest one needs") as told:
        name(limit=30)
    needed = int(re.findall("needs ([0-9]+)", str(told.value))[0])
    assert len(name(profile_id="p" * 300, limit=needed)) == needed
    assert len(name(limit=name_limit(tmp_path))) <= name_limit(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [{"attempt": 0}, {"profiler": "nsys"}, {"ending": ".gz"}, {"tag": ""}, {"tag": "DP0-DP1"}, {"tag": "tp1"}, {"tag": "rank1-DP0"},
     {"tag": "rank01"}, {"tag": "-rank1"}, {"tag": "DP0-"}, {"tag": "RANK1"}, {"tag": "a/b"}],
)  # fmt: skip
def test_what_no_name_can_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(NamingError):
        name(**wrong)


@pytest.mark.parametrize(
    "other",
    ["", "rank0.torch.json", "x-PREFILL.torch.json", "x-rank0.json", "x-rank00.torch.json", "x-RANK0.torch.json",
     "x-DP0-DP1.torch.json", "x-DP0-rank0-DP1.torch.json", "x-rank0.a1.torch.json", "x-rank0.torch.json.bz2", "X-rank0.torch.json",
     "x-rank0.torch.json\n", ".gputrace-x-rank0.torch.json", "ID-DP1-TP3.trace.json.gz", "x-dp1-rank0-prefill.torch.json",
     "torch-profiler-sb-m__cfg=c__node=n-0.json", "torch-profiler-sb-m-0.json"],
)  # fmt: skip
def test_another_name_is_not_taken_for_one(other: str) -> None:
    with pytest.raises(NamingError, match="is not the name of a window"):
        parse_window_name(other)


@given(WINDOWS)
def test_no_window_has_the_name_of_a_capture(window: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    made = named(window)
    assert not is_capture_name(made)
    assert not is_legacy_name(made)
    with pytest.raises(NamingError):
        parse_name(made)
