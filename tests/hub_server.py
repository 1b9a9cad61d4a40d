"""A real HTTP server in this process that answers like the Hugging Face hub, for a folder of files."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Files of one model, and how the server behaves.

    Attributes:
        name: id of the model.
        commit: of its only revision.
        gated: files are refused as those of a gated model.
        cut: number of bytes of each weights file after which the connection is closed.
        largest: size that the list of files states for the weights, if not their own.
        asked: method and path of each request so far; with the host, where the client takes the server for a proxy.
    """

    def __init__(self, folder: Path, name: str, commit: str = COMMIT) -> None:
        self.folder, self.name, self.commit = folder, name, commit
        self.gated = False
        self.cut: int | None = None
        self.largest: int | None = None
        self.asked: list[str] = []
        self.address = ""

    def files(self) -> dict[str, bytes]:
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}

    def fetched(self) -> list[str]:
        """Names of the files whose content was asked for."""
        lines = [line for line in self.asked if line.startswith("GET") and "/resolve/" in line]
        return sorted({line.rpartition(f"/resolve/{self.commit}/")[2] for line in lines})


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve on a free port of this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:  # the name that the library calls
            self._answer(body=False)

        def do_GET(self) -> None:  # the name that the library calls
            self._answer(body=True)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

        def _answer(self, body: bool) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            path = unquote(urlsplit(self.path).path)
            api, files = f"/api/models/{hub.name}", hub.files()
            sizes = {name: len(content) for name, content in files.items()}
            if hub.largest is not None:
                sizes |= {name: hub.largest for name in files if name.endswith(".safetensors")}
            if path in (api, f"{api}/revision/main", f"{api}/revision/{hub.commit}"):
                siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
                return self._send(200, {"_id": "1", "id": hub.name, "sha": hub.commit, "siblings": siblings}, body)
            if path == f"{api}/tree/{hub.commit}":
                tree = [{"type": "file", "path": name, "size": size, "oid": _digest(files[name])} for name, size in sizes.items()]
                return self._send(200, tree, body)
            start, _, name = path.partition(f"/resolve/{hub.commit}/")
            if start == f"/{hub.name}" and name in files:
                if hub.gated:
                    return self._send(403, {"error": "gated"}, body, {"X-Error-Code": "GatedRepo"})
                return self._file(files[name], body, hub.cut if name.endswith(".safetensors") else None)
            known = path.startswith((f"{api}/", f"/{hub.name}/"))
            return self._send(404, {"error": "no"}, body, {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"})

        def _file(self, content: bytes, body: bool, cut: int | None) -> None:
            first = int(self.headers.get("Range", "bytes=0-").partition("=")[2].partition("-")[0])
            self.send_response(206 if first else 200)
            for key, value in {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": hub.commit, "Accept-Ranges": "bytes"}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            if body and cut is None:
                self.wfile.write(content[first:])
            elif body:
                self.wfile.write(content[first : max(first, cut or 0)])
                self.close_connection = True

        def _send(self, status: int, content: Any, body: bool, headers: dict[str, str] | None = None) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            for key, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            if body:
                self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
