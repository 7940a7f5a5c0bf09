"""Events as they are written into a timeline: compiled or by Python alone, held to a simple rewriting of parsed JSON."""

from __future__ import annotations

import itertools
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from pytest_gputrace.timeline.eventids import ID_PHASES
from pytest_gputrace.timeline.plan import Clock, Flows, IdMap, Plan, Where
from pytest_gputrace.timeline.rawtext import raw_text
from pytest_gputrace.timeline.rewriting import Rewriter
from pytest_gputrace.traces import compiled
from pytest_gputrace.traces.vocabulary import ANYWHERE, FLOW_END, lane_of

DELTA_NS = -1_000_000_123_456
NAMES: list[Any] = [None, -1, 0, 7, 2**31, 10**22, "Spans", "7", 'a"b', "rank\t0", "é", "\ud800"]
SPELLED_NAMES = [
    "null", "-1", "0", "-0", "7", "7.0", "0.7e1", "2147483648", "1" + 22 * "0", '"Spans"', r'"\u0053pans"', '"7"',
    r'"a\"b"', r'"a\u0022b"', r'"rank\t0"', '"é"', r'"\u00e9"', r'"\ud800"',
]  # fmt: skip
SPELLED_IDS = [
    "0", "1", "-1", "12345", "9007199254740993", "9223372036854775808", "18446744073709551617", "3.0", "1.5", "null",
    "true", "[1]", '"0x10"', '"0XfF"', '"0xffffffffffffffff"', '"0x11112222333344445"', '"0x"', '"16"', '""',
    r'"a\"b"', r'"\u0030x10"', '"ü"',
]  # fmt: skip
TRACKS = {
    track: Where(10_000_000 + number, number + 1)
    for number, track in enumerate(itertools.product(NAMES, NAMES, range(4)))
}


@pytest.fixture(params=["compiled", "pure"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled" and not compiled.is_available():
        pytest.skip("needs compiled: the rewriting that is built where there is a C compiler")
    monkeypatch.setenv("GPUTRACE_PURE", str(int(request.param == "pure")))
    return str(request.param)


both_ways = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


MOVED, ADDED = Clock(DELTA_NS), IdMap(1000, "3:")


def plan_of(clock: Clock = MOVED, ids: IdMap = ADDED) -> Plan:
    return Plan(clock, ids, TRACKS)


def rewritten(text: str, plan: Plan) -> list[dict[str, Any]]:
    """The events as they come out, numbers exact; what is told about them is held to what they are."""
    written = Rewriter(plan).run(text.encode())
    events: list[dict[str, Any]] = parsed(written.text.decode())
    before = parsed(text)
    assert not any(unit >= 32 and not 0xD800 <= unit < 0xE000 for unit in units(written.text.decode()))
    phases = [event.get("ph") for event in events]
    assert written.events == len(events)
    assert written.metadata == len(before) - len(events)
    assert written.flows == Flows(*map(phases.count, "stf"))
    return events


def units(text: str) -> list[int]:
    """What its escapes of four digits stand for."""
    return [int(found[1], 16) for found in re.finditer(r"\\(?:u([0-9a-fA-F]{4})|.)", text) if found[1]]


def parsed(text: str) -> Any:
    return json.loads(f"[{text}]", parse_float=Fraction)


def expected(text: str, plan: Plan) -> list[dict[str, Any]]:
    events = [event for event in parsed(text) if event.get("ph") != "M"]
    for event in events:
        phase = event.get("ph", "")
        pid, tid = (whole(event.get(key)) for key in ("pid", "tid"))
        event["pid"], event["tid"] = plan.tracks[pid, tid, lane_of(event.get("cat", ""), phase)]
        move(event, plan.clock)
        holders = [(event, "bind_id")] + [(event, "id")] * (phase in tuple(ID_PHASES))
        if isinstance(event.get("id2"), dict):
            holders += [(event["id2"], "global"), (event["id2"], "local")]
        for holder, key in holders:
            if type(old := whole(holder.get(key))) in (int, str):
                holder[key] = plan.ids.of(old, binds=key == "bind_id")
    return events


def move(event: dict[str, Any], clock: Clock) -> None:
    ts_us, dur_us = event.get("ts"), event.get("dur")
    if not isinstance(ts_us, int | Fraction):
        return
    if not clock.drift_ppt:
        event["ts"] = ts_us + Fraction(clock.delta_ns, 1000)
        return
    start_ns = clock.at(int(ts_us * 1000 // 1))
    event["ts"] = Fraction(start_ns, 1000)
    if isinstance(dur_us, int | Fraction):
        event["dur"] = Fraction(clock.at(int((ts_us + dur_us) * 1000 // 1)) - start_ns, 1000)


def whole(value: Any) -> Any:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


EVENT = '{"ph":"X","cat":"cpu_op","name":"n","pid":7,"tid":7,"ts":2000000000.5,"dur":1.250,"args":{"ts":1,"id":[2]}}'


def with_field(key: str, value: str) -> str:
    """`EVENT`, one of its fields spelled so."""
    return re.sub(rf'"{key}":("[^"]*"|[0-9.]+)', lambda _: f'"{key}":{value}', EVENT, count=1)


@pytest.mark.parametrize("value", ["5171577480660.661", "1000000123.456", "2e9", "2000000000", "1.5E+10", "-3.25",
                                   "2908761234.567891234567890123456789", "999999999999999999999.000000001",
                                   "0.000", "-0.0", "3000000000.000000", '"12"', "null", "1e-400"])  # fmt: skip
@pytest.mark.parametrize("clock", [Clock(0), Clock(DELTA_NS), Clock(2**80), Clock(DELTA_NS, -(10**6), 10**18)])
def test_a_time_is_moved_to_the_last_digit(value: str, clock: Clock, way: str) -> None:
    text, plan = with_field("ts", value), plan_of(clock)
    if value == "1e-400":
        text = text.replace("1e-400", "0." + 399 * "0" + "1")
    assert rewritten(text, plan) == expected(text, plan)
    assert not re.search(rb"[0-9][eE]", Rewriter(plan).run(text.encode()).text)


def test_what_is_not_changed_stays_as_it_is_spelled(way: str) -> None:
    text = with_field("dur", "0.10").replace("[2]", "12345678901234567890.12345678901234567890, 1E2, -0.0")
    text = text.replace("12345678901234567890.1", "[12345678901234567890.1").replace("-0.0", "-0.0]")
    assert (
        re.sub(rb'"(pid|tid|ts)":[0-9.]+', b"", Rewriter(plan_of()).run(text.encode()).text)
        == re.sub(r'"(pid|tid|ts)":[0-9.]+', "", text).encode()
    )


@pytest.mark.parametrize("value", SPELLED_NAMES)
def test_a_track_is_found_however_it_is_spelled(value: str, way: str) -> None:
    for key, category in itertools.product(["pid", "tid"], ["cpu_op", "kernel", r"\u006bernel"]):
        text = with_field(key, value).replace("cpu_op", category)
        assert rewritten(text, plan_of()) == expected(text, plan_of())


@pytest.mark.parametrize("fields", ['"pid":7', '"tid":7', '"name":"n"', r'"\u0070id":0,"t\u0069d":"Spans"'])
def test_a_track_is_added_where_it_is_missing(fields: str, way: str) -> None:
    text = f'{{"ph":"i" ,{fields}\n}}'
    assert rewritten(text, plan_of()) == expected(text, plan_of())


@pytest.mark.parametrize("value", SPELLED_IDS)
@pytest.mark.parametrize(
    "ids", [IdMap(1000, "3:"), IdMap(5, 'a"\\é:', np.array([-(2**63), -1, 0, 1, 12345])), IdMap(2**70, "")]
)
def test_ids_get_new_numbers(ids: IdMap, value: str, way: str) -> None:
    more = f'"bind_id":{value},"id":{value},"ph"'
    events = [with_field("ph", f'"{phase}"').replace('"ph"', more) for phase in [*ID_PHASES, "X", "C", "", "st"]]
    text, plan = ",".join(events), plan_of(ids=ids)
    assert rewritten(text, plan) == expected(text, plan)
    text += "," + EVENT.replace('"ph"', f'"id2":{{"local":{value} , "global":{value},"other":{value}}},"id2 ":1,"ph"')
    assert rewritten(text, plan) == expected(text, plan)


def test_an_arrow_that_ends_on_a_gpu_goes_with_what_it_leads_to(way: str) -> None:
    ends = [f'{{"ph":"{phase}","cat":"ac2g","id":1,"pid":0,"tid":7,"ts":1}}' for phase in "stf"]
    plan = plan_of()
    written = Rewriter(plan).run(",".join(ends).encode())
    assert [event["pid"] for event in json.loads(b"[" + written.text + b"]")] == [
        TRACKS[0, 7, lane].pid for lane in (ANYWHERE, ANYWHERE, FLOW_END)
    ]
    assert written.flows == Flows(1, 1, 1)


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_metadata_is_left_out_and_the_others_are_parted_by_lines(kept: int, way: str) -> None:
    metadata = '{"name":"process_name","ph":"M","pid":"unknown","args":{"name":"x"}}'
    texts = [metadata] + [text for _ in range(kept) for text in (EVENT, metadata)]
    written = Rewriter(plan_of()).run((" " + " ,\n".join(texts) + "\n").encode())
    assert written.text.count(b",\n") == max(0, kept - 1)
    assert len(json.loads(b"[" + written.text + b"]")) == written.events == kept
    assert written.metadata == kept + 1
    assert not written.text.startswith(b",")


@pytest.mark.parametrize("text", ["", " \n"])
def test_nothing_is_left_of_nothing(text: str, way: str) -> None:
    assert Rewriter(plan_of()).run(text.encode()) == (b"", 0, 0, Flows())


ESCAPES = [
    (r"\u00e9\u4e2D", "é中"),
    (r"\ud83d\ude00!\uD83D\uDE00", "😀!😀"),
    (r"\\u0041\u0041", r"\\u0041A"),
    (r"\\\u0041", r"\\A"),
    (r"\u005cu0041", r"\\u0041"),
    (r"\u0022\u002f\u007f\u0080", '\\"/\x7f\x80'),
    (r"\u000a\u0000\u001f", r"\n\u0000\u001f"),
    (r"\ud83d\u0041\ude00\ud83d", r"\ud83dA\ude00\ud83d"),
    (r"\ud83d\\ude00", r"\ud83d\\ude00"),
    (r"\ud83d\ud83d\ude00", r"\ud83d😀"),
    (r"\n\/\"\b", r"\n\/\"\b"),
]


@pytest.mark.parametrize(("before", "after"), ESCAPES)
def test_escapes_become_the_characters_they_stand_for(before: str, after: str, way: str) -> None:
    text = with_field("name", f'"{before}"').replace("args", before)
    new = Rewriter(plan_of()).run(text.encode()).text.decode()
    assert f'"name":"{after}"' in new
    assert rewritten(text, plan_of()) == expected(text, plan_of())


@both_ways
@given(st.text(st.characters(codec=None), max_size=20), st.booleans())
def test_raw_text_means_the_same(text: str, is_mixed: bool) -> None:
    spelled = json.dumps(text)
    new = raw_text(spelled.encode()).decode()
    assert json.loads(new) == text
    assert all(unit < 32 or 0xD800 <= unit < 0xE000 for unit in units(new))


@pytest.mark.parametrize("drift_ppt", [1, 50_000_001, -50_000_001])
@pytest.mark.parametrize("about_ns", [0, 2 * 10**12, 10**18 + 1])
@pytest.mark.parametrize("dur_us", ["0", "1.250", "0.0005", "0.9995", "1e2", "null", "10000000.0000000000005"])
def test_a_range_is_stretched_to_the_nanosecond(dur_us: str, drift_ppt: int, about_ns: int, way: str) -> None:
    plan = plan_of(Clock(10**14, drift_ppt, about_ns))
    for ts_us in ("2000000000.5", "2000000000.0005", "2000000000.9994999999999"):
        text = with_field("dur", dur_us).replace("2000000000.5", ts_us)
        assert rewritten(text, plan) == expected(text, plan)


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
TIMES = st.from_regex(r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,12})?", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SPELLED_JSON = st.builds(lambda value, ascii: json.dumps(value, ensure_ascii=ascii), JSON, st.just(True))
FIELDS = {
    "ph": st.sampled_from([f'"{phase}"' for phase in "XXXisftbnMC"] + [r'"\u0073"', r'"\u004d"']),
    "cat": st.sampled_from(['"cpu_op"', '"kernel"', '"ac2g"', r'"k\u0065rnel"', r'"\ud800"', '""']),
    "name": st.builds(json.dumps, st.text()),
    "pid": st.sampled_from(SPELLED_NAMES),
    "tid": st.sampled_from(SPELLED_NAMES),
    "ts": TIMES | NUMBERS | st.sampled_from(["null", '"1"']),
    "dur": TIMES | NUMBERS | st.sampled_from(["null", '"1"']),
    "id": st.sampled_from(SPELLED_IDS),
    "bind_id": st.sampled_from(SPELLED_IDS),
    "args": SPELLED_JSON,
    r"\"\\": SPELLED_JSON,
    r"\ud800": st.just("1"),
}
CLOCKS = st.builds(
    Clock,
    st.integers(0, 10**16) | st.integers(-(10**18), 10**18),
    st.sampled_from([0, 0, 1, -1, 50_000_000, -50_000_000, 10**11]),
    st.integers(0, 10**16) | st.integers(0, 10**18),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Some events, as odd as they may be, in every spelling."""
    events = []
    for _ in range(draw(st.integers(1, 3))):
        usual = draw(st.sets(st.sampled_from(sorted(FIELDS)[:-2]), min_size=1))
        odd = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=1))
        keys = draw(st.permutations(sorted(usual | odd)))
        space = draw(st.sampled_from(["", " ", "\n\t"]))
        members = [f'"{key}"{space}:{space}{draw(FIELDS[key])}' for key in keys]
        events.append("{" + space + f"{space},{space}".join(members) + space + "}")
    return f"{draw(st.sampled_from(['', ' ']))},\n".join(events)


@both_ways
@given(texts(), CLOCKS, st.sampled_from([IdMap(-7, "0:"), IdMap(3, "1:", np.array([0, 16, 12345]))]))
def test_any_events_come_out_as_expected(way: str, text: str, clock: Clock, ids: IdMap) -> None:
    plan = plan_of(clock, ids)
    assert rewritten(text, plan) == expected(text, plan)


@settings(both_ways, max_examples=40)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=2, max_size=6), CLOCKS)
def test_drift_keeps_what_comes_first_and_what_is_within_what(
    way: str, ranges: list[tuple[str, str]], clock: Clock
) -> None:
    text = ",".join(f'{{"ph":"X","ts":{ts},"dur":{dur},"pid":7,"tid":7}}' for ts, dur in ranges)
    moments: list[tuple[Fraction, Fraction]] = []
    for before, after in zip(parsed(text), rewritten(text, plan_of(clock)), strict=True):
        moments.append((before["ts"], after["ts"]))
        moments.append((before["ts"] + before["dur"], after["ts"] + after["dur"]))
        if clock.drift_ppt:
            assert (after["dur"] * 1000) % 1 == 0
    moments.sort(key=lambda moment: (moment[0] * 1000 // 1 if clock.drift_ppt else moment[0], moment[1]))
    new = [moment[1] for moment in moments]
    assert new == sorted(new)


@pytest.mark.parametrize(
    "text",
    [
        EVENT.replace('"pid":7', '"pid":8'),
        EVENT.replace('"pid":7', '"pid":[7]'),
        EVENT[:-1],
        EVENT + "," + EVENT[:-20],
        EVENT.replace("{", "", 1),
        with_field("name", '"\xff').replace("}}", ""),
    ],
)
def test_a_file_that_was_changed_in_between_is_told(text: str, way: str) -> None:
    with pytest.raises(ValueError, match="the file has changed since it was surveyed"):
        Rewriter(plan_of()).run(text.encode("latin-1"))


def test_a_tower_of_lists_is_rewritten(way: str) -> None:
    text = EVENT.replace("[2]", 5000 * "[" + '"]"' + 5000 * "]")
    written = Rewriter(plan_of()).run(text.encode())
    assert written.events == 1
    assert 5000 * b"[" + b'"]"' + 5000 * b"]" in written.text


def test_several_threads_may_use_one_at_once(way: str) -> None:
    chance = random.Random(6)
    names = ["0", "7", '"Spans"', '"7"']
    runs = [
        ",".join(
            with_field("pid", chance.choice(names)).replace('"tid":7', f'"tid":{chance.choice(names)}')
            for _ in range(200)
        ).encode()
        for _ in range(16)
    ]
    rewriter = Rewriter(plan_of())
    one_by_one = [rewriter.run(run) for run in runs]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(rewriter.run, 8 * runs)) == 8 * one_by_one


@pytest.mark.skipif(not compiled.is_available(), reason="needs compiled: what is built where there is a C compiler")
@pytest.mark.parametrize(
    "text",
    [
        EVENT,
        with_field("ph", '"f"').replace('"pid"', '"id":12,"bind_id":"0xff","pid"'),
        with_field("pid", '"Spans"').replace('"tid":7,', ""),
        with_field("name", r'"é \" \n \u00e9"'),
        with_field("ts", "1782725898236567.123"),
        with_field("tid", "null").replace('"ts":2000000000.5,', ""),
    ],
)
def test_ordinary_events_are_left_to_the_compiled_function(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUTRACE_PURE", raising=False)
    monkeypatch.setattr("pytest_gputrace.timeline.rewriting._events", None)
    for clock in (MOVED, Clock(DELTA_NS, 50_000_000, 2 * 10**12)):
        assert Rewriter(plan_of(clock)).run(text.encode()).events == 1
