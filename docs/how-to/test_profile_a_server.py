from pathlib import Path

import pytest
from my_engine import MyEngine, serve

from pytest_gputrace import check

BATCHES = [("PREFILL", range(100)), *[("DECODE", range(10))] * 5]


def test_my_engine_keeps_its_profile(gputrace_server, tmp_path):
    engine = MyEngine(tmp_path)
    serve(engine, BATCHES)
    server = gputrace_server(engine.control.url, folder=tmp_path)
    with server.window(activities=["VIZTRACER"], profile_by_stage=True, num_steps=3):
        serve(engine, BATCHES)
    names = [Path(path).name.partition("-TP0")[2] for path in server.collect(1).files]
    assert names == ["-DECODE.viztracer.json", "-PREFILL.viztracer.json"]
    engine.close()


def test_every_scheduler_keeps_its_profile(gputrace_engine, gputrace_server):
    engine = gputrace_engine(
        dp=2, tp=2
    )  # or yours: gputrace_server("http://127.0.0.1:30000", kind="sglang", folder=...)
    server = gputrace_server(engine)
    with server.window(activities=["VIZTRACER"]):
        engine.generate(requests=4, tokens=8)
    files = server.collect(4).files
    engine.shutdown()  # its schedulers end by SIGKILL, as those of real engines do
    assert len(files) == 4
    assert check(files).ok


def test_a_scheduler_that_dies_is_named(gputrace_engine, gputrace_server):
    engine = gputrace_engine(dp=2, tp=2)
    server = gputrace_server(engine)
    with server.window(activities=["VIZTRACER"]):
        engine.generate(requests=4, tokens=8)
        engine.kill("DP1-TP0")
    with pytest.raises(AssertionError, match=r"DP1-TP0.*dead.*killed by signal 9 \(SIGKILL\)"):
        server.collect(4)
    verdicts = [rank.verdict for rank in server.collect(4, check=False).ranks]
    assert verdicts == ["ok", "ok", "dead", "ok"]
