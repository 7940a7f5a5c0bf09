"""Whose each file is, what is asked where nothing tells it for sure, and whether all ranks are there."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.checks.check import check
from pytest_gputrace.claims import claim
from pytest_gputrace.fakes import FakeTrace
from pytest_gputrace.fakes.files import BASE_TIME_NS
from pytest_gputrace.model import Severity
from pytest_gputrace.timeline.completeness import complete
from pytest_gputrace.timeline.merge import merge
from pytest_gputrace.timeline.workers import LAST_RANK, Told, Worker, assign, order
from pytest_gputrace.windownames import window_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gputrace.traces.formats import Format

_ASK = "say it: --rank N FILE"
_RIGHT = "was it copied, or is it another worker's? If the file is right:"
_ONE_AT_A_TIME = "merge one recording, or one window of it, at a time"


def told(path: str, format: Format, **known: Any) -> Told:
    facts: dict[str, Any] = {"given": None, "inside": None, "world_size": None, "host": "", **known}
    return Told(Path("/r", path), format, claim=claim(Path("/r", path)), **facts)


def kineto(path: str, inside: int | None = None, world_size: int | None = None, **known: Any) -> Told:
    return told(path, "kineto", inside=inside, world_size=world_size, **known)


def viz(path: str, given: int | None = None) -> Told:
    return told(path, "viztracer", given=given)


def proton(path: str, given: int | None = None) -> Told:
    return told(path, "proton", given=given)


def labels(*files: Told) -> list[str]:
    """Whose each file is; nothing may be in the way, in whatever order the files come."""
    if len(files) < 5:
        for several in itertools.permutations(range(len(files))):
            again = assign([files[at] for at in several])
            assert again.workers == [assign(files).workers[at] for at in several]
    workers, _, reasons = assign(files)
    assert reasons == []
    return [worker.label for worker in workers]


def reasons(*files: Told) -> list[str]:
    return [reason.replace("/r/", "") for reason in assign(files).reasons]


@pytest.mark.parametrize(
    ("file", "label"),
    [
        (kineto("rank3.json"), "rank 3"),
        (kineto("rank3/trace.json"), "rank 3"),
        (kineto("trace.json", 5, 8), "rank 5"),
        (kineto("trace.json", 5), "rank 5"),
        (kineto("rank5.json", 5, 8), "rank 5"),
        (viz("rank5.json", given=3), "rank 3"),  # whoever says it knows it
        (kineto("trace.json", 0, 1), "rank 0"),
        (kineto("trace.json", -1), ""),
        # Each engine of a service is rank 0 of a world of its own.
        (kineto("rank3.json", 0, 1), "rank 3"),
        (kineto("trace.json", 0, 1, given=3), "rank 3"),
        (kineto("benchmarks/gpt/rank3/trace.json", 0, 1), "local rank 3"),
        # A folder of SuperBench tells the local rank.
        (kineto("nodes/a/benchmarks/gpt/rank1/trace.json", 9, 16), "rank 9"),
        (kineto("nodes/a/benchmarks/gpt/rank1/trace.json", 1, 16), "rank 1"),
        (kineto("nodes/a/benchmarks/gpt/rank1/trace.json"), "local rank 1 on a"),
        (kineto("local_rank1.json", host="host-a"), "local rank 1 on host-a"),
        (kineto("trace.json"), ""),
    ],
)
def test_what_one_file_tells(file: Told, label: str) -> None:
    assert labels(file) == [label]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (kineto("trace.json", 5, 8, given=3), "trace.json: --rank says 3, the file itself rank 5; is it the wrong file?"),
        (kineto("rank1.json", 2, 8), f"rank1.json: the file itself says rank 2, its name or folder rank 1; {_RIGHT} --rank 2 FILE"),
        (kineto("rank1/t.json", 2), f"rank1/t.json: the file itself says rank 2, its name or folder rank 1; {_RIGHT} --rank 2 FILE"),
        (
            kineto("node1/rank3/t.json", 2, 8),
            f"node1/rank3/t.json: the file itself says rank 2, its name or folder local rank 3, which is never the greater; {_RIGHT} --rank 2 FILE",
        ),
        (kineto("rank2000001.json"), "rank2000001.json: rank 2000001 cannot be, ranks go to 2,000,000"),
        (kineto("trace.json", 10**30), f"trace.json: rank {10**30} cannot be, ranks go to 2,000,000"),
    ],
)  # fmt: skip
def test_who_disagrees(file: Told, reason: str) -> None:
    assert reasons(file) == [reason]


@pytest.mark.parametrize(
    "file", [kineto("rank1.json", 2, 8, given=2), kineto("node1/rank3/t.json", 2, given=2), kineto("rank2000000.json")]
)
def test_who_agrees(file: Told) -> None:
    assert reasons(file) == []


def test_local_ranks_of_two_nodes_are_two_workers() -> None:
    files: list[Told] = []
    for folder in (f"nodes/{node}/benchmarks/gpt/rank{rank}" for node in "ab" for rank in (0, 1)):
        files += [kineto(f"{folder}/k.json"), viz(f"{folder}/v.json")]
    assigned = assign(files)
    assert assigned.workers == [Worker(node=node, local_rank=rank) for node in "ab" for rank in (0, 1) for _ in "kv"]
    assert assigned.nodes == ["a"] * 4 + ["b"] * 4
    assert assigned.reasons == []


_SB = "nodes/a/benchmarks/gpt/rank0"


@pytest.mark.parametrize(
    "files",
    [
        [kineto(f"{_SB}/k.json", 8, 16), viz(f"{_SB}/v.json")],
        [kineto("benchmarks/gpt/rank0/k.json", 8, 16), viz("benchmarks/gpt/rank0/v.json")],
        # In other folders of the same local rank of the same node.
        [kineto(f"{_SB}/k.json", 8, 16), viz("nodes/a/viz/rank0/v.json")],
        [kineto("local_rank0.kineto.json", 8, 16), viz("local_rank0.viz.json")],
    ],
)
def test_a_local_rank_is_joined_with_the_rank_that_it_is_for_sure(files: list[Told]) -> None:
    assert labels(*files) == ["rank 8", "rank 8"]


@pytest.mark.parametrize(
    "files",
    [
        [kineto("k/trace.json", 8, 16), viz("benchmarks/gpt/rank0/v.json")],  # which local rank is rank 8?
        [kineto("benchmarks/gpt/rank0/k.json", 8, 16), viz("viz/benchmarks/gpt/rank0/v.json")],  # on which node?
        [kineto("trace.json", 8, 16), viz("local_rank0.viz.json")],
        [kineto(f"{_SB}/k.json", 8, 16), kineto("nodes/a/benchmarks/bert/rank0/k.json", 9, 16), viz("nodes/a/rank0/v.json")],
    ],
)  # fmt: skip
def test_a_local_rank_that_may_be_a_rank_of_another_file_is_asked_for(files: list[Told]) -> None:
    path = str(files[-1].path).removeprefix("/r/")
    assert reasons(*files) == [f"{path}: local rank 0, and nothing tells for sure whose that is; {_ASK}"]


@pytest.mark.parametrize(
    ("other", "label"),
    [
        ("nodes/b/benchmarks/gpt/rank0/v.json", "local rank 0 on b"),
        ("nodes/a/benchmarks/gpt/rank1/v.json", "local rank 1 on a"),
    ],
)
def test_a_local_rank_that_is_none_of_the_ranks_is_a_worker_of_its_own(other: str, label: str) -> None:
    assert labels(kineto(f"{_SB}/k.json", 8, 16), viz(other)) == ["rank 8", label]


@pytest.mark.parametrize(
    ("files", "label"),
    [
        ([kineto("a/trace.json"), viz("b/result.json"), proton("c/p.chrome_trace")], ""),
        ([proton("p.part_0.chrome_trace"), proton("p.part_1.chrome_trace.gz"), viz("v.json")], ""),
        ([kineto("a/trace.json", 3), viz("b/result.json")], "rank 3"),  # the only worker
        ([kineto("a/trace.json", 0, 1), viz("b/result.json")], "rank 0"),
        ([viz("a/result.json", given=3), proton("b/p.chrome_trace")], "rank 3"),
        ([kineto("a/trace.json", 3, 8), viz("a/result.json")], "rank 3"),  # in its folder
        ([kineto("a/ID-TP1.trace.json.gz", 3, 8), viz("a/ID-TP1.viztracer.json")], "rank 3"),
        ([kineto("local_rank0.json"), viz("result.json")], "local rank 0"),
    ],
)
def test_files_that_tell_no_rank_join_the_only_worker(files: list[Told], label: str) -> None:
    assert labels(*files) == [label] * len(files)


def test_files_called_alike_are_of_one_worker() -> None:
    """As TokenSpeed calls them, which tells the rank inside Kineto's traces only."""
    files = []
    for rank in range(3):
        tag = f"id.7-DP{rank // 2}-TP{rank % 2}"
        files += [
            kineto(f"{tag}.trace.json.gz", rank, 4), viz(f"{tag}.viztracer.json"),
            *(proton(f"{tag}.proton.part_{part}.chrome_trace") for part in (0, 1)),
        ]  # fmt: skip
    assert labels(*files) == [f"rank {rank}" for rank in range(3) for _ in range(4)]


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        ([kineto("a.json"), kineto("b.json")], ["a.json", "b.json"]),
        ([kineto("a.json"), kineto("b.json"), viz("v.json")], ["a.json", "b.json", "v.json"]),
        ([kineto("a/k.json", 0, 2), kineto("a/l.json", 1, 2), viz("a/v.json")], ["a/v.json"]),
        ([kineto("a/k.json", 0, 2), viz("b/v.json")], ["b/v.json"]),  # of rank 1, may be
        ([kineto("a/k.json", 0), viz("b/v.json"), viz("b/w.json")], ["b/v.json", "b/w.json"]),
        ([kineto("a/k.json", 0, 2), viz("a/v.json"), viz("a/w.json")], ["a/v.json", "a/w.json"]),
        # Names or folders that tell something else.
        ([kineto("a/ID-TP0.trace.json", 0, 2), viz("a/ID-TP1.viztracer.json")], ["a/ID-TP1.viztracer.json"]),
        ([viz("ID-TP0.viztracer.json"), proton("ID-TP1.chrome_trace")], ["ID-TP0.viztracer.json", "ID-TP1.chrome_trace"]),
        ([kineto("node0/k.json"), viz("node1/v.json")], ["node0/k.json", "node1/v.json"]),
        ([kineto("node0/k.json", 0), viz("node1/v.json")], ["node1/v.json"]),
        # No parts of one session.
        ([proton("p.part_0.chrome_trace"), proton("q.part_1.chrome_trace")], ["p.part_0.chrome_trace", "q.part_1.chrome_trace"]),
        ([proton("p.chrome_trace"), proton("p.part_1.chrome_trace")], ["p.chrome_trace", "p.part_1.chrome_trace"]),
    ],
)  # fmt: skip
def test_files_of_which_nothing_tells_the_rank_are_asked_for(files: list[Told], asked: list[str]) -> None:
    assert reasons(*files) == [f"{path}: nothing tells its rank; {_ASK}" for path in asked]


def test_what_is_called_like_a_rank_goes_first() -> None:
    """The report of TP0 is of its rank, though one that is alone lies beside it."""
    files = [kineto("ID-TP0.trace.json", 0, 2), viz("ID-TP0.viztracer.json"), viz("ID-TP1.viztracer.json")]
    assert assign(files).workers[:2] == [Worker(0), Worker(0)]
    assert reasons(*files) == [f"ID-TP1.viztracer.json: nothing tells its rank; {_ASK}"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            [kineto("a.json", 3, 8), kineto("rank3/b.json", 3, 8)],
            f"two Kineto files of rank 3: a.json and rank3/b.json; {_ONE_AT_A_TIME}",
        ),
        (
            [viz("rank3.json"), viz("x.json", given=3), viz("rank3/y.json"), kineto("rank3/k.json")],
            f"3 VizTracer files of rank 3: rank3.json, x.json and rank3/y.json; {_ONE_AT_A_TIME}",
        ),
        (
            [viz("node1/rank0/a.json"), viz("node1/rank0/b.json")],
            f"two VizTracer files of local rank 0 on node1: node1/rank0/a.json and node1/rank0/b.json; {_ONE_AT_A_TIME}",
        ),
        (
            [proton("rank3/p.part_0.chrome_trace"), proton("rank3/p.part_0.chrome_trace.gz")],
            f"two Proton files of rank 3: rank3/p.part_0.chrome_trace and rank3/p.part_0.chrome_trace.gz; {_ONE_AT_A_TIME}",
        ),
        (
            [kineto("a.json", 0, 1), kineto("b.json", 0, 1)],
            f"two Kineto files of rank 0: a.json and b.json; {_ONE_AT_A_TIME}; each is its own world of one? {_ASK}",
        ),
    ],
)
def test_two_recordings_of_one_worker(files: list[Told], expected: str) -> None:
    assert reasons(*files) == [expected]


@pytest.mark.parametrize(
    "files",
    [
        [kineto("rank3/k.json"), viz("rank3/v.json"), proton("rank3/p.chrome_trace")],
        [proton(f"rank3/p.part_{part}.chrome_trace") for part in (0, 1, 10)],
        [kineto("a.json", 0, 1, given=0), kineto("b.json", 0, 1, given=1)],
    ],
)
def test_near_to_two_recordings_of_one_worker(files: list[Told]) -> None:
    assert reasons(*files) == []


def test_a_rank_is_on_one_node() -> None:
    one, other = kineto("node0/k.json", 1, 4), viz("node1/rank1.json")
    assert reasons(one, other) == [
        f"rank 1 is on two nodes: node0/k.json on node0 and node1/rank1.json on node1; {_ASK}"
    ]
    assert reasons(one, viz("node1/rank1.json", given=1)) == []
    assert reasons(one, viz("node0/rank1.json")) == []


@pytest.mark.parametrize(
    ("files", "nodes"),
    [
        ([kineto("rank0.json"), viz("rank1.json")], ["", ""]),
        ([kineto("rank0.json", host="a"), kineto("rank1.json", host="b")], ["a", "b"]),
        ([kineto("a/rank0.json", host="a"), viz("b/rank0.json")], ["a", "a"]),  # one worker is on one node
        ([kineto("rank0.json", host="a"), viz("rank1.json")], ["a", ""]),
        ([viz("node0/rank0.json", given=0), viz("node1/rank0.json", given=1)], ["node0", "node1"]),
        # Pods may have equal names; one folder may hold the files of two hosts.
        (
            [kineto("node0/a.json", 0, host="pod"), kineto("node1/b.json", 1, host="pod")],
            ["node0 (pod)", "node1 (pod)"],
        ),
        ([kineto("host_traces/a.json", 0, host="a"), kineto("host_traces/b.json", 1, host="b"), viz("host_traces/rank2.json")],
         ["host_traces (a)", "host_traces (b)", "host_traces"]),
        ([kineto("node0/a.json", 0, host="pod"), viz("node0/rank1.json")], ["node0 (pod)", "node0 (pod)"]),
        ([kineto("node0/a.json", 0, host="node0")], ["node0"]),
        ([kineto("rank0.json", host="bad\nname\x1b" + "a" * 300)], ["badname" + "a" * 244]),
    ],
)  # fmt: skip
def test_by_which_clock_a_file_was_recorded(files: list[Told], nodes: list[str]) -> None:
    assert assign(files).nodes == nodes


def test_where_only_one_node_is_told_all_local_ranks_are_of_it() -> None:
    one, report = kineto("k/local_rank0.json", host="a"), viz("v/local_rank0.json")
    assert labels(one, report) == ["local rank 0 on a"] * 2
    other = kineto("l/local_rank0.json", host="b")
    assert reasons(one, other, report) == [
        f"v/local_rank0.json: local rank 0, and nothing tells for sure whose that is; {_ASK}"
    ]
    assert labels(one, other, viz("l/local_rank0.viz.json"))[1:] == ["local rank 0 on b"] * 2


def test_a_node_that_only_the_neighbours_tell() -> None:
    files = [kineto(f"{top}/benchmarks/gpt/rank0/k.json", host=top) for top in "xy"]
    files += [viz(f"{top}/benchmarks/gpt/rank0/v.json") for top in "xy"]
    assert labels(*files) == ["local rank 0 on x", "local rank 0 on y"] * 2


def test_without_files_there_is_nobody() -> None:
    assert assign([]) == ([], [], [])


def ranks(*numbers: int, world_size: int | None = None) -> tuple[list[Told], list[Worker]]:
    files = [kineto(f"rank{number}.json", number, world_size) for number in numbers]
    return files, [Worker(number) for number in numbers]


def completed(files: Sequence[Told], workers: Sequence[Worker], expect_ranks: int | None = None) -> list[Any]:
    expected, missing, why, absent = complete(files, workers, expect_ranks)
    return [expected, missing, *(reason.replace("/r/", "") for reason in why), *absent]


@pytest.mark.parametrize(
    ("there", "expect_ranks", "expected"),
    [
        (ranks(0, 1), None, [None, ()]),
        (ranks(0, 1, world_size=1), None, [None, ()]),
        (ranks(0, 1, world_size=2), None, [2, ()]),
        (ranks(0, 1, world_size=2), 2, [2, ()]),
        (ranks(0, 1, world_size=8), 2, [2, ()]),
        (ranks(1, world_size=2), None, [2, (0,), "1 of 2 ranks have no file: 0; --allow-missing merges the others"]),
        (ranks(0, 1, 2, 4, 6, 7, world_size=8), None,
         [8, (3, 5), "2 of 8 ranks have no file: 3, 5; --allow-missing merges the others"]),
        (ranks(0, 1, world_size=2), 4, [4, (2, 3), "2 of 4 ranks have no file: 2, 3; --allow-missing merges the others"]),
        (ranks(0), 12, [12, tuple(range(1, 12)),
         "11 of 12 ranks have no file: 1, 2, 3, 4, 5, 6, 7, 8 and 3 more; --allow-missing merges the others"]),
        (ranks(0, world_size=0), None, [None, ()]),
    ],
)  # fmt: skip
def test_which_ranks_are_missing(
    there: tuple[list[Told], list[Worker]], expect_ranks: int | None, expected: list[Any]
) -> None:
    assert completed(*there, expect_ranks) == expected


def test_ranks_that_cannot_be() -> None:
    assert completed(*ranks(0, 9), expect_ranks=2) == [
        2, (1,), "rank 9 beyond the 2 that are expected",
        "1 of 2 ranks have no file: 1; --allow-missing merges the others",
    ]  # fmt: skip
    assert completed(*ranks(0, 1, 5, world_size=2)) == [2, (), "rank5.json: rank 5 cannot be in a world of 2 ranks"]
    assert completed(*ranks(0, 1, 2, world_size=2)) == [2, (), "rank2.json: rank 2 cannot be in a world of 2 ranks"]
    assert completed(*ranks(0, 1, 2, 3, world_size=4), expect_ranks=2) == [
        2, (), "ranks 2, 3 beyond the 2 that are expected",
    ]  # fmt: skip
    assert completed(*ranks(3, world_size=1)) == [None, ()]


def test_files_of_two_worlds_are_of_two_jobs() -> None:
    files, workers = ranks(0, world_size=2)
    more, others = ranks(1, world_size=4)
    lone, another = ranks(2, world_size=1)
    expected = [None, (), "rank0.json is of a world of 2 ranks, rank1.json of one of 4: are they of two jobs?"]
    assert completed(files + more + lone, workers + others + another) == expected
    assert completed(more + files, others + workers)[2:] == expected[2:]
    assert completed([*files, viz("rank1.json")], [*workers, Worker(1)]) == [2, ()]


@pytest.mark.parametrize(("count", "may_be"), [(0, False), (-1, False), (1, True), (LAST_RANK + 2, False)])
def test_how_many_there_can_be(count: int, may_be: bool) -> None:
    found = complete(*ranks(0), count)
    assert (found.expected, found.reasons) == (
        (count, []) if may_be else (None, [f"you say that there are {count} ranks; there can be 1 to 2,000,001"])
    )


def test_a_world_that_cannot_be_costs_nothing() -> None:
    found = completed(*ranks(0, world_size=10**30))
    assert found == [None, (), f"rank0.json says that there are {10**30} ranks; there can be 1 to 2,000,001"]


def test_of_local_ranks_only_the_number_is_known() -> None:
    workers = [Worker(node=node, local_rank=rank) for node in "ab" for rank in range(7)]
    files = [viz(f"nodes/{each.node}/benchmarks/gpt/rank{each.local_rank}/v.json") for each in workers]
    assert completed(files, workers) == [None, ()]
    assert completed(files, workers, 14) == [14, ()]
    assert completed(files, workers, 16) == [
        16, (),
        "files of 14 of 16 ranks are there, and they do not tell which are missing; --allow-missing merges these",
    ]  # fmt: skip
    assert completed(files, workers, 13) == [
        13, (), "there are files of 14 workers, more than the 13 that are expected",
    ]  # fmt: skip
    assert completed([*files, *ranks(15)[0]], [*workers, Worker(15)], 15)[2:] == [
        "rank 15 beyond the 15 that are expected"
    ]


def test_the_only_worker_is_one_rank() -> None:
    assert completed([viz("v.json")], [Worker()], 1) == [1, ()]
    assert len(completed([viz("v.json")], [Worker()], 2)) == 3
    # Files that are asked for are nobody's.
    assert completed([*ranks(0, 1)[0], viz("v.json")], [*ranks(0, 1)[1], Worker()], 2) == [2, ()]


def test_the_order_is_by_worker_then_the_host_before_the_gpu_then_the_name() -> None:
    canonical: list[tuple[Worker, Format, str]] = [
        (Worker(node="node2", local_rank=3), "kineto", "z.json"),
        (Worker(node="node10", local_rank=0), "kineto", "a.json"),
        (Worker(0), "kineto", "z.json"),
        (Worker(9), "viztracer", "z.json"),
        (Worker(9), "kineto", "a.json"),
        (Worker(9), "proton", "p.part_2.chrome_trace"),
        (Worker(9), "proton", "p.part_10.chrome_trace"),
        (Worker(9), "chrome", "a/9.json"),
        (Worker(9), "chrome", "b/9.json"),
        (Worker(10), "viztracer", "a.json"),
    ]
    keys = [order(worker, format, Path(path)) for worker, format, path in canonical]
    assert keys == sorted(reversed(keys))
    assert len(set(map(str, keys))) == len(keys)


def of_tag(tag: str, inside: int | None = None, world_size: int | None = None, **known: Any) -> list[Told]:
    """The files of one worker's window, one of each profiler; torch's may tell a rank."""

    def name(profiler: str) -> str:
        return window_name("17-ab", tag, stage=None, profiler=profiler, ending=".json")

    return [kineto(name("torch"), inside, world_size, **known), viz(name("viztracer")), proton(name("proton"))]


def test_what_one_worker_wrote_in_a_window_is_together_by_its_tag() -> None:
    tags = ["DP0-TP0", "DP0-TP1", "DP1-TP0", "DP1-TP1"]
    assert labels(*(file for tag in tags for file in of_tag(tag))) == [tag for tag in tags for _ in range(3)]


def test_a_rank_in_the_tag_or_in_one_of_its_files_is_the_workers() -> None:
    assert labels(*of_tag("DP0-TP1-node=n0-rank1")) == ["rank 1"] * 3
    assert labels(*of_tag("rank0"), *of_tag("rank1")) == ["rank 0"] * 3 + ["rank 1"] * 3
    assert labels(*of_tag("DP0-TP1", 1, 2), *of_tag("DP0-TP0", 0, 2)) == ["rank 1"] * 3 + ["rank 0"] * 3
    assert labels(*of_tag("DP0-TP1", given=5)) == ["rank 5"] * 3


def test_engines_that_each_count_from_0_are_told_apart_by_their_coordinates() -> None:
    two_worlds = [of_tag(f"DP{dp}-TP{tp}", tp, 2) for dp in range(2) for tp in range(2)]
    assert set(labels(*itertools.chain(*two_worlds))) == {"DP0-TP0", "DP0-TP1", "DP1-TP0", "DP1-TP1"}
    known = [of_tag(f"DP{dp}-rank{dp}", 0, 2) for dp in range(2)]
    assert set(labels(*itertools.chain(*known))) == {"DP0-rank0", "DP1-rank1"}
    names_too = [of_tag(f"DP{dp}-node=n-rank0") for dp in range(2)]
    assert set(labels(*itertools.chain(*names_too))) == {"DP0-node=n-rank0", "DP1-node=n-rank0"}


def test_without_coordinates_a_rank_that_is_told_twice_is_asked_for() -> None:
    (one, *_), (two, *_) = of_tag("rank0", 0, 2), of_tag("rank1", 0, 2)
    assert "the file itself says rank 0, its name or folder rank 1" in reasons(one, two)[0]
    (one, *_), (two, *_) = of_tag("node=a-rank0"), of_tag("node=b-rank0")
    assert any("rank 0 is on two nodes" in reason for reason in reasons(one, two))


def test_the_node_in_a_tag_is_the_clock_of_its_files() -> None:
    assert assign(of_tag("DP0-TP0-node=n0") + of_tag("DP0-TP1-node=n1")).nodes == ["n0"] * 3 + ["n1"] * 3


@pytest.mark.parametrize(
    "other",
    [{"profile_id": "17-ac", "stage": None}, {"profile_id": "17-ab", "stage": "DECODE"}],
    ids=["profile", "stage"],
)
def test_two_windows_are_not_one_recording(other: dict[str, Any]) -> None:
    """Also where no profiler is in both."""
    one = window_name("17-ab", "rank0", stage=None, profiler="torch", ending=".json")
    two = window_name(**other, tag="rank0", profiler="proton", ending=".json")
    names = " and ".join(sorted([one, two]))
    told = f"files of two recordings: {names}; merge one profile, and one stage of it, at a time"
    assert reasons(kineto(one), proton(two)) == [told]


def test_tags_are_in_order_of_their_numbers() -> None:
    files = [(Worker(tag=f"DP{dp}"), Path(f"DP{dp}.json")) for dp in (10, 9)]
    assert [worker.tag for worker, _ in sorted(files, key=lambda each: order(each[0], "kineto", each[1]))] == [
        "DP9",
        "DP10",
    ]


@pytest.mark.parametrize(
    "tag_of",
    [lambda n: f"DP{n // 2}-TP{n % 2}-node=n0-rank{n}", lambda n: f"DP{n // 2}-TP{n % 2}", lambda n: f"rank{n}"],
)
def test_a_folder_of_windows_is_checked_and_merged(tag_of: Callable[[int], str], tmp_path: Path) -> None:
    tags = [tag_of(number) for number in range(4)]
    for number, tag in enumerate(tags):
        write_window(tmp_path, tag, number)
    found = check([tmp_path], select=["GT5"], expect_ranks=4)
    assert [one for one in found.all_findings if one.severity is Severity.ERROR] == []
    result = merge([tmp_path], tmp_path / ".gputrace-all.json", expect_ranks=4)
    profilers: dict[str, list[str]] = {}
    for each in result.inputs:
        profilers.setdefault(each.worker, []).append(each.format)
    assert profilers == {f"rank {number}": ["viztracer", "kineto", "proton"] for number in range(4)}


def test_windows_of_workers_without_a_rank_are_merged_under_their_tags(tmp_path: Path) -> None:
    tags = [f"DP{dp}-TP{tp}" for dp in range(2) for tp in range(2)]
    for number, tag in enumerate(tags):
        write_window(tmp_path, tag, number, torch=False)
    result = merge([tmp_path], tmp_path / ".gputrace-all.json", expect_ranks=4)
    assert [each.worker for each in result.inputs] == [tag for tag in tags for _ in range(2)]


def write_window(folder: Path, tag: str, number: int, torch: bool = True) -> None:
    def path(profiler: str, ending: str) -> Path:
        return folder / window_name("17-ab", tag, stage=None, profiler=profiler, ending=ending)

    base_ns = BASE_TIME_NS + 1000 * number  # no two processes record the same
    FakeTrace.viztracer(pid=4000 + number, base_time_ns=base_ns).write(path("viztracer", ".json"))
    FakeTrace.proton(base_time_ns=base_ns).write(path("proton", ".chrome_trace"))
    if torch:
        FakeTrace(rank=number, world_size=4).write(path("torch", ".json.gz"))
