"""A real HTTP server in this process that answers like the Hugging Face hub, for a folder of files; it also takes uploads."""

import base64
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
        token: that allows to upload; None: any.
        private: whether the repository is, None: it does not exist yet.
        asked: method and path of each request so far; with the host, where the client takes the server for a proxy.
    """

    def __init__(self, folder: Path, name: str, commit: str = COMMIT) -> None:
        self.folder, self.name, self.commit = folder, name, commit
        self.gated = False
        self.cut: int | None = None
        self.largest: int | None = None
        self.token: str | None = None
        self.private: bool | None = False
        self.asked: list[str] = []
        self.stored: dict[str, bytes] = {}
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

        def do_PUT(self) -> None:  # the name that the library calls
            hub.asked.append(f"PUT {self.path}")
            hub.stored[self.path.rpartition("/")[2]] = self._body()
            self._send(200, {}, True)

        def do_POST(self) -> None:  # the name that the library calls
            hub.asked.append(f"POST {self.path}")
            path, body = unquote(urlsplit(self.path).path), self._body()
            if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self._send(401, {"error": "Invalid token"}, True)
            if path == "/api/validate-yaml":
                return self._send(200, {"errors": [], "warnings": []}, True)
            found = json.loads(body) if not path.endswith("/commit/main") else {}
            if path == "/api/repos/create":
                name = f"{found['organization']}/{found['name']}"
                if name.partition("/")[0] != hub.name.partition("/")[0]:
                    return self._send(403, {"error": "You don't have the rights to create a model under this namespace"}, True)
                exists, where = hub.private is not None, {"url": f"{hub.address}/{name}", "id": "1"}
                hub.private = hub.private if exists else found.get("visibility") == "private" or bool(found.get("private"))
                return self._send(409 if exists else 200, where, True)
            if path == f"/api/models/{hub.name}/preupload/main":
                modes = {each["path"]: "lfs" if each["path"].endswith(".safetensors") else "regular" for each in found["files"]}
                answer = [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in modes.items()]
                return self._send(200, {"files": answer}, True)
            if path == f"/{hub.name}.git/info/lfs/objects/batch":
                objects = [
                    {**each, "actions": {"upload": {"href": f"{hub.address}/lfs/{each['oid']}"}}} for each in found["objects"]
                ]
                return self._send(200, {"transfer": "basic", "objects": objects}, True)
            if path == f"/api/models/{hub.name}/commit/main":
                for line in map(json.loads, body.splitlines()):
                    self._commit(line["key"], line["value"])
                where = f"{hub.address}/{hub.name}/commit/{hub.commit}"
                return self._send(200, {"success": True, "commitUrl": where, "commitOid": hub.commit, "hookOutput": ""}, True)
            return self._send(404, {"error": "no"}, True, {"X-Error-Code": "RepoNotFound"})

        def _commit(self, key: str, about: Any) -> None:
            """Put a file of a commit into the folder."""
            if key in ("file", "lfsFile"):
                content = base64.b64decode(about["content"]) if key == "file" else hub.stored[about["oid"]]
                (hub.folder / about["path"]).parent.mkdir(parents=True, exist_ok=True)
                (hub.folder / about["path"]).write_bytes(content)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

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
                return self._send(
                    200, {"_id": "1", "id": hub.name, "sha": hub.commit, "siblings": siblings, "private": bool(hub.private)}, body
                )
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
