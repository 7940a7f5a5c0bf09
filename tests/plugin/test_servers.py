"""``gputrace_server`` and ``gputrace_engine``: profiles of an engine in a test, and what ends with it."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.plugin.engines import EngineFactory
    from pytest_gputrace.plugin.servers import ServerFactory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a fake engine needs Linux")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: a real session records with it")
def test_a_profile_of_a_fake_engine(
    gputrace_engine: EngineFactory, gputrace_server: ServerFactory, gputrace_dir: Path
) -> None:
    engine = gputrace_engine(dp=1, tp=2, prepare=())
    assert gputrace_dir in engine.folder.parents
    server = gputrace_server(engine)
    assert server.client.kind == "gputrace"
    with server.window(activities=["CPU"]):
        engine.generate(requests=1, tokens=2)
    collection = server.collect(2)
    assert [each.verdict for each in collection.ranks] == ["ok", "ok"]
    assert sorted(each.rank for each in collection.ranks) == sorted(engine.tags)


def test_an_engine_tells_its_kind(gputrace_engine: EngineFactory, gputrace_server: ServerFactory) -> None:
    engine = gputrace_engine(tp=1, kind="sglang", prepare=())
    server = gputrace_server(engine)
    assert (server.client.kind, server.folder) == ("sglang", engine.folder)
    with server.window(activities=["CPU"]):
        engine.generate(requests=1, tokens=1)
    assert len(server.collect(1).files) == 1


def test_two_engines_have_a_folder_each(gputrace_engine: EngineFactory) -> None:
    first, second = gputrace_engine(tp=1, prepare=()), gputrace_engine(tp=1, prepare=())
    assert first.folder != second.folder
    assert first.url != second.url


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"root": "x"}, "gputrace_engine: root is chosen by the fixture"),
        ({"fault": []}, "there is no option 'fault'; did you mean 'faults'? The options are dp, tp, "),
        ({"tp": 0}, "gputrace_engine: FakeEngine: tp"),
    ],
)
def test_gputrace_engine_used_wrongly(gputrace_engine: EngineFactory, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pytest.UsageError) as caught:
        gputrace_engine(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        (5, {}, "gputrace_server: expected a URL or a FakeEngine, got int: 5"),
        ("http://127.0.0.1:1", {"kind": "vlm"}, "gputrace_server: kind='vlm' is not one of "),
        (
            "http://127.0.0.1:1",
            {"kind": "vllm"},
            "gputrace_server: an engine of kind vllm cannot be told where to write",
        ),
        ("ftp://127.0.0.1:1", {}, "gputrace_server: "),
    ],
)
def test_gputrace_server_used_wrongly(
    gputrace_server: ServerFactory, server: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(pytest.UsageError) as caught:
        gputrace_server(server, **options)
    assert message in str(caught.value)


def test_a_server_by_its_url_writes_to_the_folder_of_the_test(
    gputrace_server: ServerFactory, gputrace_dir: Path
) -> None:
    assert gputrace_server("http://127.0.0.1:1", kind="sglang").folder == gputrace_dir


ENGINE = """
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pytest_gputrace.fakes import FakeTrace

@pytest.fixture(scope="module")
def engine():
    asked = Path(__file__).with_name("asked")
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with asked.open("a") as file:
                print(self.path, file=file)
            if self.path == "/stop_profile":
                FakeTrace(rank=0, world_size=2).write(folder / "x-TP-0.trace.json")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        def log_message(self, *_):
            pass
    folder = Path(__file__).with_name("profiles")
    folder.mkdir()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()
"""


def test_a_rank_that_is_missing_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        ENGINE
        + """
def test_it(gputrace_server, engine):
    url, folder = engine
    server = gputrace_server(url, kind="vllm", folder=folder)
    with server.window():
        pass
    assert not server.collect(2, timeout_s=0.1, check=False).ok
    server.collect(2, timeout_s=0.1)
"""
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: collect: not every rank is ok", "*missing*", "*1 of 2 ranks: *"])
    result.stdout.no_fnmatch_line("*servers.py*")


def test_what_still_runs_at_the_end_of_a_test_is_stopped(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        ENGINE
        + """
def test_left_running(gputrace_server, engine):
    url, folder = engine
    gputrace_server(url, kind="vllm", folder=folder).start()

def test_next(engine):
    assert Path(__file__).with_name("asked").read_text().split() == ["/start_profile", "/stop_profile"]
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)
