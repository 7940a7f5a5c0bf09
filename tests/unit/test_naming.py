"""Names: injective, portable, bounded, readable, and read back."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_gputrace.errors import NamingError
from pytest_gputrace.model import WorkerId
from pytest_gputrace.naming import (
    DEFAULT_LIMIT,
    encode_field,
    is_capture_name,
    is_legacy_name,
    legacy_name,
    name_limit,
    parse_name,
    qualified_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def worker(node: str = "node0", rank: int = 3) -> WorkerId:
    return WorkerId(node=node, rank=rank, local_rank=0, world_size=rank + 1)


def name(
    model: str = "resnet50",
    configuration: str = "fp16",
    node: str = "node0",
    rank: int = 3,
    attempt: int = 1,
    limit: int = DEFAULT_LIMIT,
) -> str:
    return qualified_name(
        model=model, configuration=configuration, worker=worker(node, rank), attempt=attempt, limit=limit
    )


def folded(text: str) -> set[str]:
    """All that a file system may make of a name: case folded, each normalisation form."""
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    return {form.casefold() for form in forms} | {form.upper().casefold() for form in forms}


def test_a_plain_capture_reads_as_itself() -> None:
    assert name() == "torch-profiler-sb-resnet50__cfg=fp16__node=node0-3.json"
    assert name(attempt=2) == "torch-profiler-sb-resnet50__cfg=fp16__node=node0-3.a2.json"


def test_a_configuration_with_slash_and_colon_stays_readable() -> None:
    result = name(configuration="model-benchmarks:experiment/FP16")
    assert re.fullmatch(
        r"torch-profiler-sb-resnet50__cfg=model-benchmarks-experiment-fp16~[a-z2-7]{16}__node=node0-3\.json", result
    )


def test_the_same_arguments_give_the_same_name_on_every_machine() -> None:
    # A literal: baselines and targets are paired by name, so the encoding is a format and must never drift.
    assert name(configuration="a:b") == "torch-profiler-sb-resnet50__cfg=a-b~m6b2ghvl62gmybta__node=node0-3.json"


def test_the_legacy_name_is_unchanged_whatever_the_model() -> None:
    assert legacy_name("resnet50", 7) == "torch-profiler-sb-resnet50-7.json"
    assert legacy_name("Model:é", 0) == "torch-profiler-sb-Model:é-0.json"


def test_a_legacy_name_is_told_from_a_qualified_one() -> None:
    assert is_legacy_name(legacy_name("resnet50", 7))
    assert not is_legacy_name(name())
    assert not is_legacy_name("torch-profiler-sb-resnet50.json")
    with pytest.raises(NamingError, match="not a qualified trace name"):
        parse_name(legacy_name("resnet50", 7))


@pytest.mark.parametrize(
    "other",
    [str, str.upper, str.title, lambda text: text.replace("=", "\uff1d"), lambda text: text.replace("_", "\uff3f")],
)
def test_a_name_that_a_file_system_may_take_for_a_capture_is_one(other: Callable[[str], str]) -> None:
    assert is_capture_name(other(name()))
    assert not is_capture_name(other(legacy_name("resnet50", 7)))


TWINS = [
    ("FP16", "fp16"),
    ("a:b", "a_b"),
    ("a/b", "a:b"),
    ("a/b", "a-b"),
    ("caf\u00e9", "cafe\u0301"),
    ("\ufb01n", "fin"),
    ("stra\u00dfe", "strasse"),
    ("\u212a", "k"),
    ("\u0130", "i\u0307"),
    ("x", "x "),
    ("x", "x."),
    ("", " "),
    ("con", "CON"),
    ("a\udcff", "a\udcfe"),
    ("~", "~~"),
    ("a~" + "a" * 16, "a"),
]


@pytest.mark.parametrize(("one", "other"), TWINS, ids=[ascii(pair) for pair in TWINS])
@pytest.mark.parametrize("field", ["model", "configuration", "node"])
def test_twins_never_meet(field: str, one: str, other: str) -> None:
    if field == "node":  # WorkerId refuses an empty node label
        one = one or "n"
    plain = {"model": "m", "configuration": "c", "node": "n"}
    first, second = ({**plain, field: text} for text in (one, other))
    first_name = name(first["model"], first["configuration"], first["node"])
    second_name = name(second["model"], second["configuration"], second["node"])
    assert not folded(first_name) & folded(second_name)


SEPARATORS = st.sampled_from(["__cfg=", "__node=", "-", "-0", ".a2", ".json", "~", "=", "__", "/", "\\", "a", "A", "é"])
TEXT = st.one_of(st.text(max_size=40), st.lists(SEPARATORS, max_size=6).map("".join))
NODE = TEXT.filter(bool)
TRIPLES = st.tuples(TEXT, TEXT, NODE, st.integers(0, 10**6), st.integers(1, 10**4))


def variants(text: str) -> list[str]:
    normal = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    return [text, text.upper(), text.lower(), text.casefold(), text.swapcase(), text + " ", text + ".", *normal]


@settings(max_examples=300)
@given(TRIPLES, TRIPLES, st.sampled_from([120, 143, 255]))
def test_two_captures_never_share_a_name(
    one: tuple[str, str, str, int, int], other: tuple[str, str, str, int, int], limit: int
) -> None:
    assume(one != other)
    names = [name(*arguments, limit=limit) for arguments in (one, other)]
    assert not folded(names[0]) & folded(names[1])


@settings(max_examples=200)
@given(TEXT, TEXT, NODE, st.integers(0, 9), st.sampled_from([120, 143, 255]))
def test_folded_and_normalised_twins_never_share_a_name(m: str, c: str, n: str, rank: int, limit: int) -> None:
    triples = {(model, c, n) for model in variants(m)} | {(m, configuration, n) for configuration in variants(c)}
    triples |= {(m, c, node) for node in variants(n) if node}
    names: set[str] = set()
    for model, configuration, node in triples:
        text = name(model, configuration, node, rank, limit=limit)
        assert not folded(text) & names
        names |= folded(text)


@settings(max_examples=200)
@given(TEXT, TEXT, NODE, TEXT)
def test_no_text_moves_from_one_field_into_another(m: str, c: str, n: str, moved: str) -> None:
    assume(moved)
    for before, after in [
        ((m + moved, c, n), (m, moved + c, n)),
        ((m, c + moved, n), (m, c, moved + n)),
        ((m, c, n), (c, m, n)),
        ((m + "__cfg=" + c, moved, n), (m, c + "__cfg=" + moved, n)),
        ((m, c + "__node=" + n, moved), (m, c, n + "__node=" + moved)),
    ]:
        if before != after:
            assert name(*before) != name(*after)


@settings(max_examples=300)
@given(TEXT, TEXT, NODE, st.integers(0, 10**9), st.integers(1, 10**6), st.integers(130, 255))
@example("__cfg=", "__node=x-0", "a-1.a2", 0, 1, 255)
def test_every_name_is_portable_bounded_and_read_back(
    model: str, configuration: str, node: str, rank: int, attempt: int, limit: int
) -> None:
    text = name(model, configuration, node, rank, attempt, limit)
    assert len(text.encode("utf-8")) <= limit
    assert not set(text) & set('<>:"/\\|?*')
    assert text.isascii()
    assert text.isprintable()
    assert text == text.lower()
    assert text[-1] not in ". "
    assert text.split(".", maxsplit=1)[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt1"}
    parsed = parse_name(text)
    assert parsed.model.matches(model)
    assert parsed.configuration.matches(configuration)
    assert parsed.node.matches(node)
    assert (parsed.rank, parsed.attempt) == (rank, attempt)
    assert not is_legacy_name(text)


FIXED = len(name(configuration=""))  # the name around an encoded configuration of 17 bytes: "~" and the digest


@pytest.mark.parametrize("length", [254, 255, 256])
def test_boundary_with_ascii(length: int) -> None:
    configuration = "c" * (length - (FIXED - 17))
    text = name(configuration=configuration)
    if length <= 255:
        assert len(text) == length
        assert f"__cfg={configuration}__node=" in text
    else:
        assert len(text) == 255
        assert re.search(r"__cfg=c{100,}~[a-z2-7]{16}__node=node0-3\.json$", text)


@pytest.mark.parametrize("length", [254, 255, 256])
def test_boundary_with_multibyte(length: int) -> None:
    readable = "c" * (length - FIXED)
    text = name(configuration=readable + "\u6a21")
    assert len(text.encode("utf-8")) == min(length, 255)
    assert text.endswith("__node=node0-3.json")
    assert parse_name(text).configuration.matches(readable + "\u6a21")
    assert name(configuration="\u6a21" * 300) != name(configuration="\u6a21" * 301)


def test_long_names_that_differ_at_their_end_stay_distinct_and_keep_a_readable_head() -> None:
    first, second = name(configuration="x/" * 200 + "a"), name(configuration="x/" * 200 + "b")
    assert first != second
    assert first.startswith("torch-profiler-sb-resnet50__cfg=x-x-x-x-")
    assert len(first) == len(second) == 255


def test_a_long_model_and_a_long_configuration_share_the_room() -> None:
    parsed = parse_name(name(model="m" * 300, configuration="c" * 300))
    assert len(parsed.model.text) > 60
    assert len(parsed.configuration.text) > 60
    short = parse_name(name(model="m" * 300, configuration="fp16"))
    assert short.configuration.text == "fp16"
    assert short.configuration.digest is None


def test_a_long_node_keeps_the_tail_whole() -> None:
    node = "host." * 50
    text = name(node=node, configuration="c" * 300, rank=12345)
    assert len(text) <= 255
    assert re.search(r"__node=host\.host\.[a-z.]*~[a-z2-7]{16}-12345\.json$", text)
    assert parse_name(text).node.matches(node)


def test_a_limit_without_room_says_what_is_needed() -> None:
    with pytest.raises(NamingError, match=r"a name of 60 bytes has no room for the capture of rank 3; the shortest"):
        name(limit=60)
    needed = len("torch-profiler-sb-__cfg=__node=-3.json") + 3 * 17
    assert len(name("M" * 99, "C" * 99, "N" * 99, limit=needed)) == needed
    with pytest.raises(NamingError, match=f"the shortest one needs {needed}; write to"):
        name(limit=needed - 1)


def test_an_attempt_below_one_is_refused() -> None:
    with pytest.raises(NamingError, match="attempt must be 1 or more, not 0"):
        name(attempt=0)


@pytest.mark.parametrize(
    "text",
    [
        "torch-profiler-sb-m__cfg=c__node=n-3.a1.json",
        "torch-profiler-sb-m__cfg=c__node=n-03.json",
        "torch-profiler-sb-M__cfg=c__node=n-3.json",
        "torch-profiler-sb-m__cfg=c__node=n-\u0663.json",
        "torch-profiler-sb-m__cfg=c~short__node=n-3.json",
        "torch-profiler-sb-m__cfg=c__node=n-3.json\n",
        "x.json",
    ],
)
def test_what_is_not_a_name_of_ours_is_refused(text: str) -> None:
    with pytest.raises(NamingError, match="expected torch-profiler-sb-<model>__cfg="):
        parse_name(text)


def test_a_field_prints_as_it_stands_in_the_name() -> None:
    parsed = parse_name(name(configuration="a:b"))
    assert str(parsed.model) == "resnet50"
    assert str(parsed.configuration) == encode_field("a:b")
    assert not parsed.model.matches("resnet51")
    assert not parsed.configuration.matches("a_b")


def test_the_limit_is_asked_of_the_destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_limit(tmp_path) == os.pathconf(tmp_path, "PC_NAME_MAX")
    monkeypatch.setattr(os, "pathconf", lambda _path, _key: 143)  # eCryptfs
    assert name_limit(tmp_path) == 143
    for unknown in (0, -1, 65535):
        monkeypatch.setattr(os, "pathconf", lambda _path, _key, answer=unknown: answer)
        assert name_limit(tmp_path) == DEFAULT_LIMIT


def test_a_destination_that_does_not_say_gets_the_common_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_limit(tmp_path / "missing") == DEFAULT_LIMIT
    monkeypatch.delattr(os, "pathconf")
    assert name_limit(tmp_path) == DEFAULT_LIMIT
