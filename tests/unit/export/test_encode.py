"""Encoding: the bytes of json.dump, once for both files; null for what is not finite in the qualified file alone."""

from __future__ import annotations

import enum
import json
import math
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_gputrace.export import encode as encode_module
from pytest_gputrace.export.encode import CHUNK_RECORDS, encode
from pytest_gputrace.export.records import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gputrace.export.records import Record


def record(
    cpu_time: Any = 1.5,
    gpu_time: Any = 0.0,
    shapes: Any = (),
    values: Any = (),
    name: Any = "aten::mm",
    start: Any = 10.25,
) -> Record:
    return (cpu_time, gpu_time, shapes, values, name, start)


def both(records: Sequence[Record]) -> tuple[bytes, bytes, int]:
    chunks = list(encode(records))
    assert sum(chunk.records for chunk in chunks) == len(records)
    return (
        b"".join(chunk.legacy for chunk in chunks),
        b"".join(chunk.qualified for chunk in chunks),
        sum(chunk.non_finite for chunk in chunks),
    )


def dumped(records: Sequence[Record]) -> bytes:
    return json.dumps([dict(zip(KEYS, item, strict=True)) for item in records], sort_keys=True).encode()


def strict(data: bytes) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(data.decode("utf-8"), parse_constant=refuse)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.one_of(FINITE, st.integers(-(2**63), 2**64 - 1), st.floats(0, 1e7).map(lambda us: round(us, 3)))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), FINITE)
VALUES = st.lists(st.one_of(SCALARS, st.lists(SCALARS, max_size=4)), max_size=4)
SHAPES = st.lists(st.lists(st.integers(0, 4096), max_size=4), max_size=4)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.lists(st.tuples(TIMES, TIMES, SHAPES, VALUES, NAMES, TIMES), max_size=30)


@settings(max_examples=300)
@given(RECORDS)
@example([record(cpu_time=number) for number in (1e-5, 9.9e-5, 1e-4, 5e-324, -0.0)])
@example([record(cpu_time=number) for number in (-1e-5, 1.0, 2.5)])
@example([record(cpu_time=number) for number in (1e15, 1e16, 1.2e17, 1.7e308)])
@example([record(cpu_time=number) for number in (-1e16, 1.0)])
@example([record(cpu_time=number) for number in (2**64 - 1, -(2**63), 0, -1, 10**30)])
def test_finite_records_are_the_bytes_of_json_dump_in_both_files(records: list[Record]) -> None:
    legacy, qualified, non_finite = both(records)
    assert legacy == qualified == dumped(records)
    assert non_finite == 0


@pytest.mark.parametrize("count", [0, 1, CHUNK_RECORDS - 1, CHUNK_RECORDS, CHUNK_RECORDS + 1, 3 * CHUNK_RECORDS])
def test_chunks_join_into_one_list(count: int) -> None:
    records = [record(cpu_time=float(index), shapes=[[index]]) for index in range(count)]
    assert both(records)[0] == dumped(records)


def test_a_finite_chunk_is_encoded_once() -> None:
    for chunk in encode([record()] * 3):
        assert chunk.legacy is chunk.qualified


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["cpu_time", "gpu_time", "start", "values"])
def test_a_non_finite_number_is_null_in_the_qualified_file_only(field: str, bad: float) -> None:
    records = [record(), record(**{field: [1, [bad, 2.5]] if field == "values" else bad}), record()]
    legacy, qualified, non_finite = both(records)
    assert legacy == dumped(records)
    assert non_finite == 1
    expected = json.loads(legacy, parse_constant=lambda _token: None)
    assert strict(qualified) == expected
    assert b"null" in qualified


def test_only_the_chunk_that_needs_it_is_encoded_twice() -> None:
    records = [record()] * CHUNK_RECORDS + [record(cpu_time=math.nan)] + [record()] * (2 * CHUNK_RECORDS)
    chunks = list(encode(records))
    assert [chunk.legacy is chunk.qualified for chunk in chunks] == [True, False, True, True, True]
    assert [chunk.non_finite for chunk in chunks] == [0, 1, 0, 0, 0]


def test_every_non_finite_number_is_counted() -> None:
    assert both([record(cpu_time=math.nan, values=[math.inf, [math.nan, 1.0]]), record(start=-math.inf)])[2] == 4


def test_complex_becomes_the_same_text_in_both() -> None:
    legacy, qualified, non_finite = both([record(values=[1 + 2j, [3j]])])
    assert legacy == qualified
    assert strict(qualified)[0]["input_values"] == ["(1+2j)", ["3j"]]
    assert non_finite == 0


class Color(enum.IntEnum):
    RED = 7


class Text(str):
    __slots__ = ()


class Scalar:
    """As numpy's scalars and one-element tensors are."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        return self._value


class Opaque:
    def __str__(self) -> str:
        return "opaque"


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Color.RED, 7),
        (Text("t"), "t"),
        (Scalar(3), 3),
        (Scalar(2.5), 2.5),
        (Scalar(1j), "1j"),
        (Opaque(), "opaque"),
        (Silent(), "<Silent>"),
        (b"bytes", "b'bytes'"),
        ({"k": Opaque()}, {"k": "opaque"}),
        ({(1, 2): 3, "a": 4}, {"(1, 2)": 3, "a": 4}),
        ((1, (2,)), [1, [2]]),
        ("x" * 300, "x" * 300),
        (1 << 20_000, "<an int of 20001 bits>"),  # beyond what Python prints, so json.dump dies of it
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_json_form_does_not_cost_the_capture(value: Any, expected: Any) -> None:
    legacy, qualified, _ = both([record(values=[value])])
    assert strict(qualified)[0]["input_values"] == [expected]
    assert json.loads(legacy)[0]["input_values"] == [expected]


def test_a_long_text_of_an_object_is_shortened() -> None:
    class Long:
        def __str__(self) -> str:
            return "x" * 10_000

    assert strict(both([record(values=[Long()])])[1])[0]["input_values"] == ["x" * 253 + "..."]


def test_a_scalar_that_is_not_finite_counts() -> None:
    legacy, qualified, non_finite = both([record(values=[Scalar(math.nan)], cpu_time=Scalar(math.inf))])
    assert strict(qualified)[0]["input_values"] == [None]
    assert b"NaN" in legacy
    assert b'"cpu_time": Infinity' in legacy
    assert non_finite == 2


def test_a_value_nested_beyond_the_stack_is_cut() -> None:
    assert '"..."' in json.dumps(strict(both([record(values=nested(100_000))])[1]))


def test_a_list_that_holds_itself_is_cut() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert '"..."' in json.dumps(strict(both([record(values=loop)])[1]))


def test_an_integer_beyond_a_double_is_null_in_the_qualified_file() -> None:
    legacy, qualified, non_finite = both([record(values=[10**309, -(10**400), 10**300])])
    assert legacy == dumped([record(values=[10**309, -(10**400), 10**300])])
    assert strict(qualified)[0]["input_values"] == [None, None, 10**300]
    assert non_finite == 2


def test_a_lone_surrogate_is_replaced_in_the_qualified_file_only() -> None:
    records = [record(name="a\udcff"), record(values=["b\ud800"])]
    legacy, qualified, non_finite = both(records)
    assert legacy == dumped(records)
    assert [item["name"] for item in strict(qualified)] == ["a\ufffd", "aten::mm"]
    assert strict(qualified)[1]["input_values"] == ["b\ufffd"]
    assert non_finite == 0


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "\x00\x1f\x7f", "\u2028", "\U0001f600", "caf\u00e9", ""])
def test_hostile_names_are_kept_exactly(name: str) -> None:
    legacy, qualified, _ = both([record(name=name, values=[name])])
    assert legacy == qualified == dumped([record(name=name, values=[name])])
    assert strict(qualified)[0]["name"] == name


def test_a_buffer_is_not_taken_for_a_number_of_the_same_bytes() -> None:
    numpy = pytest.importorskip("numpy")
    for first, second in [(numpy.float64(1.5), numpy.int64(4609434218613702656)), (numpy.float64(0), numpy.int64(0))]:
        values = [record(values=[first]), record(values=[second])]
        assert [item["input_values"] for item in strict(both(values)[1])] == [[float(first)], [int(second)]]
        assert [item["input_values"] for item in json.loads(both(values)[0])] == [[float(first)], [int(second)]]


@pytest.mark.parametrize(
    "value",
    [nested(100), {2: 1, 10: 2}, {True: 1}, {None: 1}, {math.nan: 1}, 1 << 9000, {"b": 1, "a": (2,)}],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("beside", [1.0, math.nan])
def test_the_legacy_file_is_that_of_json_dump_wherever_json_dump_works(value: Any, beside: float) -> None:
    records = [record(values=[value]), record(cpu_time=beside)]
    assert both(records)[0] == dumped(records)
    strict(both(records)[1])


@pytest.mark.parametrize("name", [None, 7, ["list"]])
def test_a_name_that_is_no_text_is_written_as_json_writes_it(name: Any) -> None:
    assert both([record(name=name)])[0] == dumped([record(name=name)])


@pytest.mark.parametrize("time", [None, True, "1.5,2"])
def test_a_time_that_is_no_number_is_written_as_json_writes_it(time: Any) -> None:
    records = [record(cpu_time=time), record()]
    assert both(records)[0] == both(records)[1] == dumped(records)


def test_equal_values_of_different_types_are_not_mixed_up() -> None:
    records = [record(values=[value]) for value in (1, 1.0, True, 0, 0.0, -0.0, False)]
    assert both(records)[0] == dumped(records)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_module, "_CACHE_ENTRIES", 4)
    records = [record(name=f"n{index % 7}", values=[index % 5, "x" * (600 * (index % 2))]) for index in range(50)]
    assert both(records)[0] == dumped(records)


def test_memory_is_bounded_where_no_two_values_are_equal() -> None:
    def distinct() -> Iterator[Record]:
        for number in range(9_000):
            shapes = [[number * 1000 + size for size in range(40)]]
            yield record(shapes=shapes, values=[number + size / 8 for size in range(30)], name=f"{number:0480}")

    tracemalloc.start()
    try:
        for _ in encode(distinct()):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6
