"""What became of a file that a profiler wrote: whole or cut, with work in it or none."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gputrace.control.written import Examined, examine
from pytest_gputrace.fakes import FakeTrace

if TYPE_CHECKING:
    from collections.abc import Callable

TRACES: dict[str, Callable[[], FakeTrace]] = {
    "x.torch.json": lambda: FakeTrace(world_size=2),
    "x.torch.json.gz": FakeTrace,
    "x.viztracer.json": FakeTrace.viztracer,
    "x.proton.chrome_trace": FakeTrace.proton,
    "x.proton.hatchet": FakeTrace.proton_tree,
}


def put(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def trace(*events: dict[str, Any], **root: Any) -> str:
    return json.dumps({"traceEvents": list(events), **root})


def work(document: Any) -> int:
    """How many events of a fake trace tell of work."""
    if isinstance(document, list):
        (root, *_) = document
        return nodes(root) - 1
    frame = ("Iteration Start: PyTorch Profiler", "Record Window End")
    return sum(
        event["ph"] not in "Mstf" and event.get("cat") != "Trace" and event["name"] not in frame
        for event in document["traceEvents"]
    )


def nodes(node: dict[str, Any]) -> int:
    return 1 + sum(map(nodes, node["children"]))


@pytest.mark.parametrize("name", TRACES)
def test_a_whole_trace_is_complete_and_its_work_is_counted(name: str, tmp_path: Path) -> None:
    fake = TRACES[name]()
    events = work(fake.document)
    assert events > 0
    assert examine(fake.write(tmp_path / name)) == Examined(True, events)


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_that_is_cut_anywhere_is_not_complete(name: str, tmp_path: Path) -> None:
    whole = TRACES[name]().write(tmp_path / name).read_bytes()
    end = len(whole.rstrip())
    for length in {2, 20, end // 4, end // 2, end - 30, end - 1}:
        examined = examine(put(tmp_path, name, whole[:length]))
        assert not examined.complete
        assert "(byte " in examined.problem


@pytest.mark.parametrize(
    "name", ["x.json", "x.json.gz", "x.chrome_trace", "x.hatchet", "x.pickle", "x.hatchet_msgpack", "x.other"]
)
def test_an_empty_file_is_not_complete(name: str, tmp_path: Path) -> None:
    assert examine(put(tmp_path, name, b"")) == Examined(False, None, "an empty file, 0 bytes")


@pytest.mark.parametrize(
    "event",
    [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 9},
        {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "x", "ts": 0},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 1},
    ],
    ids=lambda event: event["name"],
)  # fmt: skip
def test_names_frames_and_arrows_are_no_work(event: dict[str, Any], tmp_path: Path) -> None:
    one = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    assert examine(put(tmp_path, "x.json", trace(event))) == Examined(True, 0)
    assert examine(put(tmp_path, "x.json", trace(event, one))) == Examined(True, 1)


def test_a_profile_of_nothing_is_complete_and_holds_nothing(tmp_path: Path) -> None:
    """As Proton writes it."""
    empty = '{"displayTimeUnit":"us","traceEvents":[]}\n'
    assert examine(put(tmp_path, "x.chrome_trace", empty)) == Examined(True, 0)
    root = [{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": []}, {}]
    assert examine(put(tmp_path, "x.hatchet", json.dumps(root))) == Examined(True, 0)


def test_a_full_buffer_of_viztracer_is_told(tmp_path: Path) -> None:
    fake = FakeTrace.viztracer()
    fake.document["viztracer_metadata"]["overflow"] = True
    examined = examine(fake.write(tmp_path / "x.json"))
    assert examined.complete
    assert examined.events
    assert "the oldest events are lost" in examined.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"traceEvents": [{"ph": "X", "ts": nan}]}', "byte 35"),
        ('{"traceEvents": []}\n{"traceEvents": []}', "byte 20"),
        ('{"segments": [], "device_traces": []}', "a memory snapshot of torch"),
        ("[1, 2]", "event"),
        ("<html>", "a web page"),
    ],
)
def test_what_is_broken_to_its_end_is_complete_with_a_problem(text: str, problem: str, tmp_path: Path) -> None:
    examined = examine(put(tmp_path, "x.json", text))
    assert examined.complete
    assert problem in examined.problem


def test_of_several_problems_the_cut_is_told(tmp_path: Path) -> None:
    examined = examine(put(tmp_path, "x.json", '{"traceEvents": [{"ph": "X", "ts": NaN, "ts": 1}, {"ph"'))
    assert not examined.complete
    assert "still open" in examined.problem


def test_what_only_looks_odd_is_no_problem(tmp_path: Path) -> None:
    data = gzip.compress(FakeTrace().text().encode())
    assert examine(put(tmp_path, "x.chrome_trace", data)).problem == ""


def test_a_stream_of_gzip_that_is_damaged_is_not_complete(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(FakeTrace().text().encode()))
    data[-6] ^= 0xFF  # of the checksum
    assert not examine(put(tmp_path, "x.json.gz", bytes(data))).complete
    assert not examine(put(tmp_path, "x.json.gz", bytes(len(data)))).complete


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_complete_when_it_ends_and_cut_at_any_other_place(protocol: int, tmp_path: Path) -> None:
    snapshot = {"segments": [{"address": n, "filename": "a/b.py"} for n in range(5000)], "blob": b"." * 100_000}
    whole = pickle.dumps(snapshot, protocol)
    assert examine(put(tmp_path, "x.memory.pickle", whole)) == Examined(True, None)
    for length in (1, 2, 3, 11, 12, 5000, 70_000, len(whole) - 1):
        assert not examine(put(tmp_path, "x.memory.pickle", whole[:length])).complete


def test_a_text_that_ends_like_a_pickle_is_none(tmp_path: Path) -> None:
    whole = pickle.dumps(["a/b.py"] * 3 + [str(number) for number in range(100)], 4)
    cut = whole[: whole.index(b".py") + 1]
    assert cut.endswith(b".")
    assert not examine(put(tmp_path, "x.pickle", cut)).complete


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "run",)

    assert examine(put(tmp_path, "x.pickle", pickle.dumps(Evil()))).complete
    assert not (tmp_path / "run").exists()


def test_a_packed_tree_is_read_to_its_end(tmp_path: Path) -> None:
    whole = msgspec.msgpack.encode(FakeTrace.proton_tree().document)
    assert examine(put(tmp_path, "x.hatchet_msgpack", whole)) == Examined(True, None)
    for length in (1, len(whole) // 2, len(whole) - 1):
        assert not examine(put(tmp_path, "x.hatchet_msgpack", whole[:length])).complete
    examined = examine(put(tmp_path, "x.hatchet_msgpack", whole + b"\x00"))
    assert examined.complete
    assert "no whole MessagePack" in examined.problem


def test_of_another_file_only_that_it_holds_something(tmp_path: Path) -> None:
    assert examine(put(tmp_path, "x.bin", b"\0")) == Examined(True, None)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        examine(tmp_path / "x.json")


@given(
    ending=st.sampled_from([".json", ".json.gz", ".hatchet", ".pickle", ".hatchet_msgpack"]),
    noise=st.binary(max_size=40),
    data=st.data(),
)
def test_no_content_is_an_error(
    ending: str, noise: bytes, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whole files with something put into them somewhere, and noise alone."""
    name = data.draw(st.sampled_from(sorted(TRACES)))
    whole = TRACES[name]().text().encode()
    at = data.draw(st.integers(0, len(whole)))
    folder = tmp_path_factory.getbasetemp()
    for content in (noise, whole[:at] + noise + whole[at:]):
        examine(put(folder, f"noise{ending}", content))
