"""The endpoint: what is done, what is refused and with which status, and that it writes nowhere but where it may."""

from __future__ import annotations

import io
import json
import os
import textwrap
from typing import TYPE_CHECKING, Any
from wsgiref.util import setup_testing_defaults

import pytest

from pytest_gputrace.control import endpoint as endpoint_module
from pytest_gputrace.control.answer import Answer
from pytest_gputrace.control.endpoint import MOST_BYTES, Endpoint, Response
from pytest_gputrace.control.verdict import RankVerdict
from pytest_gputrace.errors import ControlError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_gputrace.control.request import ProfileRequest

JSON = {"Content-Type": "application/json"}
TOKEN = "open-sesame"


class Workers:
    """Stands for a coordinator: answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[ProfileRequest] = []
        self.stops = 0
        self.error: Exception | None = None
        self.answer = Answer(True, "recording", "2 workers record")

    def start(self, request: ProfileRequest) -> Answer:
        self.requests.append(request)
        return self._answered()

    def stop(self) -> Answer:
        self.stops += 1
        return self._answered()

    def status(self) -> Answer:
        return self._answered()

    def _answered(self) -> Answer:
        if self.error is not None:
            raise self.error
        return self.answer


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "profiles"
    folder.mkdir()
    return folder


@pytest.fixture
def endpoint(workers: Workers, allowed: Path) -> Endpoint:
    return Endpoint(workers, allowed_dir=allowed)


def start(endpoint: Endpoint, fields: Any, **headers: str) -> Response:
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return endpoint.handle("POST", "/start_profile", {**JSON, **headers}, body)


def answer_of(response: Response) -> Answer:
    return Answer.from_json(json.loads(response.body))


class TestWhatIsDone:
    def test_a_start_asks_the_workers_for_exactly_the_fields_of_the_body(
        self, endpoint: Endpoint, workers: Workers, allowed: Path
    ) -> None:
        fields = {"output_dir": str(allowed / "run"), "profile_id": "p", "activities": ["cpu", "MEM"], "num_steps": 3}
        response = start(endpoint, fields)
        assert response.status == 200
        assert answer_of(response) == workers.answer
        (request,) = workers.requests
        told = request.as_json()
        assert {name: told[name] for name in fields} == {**fields, "activities": ["CPU", "MEM"]}

    @pytest.mark.parametrize("body", [b"", b" \n", b"{}", b'{"output_dir": null}'])
    def test_without_fields_the_profile_goes_into_the_allowed_folder(
        self, body: bytes, endpoint: Endpoint, workers: Workers, allowed: Path
    ) -> None:
        assert start(endpoint, body).status == 200
        assert workers.requests[0].output_dir == str(allowed)

    def test_an_empty_body_needs_no_content_type(self, endpoint: Endpoint) -> None:
        assert endpoint.handle("POST", "/start_profile", {}, b"").status == 200
        assert endpoint.handle("POST", "/stop_profile", {}, b"").status == 200

    @pytest.mark.parametrize("path", ["/profile_status", "/profile_status/", "/profile_status?pretty"])
    def test_the_status_is_told_even_of_a_failed_profile(self, path: str, endpoint: Endpoint, workers: Workers) -> None:
        workers.answer = Answer(False, "failed", "lost")
        response = endpoint.handle("GET", path, {}, b"")
        assert (response.status, answer_of(response)) == (200, workers.answer)

    def test_a_stop_that_lost_something_gives_the_verdicts_all_the_same(
        self, endpoint: Endpoint, workers: Workers
    ) -> None:
        ranks = (RankVerdict("TP0", "ok", files=("/p/a.json",)), RankVerdict("TP1", "dead", "killed by signal 9"))
        workers.answer = Answer(False, "failed", "1 of 2 ranks", ranks=ranks)
        response = endpoint.handle("POST", "/stop_profile", JSON, b"{}")
        assert response.status == 500
        assert answer_of(response).ranks == ranks

    @pytest.mark.parametrize("path", ["/start_profile", "/stop_profile"])
    def test_workers_that_are_in_no_state_for_it_are_a_conflict(
        self, path: str, endpoint: Endpoint, workers: Workers
    ) -> None:
        workers.answer = Answer(False, "refused", "a profile runs", reasons=("TP0: a profile runs",))
        response = endpoint.handle("POST", path, {}, b"")
        assert (response.status, answer_of(response)) == (409, workers.answer)
        workers.error = RequestError("TP0 cannot", reasons=["TP0: no Proton", "TP1: no Proton"])
        response = endpoint.handle("POST", path, {}, b"")
        assert (response.status, answer_of(response).reasons) == (409, ("TP0: no Proton", "TP1: no Proton"))

    def test_whatever_breaks_ends_in_an_answer(self, endpoint: Endpoint, workers: Workers) -> None:
        workers.error = ZeroDivisionError("a defect")
        for method, path in (("POST", "/start_profile"), ("POST", "/stop_profile"), ("GET", "/profile_status")):
            response = endpoint.handle(method, path, {}, b"")
            assert response.status == 500
            assert answer_of(response) == Answer(False, "failed", "ZeroDivisionError: a defect")

    def test_every_response_is_json_and_kept_by_nobody(self, endpoint: Endpoint) -> None:
        for method, path in (("GET", "/profile_status"), ("GET", "/nowhere"), ("HEAD", "/stop_profile")):
            headers = endpoint.handle(method, path, {}, b"").headers
            assert (headers["Content-Type"], headers["Cache-Control"]) == ("application/json", "no-store")


class TestBodies:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"{", "the body is no JSON"),
            (b"[1]", "the body is a JSON list"),
            (b"null", "the body is a JSON null"),
            (b'"CPU"', "the body is a JSON text"),
            (b"3", "the body is a JSON number"),
            (b'{"deadline_s": NaN}', "NaN is no number of JSON"),
            (b'{"deadline_s": -Infinity}', "-Infinity is no number"),
            (b'{"deadline_s": 1e999}', "deadline_s is inf"),
            (b'{"num_steps": 1, "num_steps": 2}', "'num_steps' is there twice"),
            (b"[" * 60_000, "no JSON|nested too deeply"),
            (b'{"stages": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", "nested too deeply|stages"),
            (b'{"profile_id": "\xff"}', "not UTF-8"),
            (b'{"profile_id": "\\ud800"}', "not UTF-8"),
            (b'{"num_steps": ' + b"9" * 5000 + b"}", "no JSON|num_steps"),
            (b'{"output_dir": "a\\u0000b"}', "NUL"),
        ],
    )
    def test_what_is_no_object_of_json_is_refused(
        self, body: bytes, reason: str, endpoint: Endpoint, workers: Workers
    ) -> None:
        response = start(endpoint, body)
        assert response.status == 400
        assert any(word in answer_of(response).message for word in reason.split("|"))
        assert workers.requests == []

    def test_every_reason_is_told_at_once(self, endpoint: Endpoint, workers: Workers) -> None:
        fields = {"num_step": 3, "activities": "CPU", "num_steps": "3", "with_stack": 1, "deadline_s": [], "stages": {}}
        response = start(endpoint, fields)
        assert response.status == 400
        reasons = answer_of(response).reasons
        for part in (
            "no field 'num_step'",
            "activities is 'CPU'",
            "num_steps is '3'",
            "with_stack is 1",
            "deadline_s is []",
        ):
            assert any(part in reason for reason in reasons), part
        assert workers.requests == []

    def test_a_reason_is_never_as_long_as_the_body(self, endpoint: Endpoint) -> None:
        response = start(endpoint, {"x" * 30_000: 1, "activities": ["y" * 30_000]})
        assert response.status == 400
        assert len(response.body) < 10_000

    def test_a_body_must_not_be_huge(self, endpoint: Endpoint, workers: Workers) -> None:
        assert start(endpoint, b" " * MOST_BYTES).status == 200
        assert start(endpoint, b" " * (MOST_BYTES + 1)).status == 413
        assert endpoint.handle("POST", "/stop_profile", JSON, b" " * (MOST_BYTES + 1)).status == 413
        assert (len(workers.requests), workers.stops) == (1, 0)

    def test_a_stop_takes_no_fields(self, endpoint: Endpoint, workers: Workers) -> None:
        assert endpoint.handle("POST", "/stop_profile", JSON, b'{"num_steps": 1}').status == 400
        assert workers.stops == 0

    def test_fields_in_the_query_are_not_passed_over(self, endpoint: Endpoint, workers: Workers) -> None:
        assert endpoint.handle("POST", "/start_profile?num_steps=3", {}, b"").status == 400
        assert workers.requests == []

    def test_a_body_in_chunks_is_refused_by_whoever_reads_it(self, endpoint: Endpoint, workers: Workers) -> None:
        assert start(endpoint, b"", **{"Transfer-Encoding": "chunked"}).status == 411
        assert workers.requests == []

    @pytest.mark.parametrize(
        ("told", "status"),
        [
            ({"CONTENT_LENGTH": "2"}, "200 OK"),
            ({"CONTENT_LENGTH": "-1"}, "400 Bad Request"),
            ({"CONTENT_LENGTH": "99"}, "400 Bad Request"),
            ({"CONTENT_LENGTH": "9" * 5000}, "400 Bad Request"),
            ({"CONTENT_LENGTH": "\u00b2"}, "400 Bad Request"),
            ({"QUERY_STRING": "activities=CPU"}, "400 Bad Request"),
            ({"HTTP_TRANSFER_ENCODING": "chunked"}, "411 Length Required"),
        ],
    )
    def test_the_wsgi_application_of_the_docstring(self, told: dict[str, str], status: str, endpoint: Endpoint) -> None:
        text = (endpoint_module.__doc__ or "").partition("As WSGI::\n\n")[2].partition("\n\nand in an ASGI")[0]
        names: dict[str, Any] = {"endpoint": endpoint, "MOST_BYTES": endpoint_module.MOST_BYTES}
        exec(textwrap.dedent(text), names)
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/start_profile", "CONTENT_TYPE": "application/json", **told}
        heard: list[str] = []
        names["app"]({**environ, "wsgi.input": io.BytesIO(b"{}")}, lambda line, _headers: heard.append(line))
        assert heard == [status]


class TestFolders:
    def test_folders_below_the_allowed_one_are_taken_and_made_by_nobody_here(
        self, endpoint: Endpoint, workers: Workers, allowed: Path
    ) -> None:
        assert start(endpoint, {"output_dir": f"{allowed}/a/../b/c/"}).status == 200
        assert workers.requests[0].output_dir == str(allowed / "b" / "c")
        assert os.listdir(allowed) == []

    @pytest.mark.parametrize("told", ["{0}/../elsewhere", "{0}/a/../../elsewhere", "/", "{0}-2", "/etc"])
    def test_other_folders_are_forbidden(self, told: str, endpoint: Endpoint, workers: Workers, allowed: Path) -> None:
        response = start(endpoint, {"output_dir": told.format(allowed)})
        assert (response.status, answer_of(response).status) == (403, "refused")
        assert f"leads out of {allowed}" in answer_of(response).message
        assert workers.requests == []

    @pytest.mark.parametrize("below", ["", "/run"])
    def test_a_link_that_leads_out_is_forbidden(
        self, below: str, endpoint: Endpoint, workers: Workers, allowed: Path, tmp_path: Path
    ) -> None:
        (allowed / "there").symlink_to(tmp_path)
        (allowed / "nowhere").symlink_to(tmp_path / "missing")
        for name in ("there", "nowhere"):
            assert start(endpoint, {"output_dir": f"{allowed}/{name}{below}"}).status == 403
        assert workers.requests == []

    def test_a_link_that_stays_inside_is_resolved_before_it_can_be_turned(
        self, endpoint: Endpoint, workers: Workers, allowed: Path
    ) -> None:
        (allowed / "real").mkdir()
        (allowed / "link").symlink_to(allowed / "real")
        assert start(endpoint, {"output_dir": str(allowed / "link" / "run")}).status == 200
        assert workers.requests[0].output_dir == str(allowed / "real" / "run")

    def test_an_allowed_folder_that_is_a_link_or_not_there_yet_will_do(self, workers: Workers, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "later")
        endpoint = Endpoint(workers, allowed_dir=tmp_path / "link")
        assert start(endpoint, {"output_dir": str(tmp_path / "link" / "run")}).status == 200
        assert start(endpoint, {}).status == 200
        assert [each.output_dir for each in workers.requests] == [str(tmp_path / "later/run"), str(tmp_path / "later")]

    def test_a_relative_folder_is_nobodys(self, endpoint: Endpoint, workers: Workers, allowed: Path) -> None:
        response = start(endpoint, {"output_dir": "run"})
        assert response.status == 400
        assert answer_of(response).message == (
            f"output_dir is not absolute; give the whole path of a folder below {allowed}"
        )
        assert workers.requests == []

    def test_what_can_be_no_folder_is_refused(self, endpoint: Endpoint, workers: Workers, allowed: Path) -> None:
        (allowed / "file").write_text("")
        (allowed / "loop").symlink_to("loop")
        for name in ("file", "file/run", "loop", "loop/run", "x" * 300):
            response = start(endpoint, {"output_dir": str(allowed / name)})
            assert response.status == 400, name
            assert answer_of(response).message.startswith("output_dir ")
        assert workers.requests == []

    def test_an_allowed_folder_that_is_a_file_is_told_at_once(self, workers: Workers, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ControlError, match="file is no folder"):
            Endpoint(workers, allowed_dir=tmp_path / "file")


class TestPathsAndMethods:
    @pytest.mark.parametrize("path", ["/", "", "/generate", "/start_profile/x", "/START_PROFILE", "/start_profile\0"])
    def test_there_is_nothing_else(self, path: str, endpoint: Endpoint, workers: Workers) -> None:
        assert endpoint.handle("POST", path, {}, b"").status == 404
        assert workers.requests == []

    @pytest.mark.parametrize(
        ("method", "path", "allow"),
        [
            ("GET", "/start_profile", "POST"),
            ("HEAD", "/start_profile", "POST"),
            ("OPTIONS", "/start_profile", "POST"),
            ("PUT", "/stop_profile/", "POST"),
            ("GET", "/stop_profile", "POST"),
            ("POST", "/profile_status", "GET"),
        ],
    )
    def test_no_other_method_does_anything(
        self, method: str, path: str, allow: str, endpoint: Endpoint, workers: Workers
    ) -> None:
        response = endpoint.handle(method, path, {}, b"")
        assert (response.status, response.headers["Allow"]) == (405, allow)
        assert (workers.requests, workers.stops) == ([], 0)

    def test_a_slash_at_the_end_changes_nothing(self, endpoint: Endpoint) -> None:
        assert endpoint.handle("POST", "/start_profile/", {}, b"").status == 200
        assert endpoint.handle("POST", "/stop_profile/", {}, b"").status == 200


class TestToken:
    @pytest.fixture
    def guarded(self, workers: Workers, allowed: Path) -> Endpoint:
        return Endpoint(workers, allowed_dir=allowed, token=TOKEN)

    @pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
    @pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
    def test_with_the_token_it_is_done(self, name: str, scheme: str, guarded: Endpoint) -> None:
        assert guarded.handle("POST", "/stop_profile", {name: f"{scheme} {TOKEN}"}, b"").status == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Authorization": ""},
            {"Authorization": TOKEN},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": "Bearer"},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Bearer {TOKEN[:-1]}"},
            {"Authorization": f"Bearer {TOKEN.upper()}"},
            {"Authorization": "Bearer \u00f6\ud800\u4e2d"},
            {"X-Token": TOKEN},
        ],
    )
    @pytest.mark.parametrize("path", ["/start_profile", "/stop_profile", "/profile_status", "/nowhere"])
    def test_without_it_nothing_is_done_or_told(
        self, headers: dict[str, str], path: str, guarded: Endpoint, workers: Workers, allowed: Path
    ) -> None:
        response = guarded.handle("GET" if path == "/profile_status" else "POST", path, headers, b"x")
        assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert TOKEN.encode() not in response.body.lower()
        assert str(allowed).encode() not in response.body
        assert (workers.requests, workers.stops) == ([], 0)

    @pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
    def test_a_token_that_is_not_ascii_is_read_as_servers_hand_it_on(
        self, encoding: str, workers: Workers, allowed: Path
    ) -> None:
        endpoint = Endpoint(workers, allowed_dir=allowed, token="g\u00e4nsebl\u00fcmchen")
        header = "Bearer g\u00e4nsebl\u00fcmchen".encode().decode(encoding)
        assert endpoint.handle("POST", "/stop_profile", {"Authorization": header}, b"").status == 200
        assert endpoint.handle("POST", "/stop_profile", {"Authorization": "Bearer gansebl"}, b"").status == 401

    @pytest.mark.parametrize("token", ["", "two words", "line\n", "x" * 5000, b"bytes", 7])
    def test_what_can_be_no_token_is_refused_and_not_repeated(
        self, token: Any, workers: Workers, allowed: Path
    ) -> None:
        with pytest.raises(ControlError, match="token") as caught:
            Endpoint(workers, allowed_dir=allowed, token=token)
        assert not token or str(token) not in str(caught.value)


class TestBrowsers:
    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]"]
    )
    def test_the_names_of_loopback_are_answered(self, host: str, endpoint: Endpoint) -> None:
        assert endpoint.handle("POST", "/stop_profile", {"host": host}, b"").status == 200

    @pytest.mark.parametrize(
        "host",
        ["evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "", "[::1]x", "[::2]"],
    )
    def test_a_page_whose_name_leads_here_is_refused(self, host: str, endpoint: Endpoint, workers: Workers) -> None:
        for method, path in (("POST", "/start_profile"), ("POST", "/stop_profile"), ("GET", "/profile_status")):
            response = endpoint.handle(method, path, {"Host": host}, b"")
            assert response.status == 403
            assert "set a token for other names" in answer_of(response).message
        assert (workers.requests, workers.stops) == ([], 0)

    def test_with_a_token_any_name_will_do(self, workers: Workers, allowed: Path) -> None:
        endpoint = Endpoint(workers, allowed_dir=allowed, token=TOKEN)
        headers = {"Host": "gpu-7.cluster:8080", "Authorization": f"Bearer {TOKEN}"}
        assert endpoint.handle("POST", "/stop_profile", headers, b"").status == 200

    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "null", "http://127.0.0.1:81", "http://127.0.0.1:80.evil.example"]
    )
    def test_a_page_of_another_site_is_refused(self, origin: str, endpoint: Endpoint, workers: Workers) -> None:
        response = endpoint.handle("POST", "/stop_profile", {"Host": "127.0.0.1:80", "Origin": origin}, b"")
        assert response.status == 403
        assert endpoint.handle("POST", "/stop_profile", {"Origin": origin}, b"").status == 403
        assert workers.stops == 0

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_so_is_one_whose_browser_says_so(self, site: str, endpoint: Endpoint, workers: Workers) -> None:
        headers = {"Host": "127.0.0.1:80", "Sec-Fetch-Site": site}
        assert endpoint.handle("POST", "/stop_profile", headers, b"").status == 403
        assert workers.stops == 0
        assert endpoint.handle("POST", "/stop_profile", {**headers, "Sec-Fetch-Site": "same-origin"}, b"").status == 200

    def test_a_form_without_a_body_is_refused_too(self, endpoint: Endpoint, workers: Workers) -> None:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert endpoint.handle("POST", "/stop_profile", headers, b"").status == 415
        assert workers.stops == 0

    def test_a_page_of_this_site_is_not(self, endpoint: Endpoint) -> None:
        headers = {"Host": "127.0.0.1:80", "Origin": "http://127.0.0.1:80"}
        assert endpoint.handle("POST", "/stop_profile", headers, b"").status == 200

    @pytest.mark.parametrize(
        "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; x=1"]
    )
    def test_a_body_that_a_browser_sends_unasked_is_refused(
        self, kind: str, endpoint: Endpoint, workers: Workers
    ) -> None:
        for path in ("/start_profile", "/stop_profile"):
            response = endpoint.handle("POST", path, {"Content-Type": kind}, b"{}")
            assert response.status == 415
        assert (workers.requests, workers.stops) == ([], 0)

    def test_json_may_name_its_charset(self, endpoint: Endpoint) -> None:
        headers = {"content-type": "Application/JSON; charset=utf-8"}
        assert endpoint.handle("POST", "/start_profile", headers, b"{}").status == 200


def test_an_engine_mounts_it_as_wsgi(endpoint: Endpoint, workers: Workers) -> None:
    told: list[Any] = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        headers = {name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
        headers["Content-Type"] = environ.get("CONTENT_TYPE", "")
        body = environ["wsgi.input"].read(min(int(environ.get("CONTENT_LENGTH") or 0), MOST_BYTES + 1))
        response = endpoint.handle(environ["REQUEST_METHOD"], environ["PATH_INFO"], headers, body)
        start_response(response.status_line, list(response.headers.items()))
        return [response.body]

    body = b'{"num_steps": 2}'
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/start_profile", "wsgi.input": io.BytesIO(body)}
    environ |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "HTTP_HOST": "localhost"}
    setup_testing_defaults(environ)
    (answer,) = app(environ, lambda *given: told.append(given))
    assert told[0][0] == "200 OK"
    assert json.loads(answer)["status"] == "recording"
    assert workers.requests[0].num_steps == 2
