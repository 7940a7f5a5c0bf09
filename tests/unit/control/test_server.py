"""The server: reached over real sockets, by nobody from elsewhere without a token, and closed in time."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pytest_gputrace.control import server as server_module
from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.endpoint import MOST_BYTES, Endpoint
from pytest_gputrace.control.server import ControlServer
from pytest_gputrace.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gputrace.control.request import ProfileRequest

TOKEN = "open-sesame"
DEADLINE_S = 30.0


class Workers:
    """Stands for a coordinator, whose stop can be held up."""

    def __init__(self) -> None:
        self.requests: list[ProfileRequest] = []
        self.stopping = threading.Event()
        self.let_go = threading.Event()
        self.let_go.set()

    def start(self, request: ProfileRequest) -> Answer:
        self.requests.append(request)
        return Answer(True, "recording", "records", request.profile_id, request.output_dir)

    def stop(self) -> Answer:
        self.stopping.set()
        assert self.let_go.wait(DEADLINE_S)
        return Answer(True, "stopped", "all files are there")

    def status(self) -> Answer:
        return Answer(True, "idle", "nothing was asked for")


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.let_go.set()


@pytest.fixture
def endpoint(workers: Workers, tmp_path: Path) -> Endpoint:
    return Endpoint(workers, allowed_dir=tmp_path)


@pytest.fixture
def server(endpoint: Endpoint) -> Iterator[ControlServer]:
    with ControlServer(endpoint) as server:
        yield server


def ask(
    server: ControlServer, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, http.client.HTTPResponse]:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE_S)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None, response


def connect(server: ControlServer) -> socket.socket:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE_S)


def exchange(server: ControlServer, sent: bytes) -> bytes:
    """What comes back for these bytes, until the server closes."""
    with connect(server) as connection:
        connection.sendall(sent)
        received = b""
        while data := connection.recv(1 << 16):
            received += data
        return received


class TestServing:
    def test_start_stop_and_status_over_http(self, server: ControlServer, workers: Workers, tmp_path: Path) -> None:
        body = json.dumps({"num_steps": 3, "output_dir": str(tmp_path / "run")}).encode()
        status, answer, response = ask(server, "POST", "/start_profile", body, {"Content-Type": "application/json"})
        assert (status, answer["status"]) == (200, "recording")
        assert response.headers["Content-Type"] == "application/json"
        assert "Python" not in response.headers["Server"]
        assert workers.requests[0].output_dir == str(tmp_path / "run")
        assert ask(server, "POST", "/stop_profile")[1]["status"] == "stopped"
        assert ask(server, "GET", "/profile_status")[1]["status"] == "idle"

    def test_the_url_works_with_any_client(self, server: ControlServer) -> None:
        with urllib.request.urlopen(f"{server.url}/profile_status", timeout=DEADLINE_S) as response:
            assert Answer.from_json(json.load(response)).ok

    def test_requests_are_answered_while_a_stop_waits(self, server: ControlServer, workers: Workers) -> None:
        workers.let_go.clear()
        stop = threading.Thread(target=ask, args=(server, "POST", "/stop_profile"))
        stop.start()
        assert workers.stopping.wait(DEADLINE_S)
        assert ask(server, "GET", "/profile_status")[0] == 200
        workers.let_go.set()
        stop.join(DEADLINE_S)
        assert not stop.is_alive()

    @pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"])
    def test_other_methods_do_nothing(self, method: str, server: ControlServer, workers: Workers) -> None:
        status, _, response = ask(server, method, "/start_profile")
        assert (status, response.headers["Allow"]) == (405, "POST")
        assert workers.requests == []

    def test_headers_reach_the_endpoint(self, workers: Workers, tmp_path: Path) -> None:
        with ControlServer(Endpoint(workers, allowed_dir=tmp_path, token=TOKEN)) as server:
            assert ask(server, "POST", "/stop_profile")[0] == 401
            assert ask(server, "POST", "/stop_profile", headers={"authorization": f"Bearer {TOKEN}"})[0] == 200

    def test_a_foreign_name_is_refused(self, server: ControlServer) -> None:
        assert ask(server, "POST", "/stop_profile", headers={"Host": "evil.example"})[0] == 403

    def test_a_second_host_grants_nothing(self, server: ControlServer) -> None:
        sent = b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n"
        assert exchange(server, sent).startswith(b"HTTP/1.1 403 ")

    def test_nothing_is_said_to_standard_error(self, server: ControlServer, capfd: pytest.CaptureFixture[str]) -> None:
        ask(server, "GET", "/nowhere")
        exchange(server, b"no http\r\n\r\n")
        assert capfd.readouterr() == ("", "")


class TestWhatClientsSend:
    def test_a_huge_body_is_refused_without_being_read(self, server: ControlServer) -> None:
        sent = b"POST /start_profile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n"
        assert exchange(server, sent).startswith(b"HTTP/1.1 413 ")

    def test_who_has_sent_too_much_still_hears_why(self, server: ControlServer) -> None:
        body = b" " * (8 * MOST_BYTES)
        status, answer, _ = ask(server, "POST", "/start_profile", body, {"Content-Type": "application/json"})
        assert (status, answer["status"]) == (413, "refused")

    def test_a_huge_body_is_not_asked_for(self, server: ControlServer) -> None:
        sent = (
            b"POST /start_profile HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 70000\r\n\r\n"
        )
        assert exchange(server, sent).startswith(b"HTTP/1.1 413 ")

    def test_a_body_of_the_right_size_is_asked_for(self, server: ControlServer) -> None:
        sent = b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n "
        received = exchange(server, sent.replace(b"\r\nExpect", b"\r\nContent-Type: application/json\r\nExpect"))
        assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")

    @pytest.mark.parametrize(
        ("head", "status"),
        [
            (b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
            (b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
            (b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nContent-Length: \xb2\r\n\r\n", b"400"),
            (b"BREW /stop_profile HTTP/1.1\r\nHost: localhost\r\n\r\n", b"501"),
            (b"POST /stop_profile HTTP/9.9\r\n\r\n", b"505"),
            (b"POST /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
            (b"POST / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
        ],
    )
    def test_what_cannot_be_read_is_refused_in_json(
        self, head: bytes, status: bytes, server: ControlServer, workers: Workers
    ) -> None:
        received = exchange(server, head)
        assert received.split(b" ", 2)[1] == status
        assert json.loads(received.partition(b"\r\n\r\n")[2])["status"] == "refused"
        assert not workers.stopping.is_set()

    def test_a_request_that_trickles_in_has_one_deadline_for_all_of_it(
        self, endpoint: Endpoint, workers: Workers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_module, "_READ_S", 0.3)
        with ControlServer(endpoint) as server:
            with connect(server) as connection:
                connection.sendall(b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n")
                connection.settimeout(0.05)
                ended = False
                for _ in range(int(DEADLINE_S / 0.05)):
                    try:
                        connection.send(b" ")
                        ended = connection.recv(1) == b""
                    except TimeoutError:
                        continue
                    except ConnectionError:
                        ended = True
                    if ended:
                        break
                assert ended
            assert not workers.stopping.is_set()

    def test_a_client_that_goes_away_leaves_the_server_whole(
        self, server: ControlServer, workers: Workers, capfd: pytest.CaptureFixture[str]
    ) -> None:
        for sent in (b"", b"POST /st", b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"):
            with connect(server) as connection:
                connection.sendall(sent)
        assert ask(server, "GET", "/profile_status")[0] == 200
        assert not workers.stopping.is_set()
        assert capfd.readouterr().err == ""

    def test_what_is_cut_is_not_done(self, server: ControlServer, workers: Workers) -> None:
        for sent in (
            b"POST /stop_profile HTTP/1.1\r\nHost: localhost\r\n",
            b"POST /stop_profile HTTP/1.1\r\nHost: loc",
        ):
            with connect(server) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1 << 16) == b""
        assert not workers.stopping.is_set()

    def test_who_says_nothing_shuts_nobody_out(self, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_module, "_MOST_CONNECTIONS", 2)
        with ControlServer(endpoint) as server, contextlib.ExitStack() as stack:
            silent = [stack.enter_context(connect(server)) for _ in range(2)]
            assert ask(server, "GET", "/profile_status")[0] == 200
            assert silent[0].recv(1) == b""  # the oldest one made room

    def test_a_request_that_waits_is_not_given_up_for_another(
        self, endpoint: Endpoint, workers: Workers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_module, "_MOST_CONNECTIONS", 1)
        workers.let_go.clear()
        with ControlServer(endpoint) as server:
            heard: list[Any] = []
            client = threading.Thread(target=lambda: heard.append(ask(server, "POST", "/stop_profile")))
            client.start()
            assert workers.stopping.wait(DEADLINE_S)
            with connect(server) as other:
                assert other.recv(1) == b""
            workers.let_go.set()
            client.join(DEADLINE_S)
            assert heard[0][0] == 200


class TestBinding:
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
    def test_loopback_needs_no_token(self, host: str, endpoint: Endpoint) -> None:
        if host == "::1":
            needs_ipv6()
        with ControlServer(endpoint, host) as server:
            assert ask(server, "GET", "/profile_status")[0] == 200

    @pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
    def test_other_machines_reach_nothing_without_a_token(self, host: str, endpoint: Endpoint) -> None:
        with pytest.raises(ControlError, match=r"give the endpoint a token, or bind 127\.0\.0\.1"):
            ControlServer(endpoint, host)

    def test_a_name_is_judged_by_where_it_leads(self, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(ControlError, match="'localhost' can be reached from other machines"):
            ControlServer(endpoint, "localhost")

    def test_with_a_token_every_address_is_bound(self, workers: Workers, tmp_path: Path) -> None:
        with ControlServer(Endpoint(workers, allowed_dir=tmp_path, token=TOKEN), "0.0.0.0") as server:
            assert server.url.startswith("http://127.0.0.1:")
            assert ask(server, "GET", "/profile_status", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200

    def test_a_port_that_is_taken_is_told(self, server: ControlServer, endpoint: Endpoint) -> None:
        port = urlsplit(server.url).port
        assert port is not None
        with pytest.raises(ControlError, match=f"cannot bind 127.0.0.1:{port}: Address already in use"):
            ControlServer(endpoint, port=port)

    @pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70000), ("127.0.0.1", -1), ("no.such.host.invalid", 0)])
    def test_what_cannot_be_bound_is_told(self, host: str, port: int, endpoint: Endpoint) -> None:
        with pytest.raises(ControlError, match=r"port -?\d+ is none|no address is known for the host"):
            ControlServer(endpoint, host, port)


class TestClosing:
    def test_a_stop_under_way_goes_on_when_the_server_is_closed(self, endpoint: Endpoint, workers: Workers) -> None:
        workers.let_go.clear()
        server = ControlServer(endpoint)
        heard: list[Any] = []
        with server:
            client = threading.Thread(target=lambda: heard.append(ask(server, "POST", "/stop_profile")))
            client.start()
            assert workers.stopping.wait(DEADLINE_S)
            server.close(timeout_s=0.1)
            assert heard == []
        workers.let_go.set()
        client.join(DEADLINE_S)
        assert heard[0][1]["status"] == "stopped"

    def test_close_waits_for_what_ends_in_time(self, endpoint: Endpoint, workers: Workers) -> None:
        workers.let_go.clear()
        server = ControlServer(endpoint)
        heard: list[Any] = []
        with server:
            client = threading.Thread(target=lambda: heard.append(ask(server, "POST", "/stop_profile")))
            client.start()
            assert workers.stopping.wait(DEADLINE_S)
            threading.Timer(0.1, workers.let_go.set).start()
            server.close(timeout_s=DEADLINE_S)
        client.join(DEADLINE_S)
        assert heard[0][0] == 200

    def test_nobody_listens_after_the_block(self, endpoint: Endpoint) -> None:
        with ControlServer(endpoint) as server:
            pass
        with pytest.raises(ConnectionRefusedError):
            ask(server, "GET", "/profile_status")
        server.close()

    def test_it_serves_from_when_it_is_made_and_may_be_closed_at_once(self, endpoint: Endpoint) -> None:
        server = ControlServer(endpoint)
        assert ask(server, "GET", "/profile_status")[0] == 200
        server.close()
        for _ in range(20):  # also before its thread came to serve
            ControlServer(endpoint).close()

    def test_a_request_may_close_the_server_that_it_came_by(self, tmp_path: Path) -> None:
        class Last(Workers):
            def stop(self) -> Answer:
                closing.close(timeout_s=DEADLINE_S)
                return Answer(True, "stopped", "and closed")

        closing = ControlServer(Endpoint(Last(), allowed_dir=tmp_path))
        with closing:
            assert ask(closing, "POST", "/stop_profile")[1]["message"] == "and closed"


def needs_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("needs ipv6: this machine has no ::1")
