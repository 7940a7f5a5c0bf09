"""Several traces as text and as JSON."""

from __future__ import annotations

import json

from pytest_gputrace.overview.many import Glance, compare
from pytest_gputrace.report.overviews import data, lines


def glance(rank: int | None, step_us: float = 100.0, **changes: object) -> Glance:
    figures = {
        "format": "kineto", "world_size": 4, "device": "AMD Instinct MI300X", "events": 50, "steps": 3, "kernels": 20,
        "gpu_busy_us": 80.0, "gpu_busy_percent": 80.0, "communication_us": 10.0, "exposed_us": 5.0, "span_us": 400.0,
    }  # fmt: skip
    figures = {"path": f"/traces/rank{rank}.json", **figures, **changes}
    return Glance(rank=rank, step_median_us=step_us, **figures)  # type: ignore[arg-type]  # the names are its fields


def test_a_line_a_rank_then_what_stands_out() -> None:
    files = [glance(3), glance(1, 150.0), glance(0), glance(2, kernels=0)]
    assert (
        "\n".join(lines(compare(files)))
        == """\
rank       steps  kernels  GPU busy  collectives    span  file
   0  3 x 100 us       20    80.0 %      10.0 us  400 us  rank0.json
   1  3 x 150 us       20    80.0 %      10.0 us  400 us  rank1.json
   2  3 x 100 us        0    80.0 %      10.0 us  400 us  rank2.json
   3  3 x 100 us       20    80.0 %      10.0 us  400 us  rank3.json

device    AMD Instinct MI300X
total     4 files, 4 of 4 ranks, 200 events, 60 kernels, GPU busy 320 us in all (median 80.0 %)
slowest   rank 1: median step 150 us; the median of all ranks is 100 us
odd       rank 2: kernels 0; the median of all ranks is 20
odd       rank 1: median step 150 us; the median of all ranks is 100 us"""
    )


def test_devices_have_a_column_where_they_differ() -> None:
    text = lines(compare([glance(0), glance(1, device="NVIDIA H100"), glance(2, device=None)]))
    assert text[0].split()[-2:] == ["device", "file"]
    assert "NVIDIA H100" in text[2]
    assert "unknown" in text[3]


def test_a_file_that_cannot_be_read_has_a_line_that_says_why() -> None:
    text = lines(compare([glance(0), Glance("/traces/gone.json", error="No such file or directory", broken=True)]))
    assert text[1].endswith("rank0.json")
    assert "unread    /traces/gone.json: No such file or directory" in text
    assert "broken    1 file; see: gputrace check" in text


def test_files_go_by_their_place_in_the_folder_that_holds_them_all() -> None:
    files = [glance(rank, path=f"/traces/{node}/r.json") for rank, node in enumerate("ab")]
    assert [line.split()[-1] for line in lines(compare(files))[1:3]] == ["a/r.json", "b/r.json"]
    assert lines(compare([files[0], glance(1, path="r.json")]))[1].endswith("/traces/a/r.json")
    assert lines(compare([files[0], files[0]]))[1].endswith("  r.json")


def test_of_many_files_that_cannot_be_read_the_first_are_named() -> None:
    text = lines(compare([Glance(f"/traces/{number}.json", error="gone", broken=True) for number in range(20)]))
    assert sum(line.startswith("unread") for line in text) == 9
    assert "unread    12 files more" in text


def test_names_cannot_reach_the_terminal() -> None:
    bad = glance(None, device="a\x1b[2J")
    files = [bad, glance(0), Glance("/traces/a\n.json", error="\x1b"), glance(1, device="a\x1b[2J")]
    assert "".join(lines(compare(files))).isprintable()
    assert "".join(lines(compare([bad]))).isprintable()


def test_nothing_to_show_says_so() -> None:
    assert lines(compare([])) == ["no traces"]


def test_json_has_everything() -> None:
    found = json.loads(json.dumps(data(compare([glance(0), glance(1, 300.0)])), allow_nan=False))
    assert found["kind"] == "overviews"
    assert found["files"][1]["step_median_us"] == 300
    assert found["slowest"] == {
        "path": "/traces/rank1.json", "rank": 1, "figure": "step_median_us", "value_us": 300, "median_us": 200,
    }  # fmt: skip
