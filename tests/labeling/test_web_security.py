"""Attacks on the page, over real connections: each is refused, and nothing is written."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.label_servers import Client, LabelServers, Server
from softmatch.errors import InputError
from softmatch.labeling.web_security import LARGEST_BODY, Guard, refuse_open_network
from tests.labeling.conftest import make_pictures

ACT = {"request": "r", "how": "key", "samples": [0], "label": "cat"}


@pytest.fixture(scope="module")
def server(servers: LabelServers, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("attacked")  # a new one also when a process of tests comes back to this file
    return servers.start(str(make_pictures(folder / "pictures", 12)), "--project", str(folder / "p"), "--port", "0")


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    opened = Client(server.address)
    yield opened
    assert opened.get("state")["version"] == 0, "an attack has written something"


def body(client: Client) -> bytes:
    return json.dumps({**ACT, "epoch": client.state["epoch"]}).encode()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example:{port}",
        "[::1]",
        "127.0.0.1:{port}.x",
        "",
    ],
)
def test_other_names_of_this_machine(client: Client, host: str) -> None:
    """DNS rebinding: a foreign name that leads to this machine."""
    assert client.ask("GET", "/api/state", host=host.format(port=client.port))[0] == 421
    assert client.ask("POST", "/api/act", body(client), host=host.format(port=client.port))[0] == 421


def test_our_own_names(client: Client) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert client.ask("GET", "/api/state", host=f"{name}:{client.port}")[0] == 200


def raw_code(client: Client, request: str, *headers: str, body: bytes = b"") -> bytes:
    """Code of the answer to a request that no library would send."""
    lines = [request, f"Host: {client.host}:{client.port}", f"Cookie: {client.cookie}", "Connection: close", *headers]
    with socket.create_connection((client.host, int(client.port or 0))) as raw:
        raw.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return raw.recv(100).split(b" ")[1]


def test_two_host_headers(client: Client) -> None:
    assert raw_code(client, "GET /api/state HTTP/1.1") == b"200"
    assert raw_code(client, "GET /api/state HTTP/1.1", "Host: evil.example") in (b"421", b"400")


def test_without_the_cookie_there_is_nothing(client: Client) -> None:
    for path in ("/", "/api/state", "/api/next?number=1&tab=t", "/image/0", "/static/app.js", "/report/001"):
        for cookie in (
            None,
            "",
            client.cookie[:-1],
            f"softmatch-{client.port}=x",
            "softmatch-1" + client.cookie[client.cookie.index("=") :],
        ):
            assert client.ask("GET", path, cookie=cookie)[0] == 403
    assert client.ask("POST", "/api/act", body(client), cookie=None)[0] == 403


def test_a_token_works_once(server: Server) -> None:
    address = server.address
    first, second = Client(address), Client(address)
    assert first.cookie
    assert (second.cookie, second.ask("GET", "/api/state")[0]) == ("", 403)
    assert Client(address.split("token=")[0] + "token=").cookie == ""
    assert server.address != address


def test_the_cookie_is_closed_to_scripts_and_other_sites(server: Server, client: Client) -> None:
    _, headers, _ = client.ask("GET", "/?" + server.address.split("?")[1], cookie=None)
    assert "HttpOnly" in headers["set-cookie"]
    assert "samesite=strict" in headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("code", "headers"),
    [
        (403, {"origin": None}),
        (403, {"origin": "null"}),
        (403, {"origin": "http://evil.example"}),
        (403, {"origin": "https://127.0.0.1:{port}"}),
        (403, {"origin": "http://127.0.0.1:{port}.evil.example"}),
        (403, {"x_softmatch": None}),
        (403, {"x_softmatch": "guess"}),
        (415, {"content_type": None}),
        (415, {"content_type": "text/plain"}),
        (415, {"content_type": "application/x-www-form-urlencoded"}),
    ],
)
def test_writes_from_elsewhere(client: Client, code: int, headers: dict[str, str | None]) -> None:
    given = {name: None if value is None else value.format(port=client.port) for name, value in headers.items()}
    assert client.ask("POST", "/api/act", body(client), **given)[0] == code


def test_reads_from_another_site(client: Client) -> None:
    for site in ("cross-site", "same-site"):
        assert client.ask("GET", "/api/state", sec_fetch_site=site)[0] == 403
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.ask(method, "/api/act")[0] == 405
    assert client.ask("GET", "/api/act")[0] == 405


def test_large_requests(client: Client) -> None:
    assert client.ask("POST", "/api/act", b"{}", content_length=str(LARGEST_BODY + 1))[0] == 413
    assert client.ask("POST", "/api/act", b"x" * (LARGEST_BODY + 1))[0] == 413
    allowed = f"Origin: {client.origin}", "Content-Type: application/json", f"X-Softmatch: {client.csrf}"
    chunked = raw_code(client, "POST /api/act HTTP/1.1", "Transfer-Encoding: chunked", *allowed, body=b"2\r\n{}\r\n0\r\n\r\n")
    assert chunked == b"413"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b"nonsense",
        b"[" * 100_000,
        b'{"request": "r", "how": "undo", "samples": [0]}',
        b'{"request": "r", "how": "key", "samples": [0], "label": "cat", "epoch": "other"}',
        *(
            json.dumps({**ACT, "epoch": "EPOCH", "samples": wrong}).encode()
            for wrong in ([], [-1], [10**9], ["../x"], [True], "0", [0] * 999)
        ),
        *(json.dumps({**ACT, "epoch": "EPOCH", "label": wrong}).encode() for wrong in (None, "", "x" * 999, ["cat"], "NaN")),
        json.dumps({**ACT, "epoch": "EPOCH", "request": "x" * 999}).encode(),
    ],
)
def test_acts_that_make_no_sense(client: Client, sent: bytes) -> None:
    code, headers, content = client.ask("POST", "/api/act", sent.replace(b"EPOCH", client.state["epoch"].encode()))
    assert code in (400, 409)
    assert json.loads(content)["error"]
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("/static/../label_server.py", {404}),
        ("/static/%2e%2e/label_server.py", {404}),
        ("/static//etc/passwd", {404}),
        ("/report/..", {404}),
        ("/report/%2e%2e%2f%2e%2e", {404}),
        ("/image/../../etc/passwd", {404}),
        ("/image/99999", {404}),
        ("/image/0?side=99999", {404}),
        ("/api/run?name=..%2F..", {400}),
        ("/api/review?list=__class__&offset=0&number=1", {400}),
        ("/api/review?list=labels&offset=-1&number=1", {400}),
        ("/api/next?number=1&tab=t&held=a", {400}),
    ],
)
def test_paths_lead_nowhere(client: Client, path: str, codes: set[int]) -> None:
    code, _, content = client.ask("GET", path)
    assert code in codes
    assert b"root:" not in content


def test_every_answer_has_the_strict_policy(client: Client) -> None:
    for path in ("/", "/api/state", "/image/0", "/static/app.js", "/nowhere"):
        _, headers, _ = client.ask("GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert client.ask("GET", "/api/state", cookie=None)[1]["content-security-policy"]


def test_images_are_encoded_anew_and_svg_is_none(servers: LabelServers, tmp_path: Path) -> None:
    source = make_pictures(tmp_path / "pictures", 3)
    script = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    (source / "evil.svg").write_bytes(script)
    (source / "evil.png").write_bytes(script)
    client = Client(servers.start(str(source), "--project", str(tmp_path / "p"), "--port", "0").address)
    assert client.state["total"] == 4  # the three, and the one that claims to be a PNG
    answers = [client.ask("GET", f"/image/{position}?side=160") for position in range(4)]
    assert [code for code, _, _ in answers] == [200, 200, 200, 422]
    for _, headers, content in answers:
        assert headers["content-type"] in ("image/png", "application/json")
        assert b"alert" not in content


def test_other_machines_only_if_the_user_says_so() -> None:
    with pytest.raises(InputError, match="--allow-network"):
        refuse_open_network("0.0.0.0", False)
    refuse_open_network("::1", False)
    refuse_open_network("0.0.0.0", True)
    guard = Guard(lambda *_: None, "0.0.0.0", 80, print)  # type: ignore[arg-type, return-value]  # no request comes
    assert guard._is_own_host(b"192.168.1.5:80")
    assert guard._is_own_host(b"[fe80::1]:80")
    assert not guard._is_own_host(b"evil.example:80")
    assert not guard._is_own_host(b"192.168.1.5:81")
