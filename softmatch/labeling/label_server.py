"""Server of the labelling page, and of the page that only shows a run: routes, files and the socket."""

import asyncio
import json
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from softmatch.data.pictures import quiet_pillow
from softmatch.data.records import UnreadableFile
from softmatch.errors import InputError, SoftmatchError, first_line
from softmatch.labeling.label_page import LabelPage, quietly
from softmatch.labeling.shown_samples import SIDES
from softmatch.labeling.web_security import Guard

HERE = Path(__file__).parent
STATIC = {path.name: path for path in sorted((HERE / "static").iterdir())} if (HERE / "static").is_dir() else {}
REPORT = HERE.parent / "report"
SHARED = {
    name: REPORT / name
    for name in ("report.css", "drawing.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css", "vendor/LICENSE")
}
TYPES = {".png": "image/png", ".js": "text/javascript", ".css": "text/css", ".html": "text/html", "": "text/plain"}


def make_app(page: LabelPage) -> Starlette:
    """Make the application; `Guard` must be around it."""

    def read(work: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            given: dict[str, Any] = dict(request.query_params)
            for key in ("held", "passed"):
                if key in given:
                    given[key] = [each for each in given[key].split(",") if each]
            return await _answered(work, given)

        return answer

    def written(work: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                given = json.loads(await request.body())
            except (ValueError, RecursionError, ClientDisconnect):
                given = None
            if not isinstance(given, dict):
                return JSONResponse({"error": "Refused: the request is not a JSON object."}, 400)
            return await _answered(work, given)

        return answer

    async def image(request: Request) -> Response:
        side = request.query_params.get("side", str(SIDES[1]))
        if page.shown is None or side not in map(str, SIDES) or page.shown.kind not in ("image", "sound"):
            raise HTTPException(404)
        try:
            position = page.position(request.path_params["id"])
            content, kind = await run_in_threadpool(page.shown.image, position, int(side))
        except UnreadableFile as error:
            return JSONResponse({"error": str(error)}, 422)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 404)
        return Response(content, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    async def sound(request: Request) -> Response:
        if page.shown is None or page.shown.kind != "sound":
            raise HTTPException(404)
        try:
            content = await run_in_threadpool(page.shown.sound, page.position(request.path_params["id"]))
        except InputError as error:
            return JSONResponse({"error": str(error)}, 422 if isinstance(error, UnreadableFile) else 404)
        return Response(content, media_type="audio/wav", headers={"cache-control": "private, max-age=3600"})

    async def static(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        path = STATIC.get(name) or SHARED.get(name)
        if path is None:
            raise HTTPException(404)
        return FileResponse(path, media_type=TYPES[path.suffix], headers={"cache-control": "no-cache"})

    async def report(request: Request) -> Response:
        try:
            path = page.trainings.path(request.path_params["name"]) / "report.html"
        except InputError as error:
            raise HTTPException(404) from error
        if not path.is_file():
            raise HTTPException(404)
        # Its own policy allows its script by hash. In a sandbox without our origin, it cannot use the page's session.
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": "sandbox allow-scripts"})

    async def download(request: Request) -> Response:
        try:
            path = await run_in_threadpool(page.trainings.download, request.path_params["name"])
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        return FileResponse(
            path, media_type="application/octet-stream", filename=path.name, headers={"cache-control": "no-store"}
        )

    async def failed(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": f"This failed on the server: {first_line(error)}"}, 500)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, error.status_code)

    reads = {name: getattr(page, name) for name in ("state", "next", "group", "review", "run", "runs")}
    writes = {name: getattr(page, name) for name in ("act", "turn", "train", "command")}
    return Starlette(
        routes=[
            Route("/", static),
            Route("/static/{name:path}", static),
            Route("/image/{id:int}", image),
            Route("/sound/{id:int}", sound),
            Route("/report/{name}", report),
            Route("/download/{name}", download),
            *(Route(f"/api/{name}", read(work)) for name, work in reads.items()),
            *(Route(f"/api/{name}", written(work), methods=["POST"]) for name, work in writes.items()),
        ],
        exception_handlers={HTTPException: refused, Exception: failed},
    )


async def _answered(work: Callable[[dict[str, Any]], dict[str, Any]], given: dict[str, Any]) -> Response:
    try:
        return JSONResponse(await run_in_threadpool(work, given), headers={"cache-control": "no-store"})
    except InputError as error:
        return JSONResponse({"error": str(error)}, 400)
    except SoftmatchError as error:
        return JSONResponse({"error": str(error)}, 507)


def serve(page: LabelPage, host: str, port: int | None, tell: Callable[[str], None], browse: bool) -> None:
    """Serve the page until Ctrl+C or SIGTERM.

    Args:
        port: None: 7765, or a free one.
        tell: prints a line.
        browse: open the page in the browser of this machine.
    """
    try:
        bound = _bind(host, port)
    except InputError:
        page.close()
        raise
    number = bound.getsockname()[1]
    name = "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else f"[{host}]" if ":" in host else host

    def address(token: str) -> str:
        return f"http://{name}:{number}/?token={token}"

    guard = Guard(make_app(page), host, number, lambda token: tell(f"Opened. The next browser needs {address(token)}"))
    page.csrf = guard.csrf
    tell(address(guard.token))
    if page.log is not None:
        page.log.announce(f"http://{name}:{number}")
    if browse:
        threading.Thread(target=quietly, args=[webbrowser.open, address(guard.token)], daemon=True).start()
    config = uvicorn.Config(
        guard, log_level="error", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=2
    )
    sys.setswitchinterval(0.001)  # so that an answer does not wait for the thread that computes suggestions
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn raises its signals again when it has ended
    try:
        with quiet_pillow(), suppress(KeyboardInterrupt, asyncio.CancelledError):
            uvicorn.Server(config).run(sockets=[bound])
    finally:
        page.close()


def _bind(host: str, port: int | None) -> socket.socket:
    """Bind the given port; without one 7765, so that the page keeps its address, else any free port."""
    if port is not None and not 0 <= port < 2**16:
        raise InputError(f"--port {port}: give a number from 0 to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (7765, 0) if port is None else (port,):
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, wanted))
            bound.listen(128)  # now: the browser that is opened next may be faster than the server
        except OSError as error:
            bound.close()
            if wanted != 0 and port is None:
                continue
            raise InputError(
                f"port {wanted} of {host} cannot be used: {error.strerror or error}. Choose another --port."
            ) from error
        return bound
    raise AssertionError
