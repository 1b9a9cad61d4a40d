"""Tar shards of small images for tests, an S3 server, and an HTTP server that fails as it is told to."""

import io
import logging
import re
import tarfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

CLASSES = ("bright", "dark")


def picture(number: int, side: int = 8, kind: str = "png") -> bytes:
    """An image of one of two classes, bright where the number is even, different for each number."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(0, 90, (side, side, 3), dtype=np.uint8) + np.uint8(150 * (number % 2 == 0))
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def write_tar(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a tar file with these contents."""
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return path


def write_shards(folder: Path, counts: Sequence[int], labelled: int) -> str:
    """Write shards with so many images each, the first of them with labels, and give their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for shard, count in enumerate(counts):
        members = dict[str, bytes]()
        for _ in range(count):
            members[f"some/{number:04d}.png"] = picture(number)
            if number < labelled:
                members[f"some/{number:04d}.cls"] = CLASSES[number % 2].encode()
            number += 1
        write_tar(folder / f"shard-{shard:03d}.tar", members)
    return f"{folder}/shard-{{000..{len(counts) - 1:03d}}}.tar"


@contextmanager
def s3_server(bucket: str, folder: Path) -> Iterator[str]:
    """Serve the files of a folder as a bucket; the address and keys are in the environment."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        host, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(key, "any")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").clear_instance_cache()
        files = fsspec.filesystem("s3")
        files.mkdir(bucket)
        for path in folder.iterdir():
            files.put_file(str(path), f"{bucket}/{path.name}")
        yield f"s3://{bucket}"
        reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()  # the servers of a process share their buckets
    server.stop()


class Faulty:
    """Files of a server by name, and what is to go wrong: a list of faults for each, one for each answer with content.

    A fault is a status to answer with, or "cut": the connection is closed after half of the content.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files, self.ranges, self.address = dict(files), True, ""
        self.faults: dict[str, list[int | str]] = {}
        self.asked: list[str] = []

    @contextmanager
    def serving(self) -> Iterator["Faulty"]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:  # the name that the library calls
                self._answer(body=False)

            def do_GET(self) -> None:  # the name that the library calls
                self._answer(body=True)

            def log_message(self, *args: object) -> None:
                """Print nothing."""

            def _answer(self, body: bool) -> None:
                outer._answer(self, body)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def _answer(self, to: BaseHTTPRequestHandler, body: bool) -> None:
        name = to.path.lstrip("/")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", to.headers.get("Range", ""))
        self.asked.append(f"{to.command} {name} {to.headers.get('Range', '')}".strip())
        faults = self.faults.get(name, [])
        fault = faults.pop(0) if faults and (body or isinstance(faults[0], int)) else None
        content = self.files.get(name)
        status = fault if isinstance(fault, int) else 404 if content is None else 200
        content = content if status == 200 and content is not None else b""
        whole = len(content)
        if asked is not None and self.ranges and status == 200:
            status, start, stop = 206, int(asked[1]), min(int(asked[2]) + 1, whole)
            content = content[start:stop]
        to.send_response(status)
        to.send_header("Content-Length", str(len(content)))
        to.send_header("ETag", f'"{whole}"')
        if self.ranges:
            to.send_header("Accept-Ranges", "bytes")
        if status == 206:
            to.send_header("Content-Range", f"bytes {start}-{stop - 1}/{whole}")
        to.end_headers()
        if body:
            to.wfile.write(content[: len(content) // 2] if fault == "cut" else content)
        if fault == "cut":
            to.close_connection = True
