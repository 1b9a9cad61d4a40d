"""Who may talk to the page: this machine, by its own name, with the token of the terminal, from the page itself."""

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from softmatch.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
LARGEST_BODY = 2**18
"""Bytes of a request."""
CSRF = b"x-softmatch"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
ENTER = f'{HEAD}<meta http-equiv="refresh" content="0;url=/"><link rel="icon" href="/static/icon.png"><title>softmatch</title>'
REFUSED = (
    f"{HEAD}<title>softmatch</title><h1>This page needs its address</h1><p>Open the newest address that softmatch printed in the "
    "terminal. Each address works once; the next one is printed when it has been used.</p>"
)


def refuse_open_network(host: str, allowed: bool) -> None:
    """Raise InputError for an address that other machines reach, unless the user allows that."""
    if host not in LOOPBACK and not allowed:
        raise InputError(
            f"--host {host} lets other machines see your data and change labels, without encryption. "
            "Add --allow-network if you want that, or leave out --host."
        )


class Guard:
    """ASGI middleware that lets through requests of a signed-in page, and refuses all else.

    The address in the terminal has a token that works once. It is exchanged for a cookie that scripts cannot read and that the
    browser sends from this page only. Writes also need the page's Origin, JSON, and a value that only the page knows.

    Args:
        renewed: is given the next token when one has been used.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, renewed: Callable[[str], None]) -> None:
        self._app, self._port, self._renewed = app, port, renewed
        self.token, self._session, self.csrf = (secrets.token_urlsafe(24) for _ in range(3))
        self._cookie = f"softmatch-{port}"  # cookies of a host are shared by its ports
        self._any_address = host in EVERYWHERE
        names = {*LOOPBACK, host} if host in LOOPBACK else {host, *LOOPBACK, socket.gethostname().lower()}
        self._hosts = {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names - {*EVERYWHERE}}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        headers = _single(scope["headers"])
        answer = self._refusal(scope, headers)
        if answer is None:
            await self._app(scope, _bounded(receive), _with_headers(send))
        else:
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes] | None) -> Response | None:
        """The answer to a request that must not reach the page; None for one that may."""
        if headers is None or not self._is_own_host(headers.get(b"host", b"")):
            return _no("the Host header is not an address of this page", 421)
        signed_in = self._is_signed_in(headers)
        if scope["path"] == "/" and scope["method"] == "GET" and b"token=" in scope["query_string"]:
            return self._enter(scope, signed_in)
        if not signed_in:
            return HTMLResponse(REFUSED, 403) if scope["path"] == "/" else _no("open the address that the terminal shows", 403)
        if scope["method"] in ("GET", "HEAD"):
            crossing = headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none")
            return _no("another site asks", 403) if crossing else None
        if scope["method"] != "POST":
            return _no("only GET and POST", 405)
        return self._refuse_write(headers)

    def _refuse_write(self, headers: Mapping[bytes, bytes]) -> Response | None:
        origin = headers.get(b"origin", b"")
        if origin != b"http://" + headers[b"host"]:
            return _no("the Origin is not this page", 403)
        if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
            return _no("the content type is not application/json", 415)
        if not hmac.compare_digest(headers.get(CSRF, b""), self.csrf.encode()):
            return _no("the page is from before this server was started: reload it", 403)
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 9 or int(length) > LARGEST_BODY:
            return _no(f"a request has at most {LARGEST_BODY:,} bytes, and says how many", 413)
        return None

    def _is_own_host(self, value: bytes) -> bool:
        text = value.decode("latin-1").lower()
        if text in self._hosts:
            return True
        name, _, port = text.rpartition(":")
        return self._any_address and port == str(self._port) and _is_address(name.removeprefix("[").removesuffix("]"))

    def _is_signed_in(self, headers: Mapping[bytes, bytes]) -> bool:
        try:
            found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._session.encode())

    def _enter(self, scope: Scope, signed_in: bool) -> Response:
        """Exchange a token for the cookie. The page is opened by itself, not by a link: the cookie is then sent at once."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return HTMLResponse(ENTER if signed_in else REFUSED, 200 if signed_in else 403)
        self.token = secrets.token_urlsafe(24)
        self._renewed(self.token)
        answer = HTMLResponse(ENTER)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer


def _single(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Headers by name; None where one that decides is given twice."""
    found: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name in found and name in (b"host", b"origin", b"content-type", b"content-length", CSRF):
            return None
        found[name] = value if name not in found else found[name] + b"; " + value
    return found


def _is_address(text: str) -> bool:
    """True for the number of a machine, which no name server can change."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _no(reason: str, code: int) -> Response:
    return JSONResponse({"error": f"Refused: {reason}."}, code)


def _bounded(receive: Receive) -> Receive:
    """Receive at most LARGEST_BODY bytes, whatever the request said about its length."""
    total = 0

    async def received() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > LARGEST_BODY:
            return {"type": "http.disconnect"}
        return message

    return received


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending
