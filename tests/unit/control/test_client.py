"""The client: what reaches an engine and what does not, and what is made of every answer that one may give."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.client import KINDS, ProfileClient
from pytest_gputrace.control.endpoint import Endpoint
from pytest_gputrace.control.server import ControlServer
from pytest_gputrace.control.verdict import RankVerdict
from pytest_gputrace.errors import ControlError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.control.request import ProfileRequest

FOREIGN = [kind for kind in KINDS if kind != "gputrace"]
TOKEN = "open-sesame"
START, STOP = "/start_profile", "/stop_profile"


@dataclass
class Asked:
    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@dataclass
class Engine:
    """A server that answers every request as it is told, and keeps what it was asked."""

    url: str = ""
    status: int = 200
    text: bytes = b"Start profiling.\n"
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    raw: bytes | None = None
    held: threading.Event | None = None

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.asked.append(
            Asked(handler.command, handler.path, body, {k.lower(): v for k, v in handler.headers.items()})
        )
        if self.held is not None:
            self.held.wait(30)
        if self.raw is not None:
            handler.wfile.write(self.raw)
            return
        handler.send_response(self.status)
        for name, value in {"Content-Length": str(len(self.text)), **self.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(self.text)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            engine.answer(self)

        do_GET = do_POST  # noqa: N815  # the name is the base class's

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.block_on_close = True
        server.daemon_threads = False
        engine.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield engine
        if engine.held is not None:
            engine.held.set()
        server.shutdown()
        thread.join()


class Workers:
    """Stands for a coordinator."""

    def __init__(self) -> None:
        self.requests: list[ProfileRequest] = []
        self.answer: Answer | None = None

    def start(self, request: ProfileRequest) -> Answer:
        self.requests.append(request)
        return self.answer or Answer(True, "recording", "records", request.profile_id, request.output_dir)

    def stop(self) -> Answer:
        return self.answer or Answer(True, "stopped", "stopped")

    def status(self) -> Answer:
        return self.answer or Answer(True, "idle", "nothing was asked for")


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def ours(workers: Workers, tmp_path: Path) -> Iterator[ControlServer]:
    with ControlServer(Endpoint(workers, allowed_dir=tmp_path, token=TOKEN)) as server:
        yield server


class TestWhatIsSent:
    @pytest.mark.parametrize("kind", FOREIGN)
    def test_nothing_but_the_two_paths_and_no_field_but_those_set(self, kind: str, engine: Engine) -> None:
        client = ProfileClient(engine.url, kind=kind)
        given: dict[str, Any] = {"num_steps": 3, "activities": ["CPU"]} if client.carries("num_steps") else {}
        client.start(**given)
        assert client.status() is None
        client.stop()
        assert [(each.method, each.path) for each in engine.asked] == [("POST", START), ("POST", STOP)]
        start, stop = engine.asked
        assert (json.loads(start.body) if start.body else {}) == given
        assert stop.body == b""

    @pytest.mark.parametrize("kind", FOREIGN)
    def test_without_fields_the_engine_decides(self, kind: str, engine: Engine) -> None:
        ProfileClient(engine.url, kind=kind).start()
        assert engine.asked[0].body == (b"" if kind == "vllm" else b"{}")

    def test_json_is_called_so_and_an_empty_body_is_called_nothing(self, engine: Engine) -> None:
        client = ProfileClient(engine.url, kind="sglang")
        client.start()
        client.stop()
        start, stop = engine.asked
        assert start.headers["content-type"] == "application/json"
        assert "content-type" not in stop.headers
        assert stop.headers["content-length"] == "0"

    def test_a_field_that_cannot_be_told_is_refused_before_anything_is_sent(self, engine: Engine) -> None:
        with pytest.raises(RequestError, match="serve it with max_iterations in --profiler-config"):
            ProfileClient(engine.url, kind="vllm").start(num_steps=3)
        with pytest.raises(RequestError, match="PROTON excludes GPU"):
            ProfileClient(engine.url, kind="tokenspeed").start(activities=["PROTON", "GPU"])
        assert engine.asked == []

    @pytest.mark.parametrize("suffix", ["", "/", "///"])
    @pytest.mark.parametrize("prefix", ["", "/engine/7"])
    def test_urls_with_or_without_a_scheme_a_slash_and_a_path(self, prefix: str, suffix: str, engine: Engine) -> None:
        for url in (engine.url, engine.url.removeprefix("http://"), engine.url.replace("http", "HTTP")):
            ProfileClient(url + prefix + suffix, kind="vllm").start()
        assert {each.path for each in engine.asked} == {prefix + START}

    def test_the_token_goes_with_every_request(self, engine: Engine) -> None:
        client = ProfileClient(engine.url, kind="sglang", token="\u00f6pen")
        client.start()
        client.stop()
        assert [each.headers["authorization"].encode("latin-1") for each in engine.asked] == [
            "Bearer \u00f6pen".encode()
        ] * 2

    def test_loopback_is_reached_through_no_proxy(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert ProfileClient(engine.url, kind="vllm").start().ok


class TestWhatIsMadeOfAnswers:
    def test_plain_text_is_a_yes_and_is_told(self, engine: Engine) -> None:
        client = ProfileClient(engine.url, kind="sglang")
        answer = client.start(output_dir="/profiles")
        assert answer == Answer(
            True,
            "recording",
            "SGLang accepted the profile (Start profiling.); its files come when it is stopped",
            output_dir="/profiles",
        )
        engine.text = b"Stop profiling. This will take some time.\n"
        answer = client.stop()
        assert (answer.ok, answer.status) == (True, "stopped")
        assert answer.message == (
            "SGLang stopped (Stop profiling. This will take some time.); its files are still to be collected"
        )

    @pytest.mark.parametrize("length", ["", "Content-Length: LENGTH\r\n"])
    def test_a_long_answer_is_taken_in_whole(self, length: str, engine: Engine) -> None:
        said = json.dumps(Answer(True, "stopped", "x" * 500_000).as_json()).encode()
        engine.raw = f"HTTP/1.1 200 OK\r\n{length.replace('LENGTH', str(len(said)))}\r\n".encode() + said
        assert ProfileClient(engine.url).stop().message == "x" * 500_000

    @pytest.mark.parametrize("steps", [{"num_steps": 3}, {"start_step": 3}])
    def test_a_window_of_steps_is_armed(self, steps: dict[str, Any], engine: Engine) -> None:
        assert ProfileClient(engine.url, kind="trtllm").start(**steps).status == "armed"

    def test_only_an_id_that_was_sent_is_told(self, engine: Engine) -> None:
        assert ProfileClient(engine.url, kind="tokenspeed").start(profile_id="run").profile_id == "run"
        assert ProfileClient(engine.url, kind="tokenspeed").start().profile_id is None

    def test_a_stop_after_num_steps_may_come_too_late(self, engine: Engine) -> None:
        client = ProfileClient(engine.url, kind="sglang")
        client.start(num_steps=3)
        engine.status, engine.text = 500, b"Internal Server Error"
        answer = client.stop()
        assert (answer.ok, answer.status) == (True, "stopped")
        assert "SGLang had nothing to stop (Internal Server Error); after num_steps it stops itself" in answer.message
        with pytest.raises(ControlError, match="answered 500: Internal Server Error"):
            client.stop()

    @pytest.mark.parametrize("text", [b'{"success": false, "message": "busy"}', b'{"ok": false}'])
    def test_a_no_under_a_good_status_is_a_no(self, text: bytes, engine: Engine) -> None:
        engine.text = text
        with pytest.raises(ControlError, match=r"/start_profile refused \(\{"):
            ProfileClient(engine.url, kind="sglang").start()

    @pytest.mark.parametrize(
        ("kind", "advice"),
        [
            ("vllm", "--profiler-config"),
            ("sglang", "not of a router"),
            ("trtllm", "pull request 13872"),
            ("tokenspeed", "control server"),
            ("gputrace", "ControlServer"),
        ],
    )
    def test_where_there_is_no_endpoint_it_says_what_the_engine_needs(
        self, kind: str, advice: str, engine: Engine
    ) -> None:
        engine.status, engine.text = 404, b'{"detail":"Not Found"}'
        with pytest.raises(ControlError) as caught:
            ProfileClient(engine.url, kind=kind).start()
        assert str(caught.value).startswith(f'{engine.url}/start_profile answered 404: {{"detail":"Not Found"}}; ')
        assert advice in str(caught.value)

    def test_an_error_is_told_by_its_first_line_printable_and_bounded(self, engine: Engine) -> None:
        engine.status, engine.text = 503, b"\n\x1b[31mred\x07 " + b"x" * 100_000 + b"\nsecond"
        with pytest.raises(ControlError) as caught:
            ProfileClient(engine.url, kind="sglang").start()
        message = str(caught.value)
        assert message.startswith(f"{engine.url}/start_profile answered 503: \\x1b[31mred\\x07 xxx")
        assert message.isprintable()
        assert len(message) < 500

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_token_that_is_said_back_is_not_shown(self, kind: str, engine: Engine) -> None:
        engine.status, engine.text = 401, f"bad token {TOKEN}".encode()
        with pytest.raises(ControlError, match=r"answered 401: bad token \*\*\*; give the token"):
            ProfileClient(engine.url, kind=kind, token=TOKEN).stop()

    @pytest.mark.parametrize("status", [200, 409, 500])
    def test_nor_in_any_text_of_an_answer(self, status: int, engine: Engine) -> None:
        said = {"ok": False, "status": "failed", "message": f"Bearer {TOKEN}", "reasons": [TOKEN], "profile_id": TOKEN}
        said["ranks"] = [{"rank": TOKEN, "verdict": "failed", "message": f"got {TOKEN}"}]
        engine.status, engine.text = status, json.dumps(said).encode()
        answer = ProfileClient(engine.url, token=TOKEN).start()
        assert TOKEN not in repr(answer)
        assert answer.ranks[0].message == "got ***"

    def test_nor_a_part_of_it_where_a_line_is_cut(self, engine: Engine) -> None:
        engine.status, engine.text = 500, b"x" * 295 + TOKEN.encode() + b"y" * 100
        with pytest.raises(ControlError) as caught:
            ProfileClient(engine.url, kind="sglang", token=TOKEN).start()
        assert TOKEN[:3] not in str(caught.value)

    @pytest.mark.parametrize(
        "wrong",
        [{"message": None}, {"profile_id": [1]}, {"profile_id": []}, {"output_dir": False}, {"ranks": {}}, {"reasons": "abc"},
         {"status": "fine"}, {"ok": 1}, {"reasons": [3]},
         {"ranks": [{"rank": "TP0", "verdict": "good"}]}, {"ranks": [{"rank": None, "verdict": "ok"}]}],
    )  # fmt: skip
    def test_an_answer_with_wrong_values_is_told_as_none(self, wrong: dict[str, Any], engine: Engine) -> None:
        said = {"ok": True, "status": "recording", "message": "m", **wrong}
        engine.text = json.dumps(said).encode()
        with pytest.raises(ControlError, match="gave no answer of a gputrace endpoint"):
            ProfileClient(engine.url).start()

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize("kind", ["sglang", "gputrace"])
    def test_a_request_is_not_sent_on(self, kind: str, status: int, engine: Engine) -> None:
        engine.status, engine.headers = status, {"Location": f"{engine.url}/elsewhere"}
        client = ProfileClient(engine.url, kind=kind, token=TOKEN)
        with pytest.raises(ControlError, match=f"answered {status}: it leads to '{engine.url}/elsewhere'"):
            client.start()
        if kind == "gputrace":
            with pytest.raises(ControlError, match="it leads to"):
                client.status()
        assert "/elsewhere" not in {each.path for each in engine.asked}


class TestWhatIsNotHeard:
    def test_nobody_listens(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            client = ProfileClient(f"127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(
                ControlError, match=r"POST http://127\.0\.0\.1:\d+/stop_profile: nobody listens"
            ) as caught:
                client.stop()
            assert not client.may_have_reached(caught.value)

    def test_no_answer_in_time_leaves_a_doubt(self, engine: Engine) -> None:
        engine.held = threading.Event()
        client = ProfileClient(engine.url, kind="vllm", timeout_s=0.2)
        with pytest.raises(
            ControlError, match=r"/start_profile: no answer in 0\.2 s; it may still be at work"
        ) as caught:
            client.start()
        assert client.may_have_reached(caught.value)

    @pytest.mark.parametrize("drop", [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20, b"HTTP/1.1 100 Continue\r\n\r\n" * 20])
    def test_an_answer_that_comes_in_drops_has_the_same_end(self, drop: bytes) -> None:
        ended = threading.Event()

        def drip(server: socket.socket) -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                for at in range(len(drop)):
                    connection.sendall(drop[at : at + 1])
                    if ended.wait(0.05):
                        break

        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=drip, args=(server,))
            thread.start()
            client = ProfileClient(f"127.0.0.1:{server.getsockname()[1]}", kind="vllm", timeout_s=0.3)
            with pytest.raises(ControlError, match=r"no answer in 0\.3 s"):
                client.start()
            assert thread.is_alive(), "it sends on, and is not waited for"
            ended.set()
            thread.join(30)

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"what?\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
            b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300,
        ],
    )
    @pytest.mark.parametrize("kind", ["sglang", "gputrace"])
    def test_an_answer_that_breaks_off_leaves_a_doubt(self, kind: str, raw: bytes, engine: Engine) -> None:
        engine.raw = raw
        client = ProfileClient(engine.url, kind=kind)
        with pytest.raises(ControlError, match=f"{engine.url}/start_profile: no answer that can be read: ") as caught:
            client.start()
        assert client.may_have_reached(caught.value)

    def test_a_refusal_leaves_none(self, engine: Engine) -> None:
        engine.status = 500
        client = ProfileClient(engine.url, kind="sglang")
        with pytest.raises(ControlError) as caught:
            client.start()
        assert not client.may_have_reached(caught.value)

    def test_a_proxy_that_waited_no_longer_leaves_a_doubt(self, engine: Engine) -> None:
        engine.status = 504
        client = ProfileClient(engine.url, kind="sglang")
        with pytest.raises(ControlError, match="answered 504") as caught:
            client.start()
        assert client.may_have_reached(caught.value)

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("", "is no URL"),
            ("http://", "names no host"),
            ("ftp://host", "ftp:// is not spoken"),
            ("file:///etc/passwd", "file:// is not spoken"),
            ("http://host:port", "is no URL"),
            ("http://host:99999", "is no URL"),
            ("http://host/?a=1", "a query or a fragment"),
            ("http://ho st", "a blank or a character"),
            ("http://host/\r\nX: y", "a blank or a character"),
            ("http://[::1", "is no URL"),
        ],
    )
    def test_what_is_no_url_is_told_at_once(self, url: str, why: str) -> None:
        with pytest.raises(ControlError, match=why):
            ProfileClient(url)

    @pytest.mark.parametrize(
        "url",
        [
            "http://me:SECRET/x@host",
            "http://me:SECRET x@host",
            "http://h/?key=SECRET",
            "http://h/#SECRET",
            "ftp://h/?SECRET",
            "http://h/?a=SECRET x",
        ],
    )
    def test_what_stands_behind_a_url_is_not_repeated(self, url: str) -> None:
        with pytest.raises(ControlError) as caught:
            ProfileClient(url)
        assert "SECRET" not in str(caught.value)

    def test_a_password_in_a_url_is_refused_and_not_repeated(self) -> None:
        with pytest.raises(ControlError, match="give the token as token") as caught:
            ProfileClient("http://me:hunter2@host")
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf")])
    def test_every_wait_has_an_end(self, timeout_s: float) -> None:
        with pytest.raises(ControlError, match="timeout_s is"):
            ProfileClient("host", timeout_s=timeout_s)

    def test_an_unknown_kind_is_told_with_those_there_are(self) -> None:
        with pytest.raises(
            ControlError, match="no kind 'VLLM' of engine; give one of sglang, vllm, tokenspeed, trtllm, gputrace"
        ):
            ProfileClient("host", kind="VLLM")

    def test_https_is_spoken_and_what_is_wrong_with_it_told(self, engine: Engine) -> None:
        client = ProfileClient(engine.url.replace("http", "https"), kind="vllm", timeout_s=30)
        with pytest.raises(
            ControlError, match=r"POST https://127\.0\.0\.1:\d+/start_profile: no answer that can be read"
        ):
            client.start()
        assert engine.asked == []


class TestOurs:
    def test_all_fields_reach_the_workers_and_their_answer_comes_back(
        self, ours: ControlServer, workers: Workers, tmp_path: Path
    ) -> None:
        client = ProfileClient(ours.url, token=TOKEN)
        given: dict[str, Any] = {
            "output_dir": str(tmp_path / "run"), "profile_id": "p", "activities": ["PROTON", "VIZTRACER"], "start_step": 2,
            "num_steps": 3, "profile_by_stage": True, "stages": ["DECODE"], "with_stack": True, "record_shapes": True,
            "deadline_s": 9,
        }  # fmt: skip
        assert client.start(**given) == Answer(True, "recording", "records", "p", str(tmp_path / "run"))
        assert workers.requests[0].as_json() == given
        assert client.stop().status == "stopped"
        status = client.status()
        assert status is not None
        assert status.status == "idle"

    def test_verdicts_come_back_from_a_stop_that_failed(self, ours: ControlServer, workers: Workers) -> None:
        ranks = (RankVerdict("TP0", "ok", files=("/p/a",)), RankVerdict("TP1", "missing"))
        workers.answer = Answer(False, "failed", "1 of 2", ranks=ranks)
        assert ProfileClient(ours.url, token=TOKEN).stop() == workers.answer

    def test_a_conflict_is_an_answer(self, ours: ControlServer, workers: Workers) -> None:
        workers.answer = Answer(False, "refused", "a profile runs", reasons=("TP0: a profile runs",))
        assert ProfileClient(ours.url, token=TOKEN).start() == workers.answer

    def test_what_the_endpoint_does_not_take_is_a_request_error(self, ours: ControlServer, workers: Workers) -> None:
        with pytest.raises(RequestError, match="refused: output_dir leads out of"):
            ProfileClient(ours.url, token=TOKEN).start(output_dir="/etc")
        assert workers.requests == []

    def test_another_token_is_told_without_either(self, ours: ControlServer) -> None:
        with pytest.raises(ControlError, match="answered 401") as caught:
            ProfileClient(ours.url, token="guess").stop()
        assert TOKEN not in str(caught.value)
        assert "guess" not in str(caught.value)

    @pytest.mark.parametrize(
        "text", [b"Start profiling.\n", b"{}", b"[]", b'{"ok": true, "x": 1}', b"[" * 100_000, b""]
    )
    def test_an_engine_of_another_kind_is_noticed_and_may_record_now(self, text: bytes, engine: Engine) -> None:
        engine.text = text
        client = ProfileClient(engine.url)
        with pytest.raises(
            ControlError, match=r"no answer of a gputrace endpoint.*is it another kind of engine"
        ) as caught:
            client.start()
        assert client.may_have_reached(caught.value)
        assert len(str(caught.value)) < 600
