"""Servers of the labelling page that start at once: a process that has imported everything forks one for each.

They are what `softmatch label` starts, and can be killed like it. Also a client that signs in like a browser.
"""

import http.client
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

ADDRESS = re.compile(r"http://\S+\?token=\S+")
PATIENCE = 60.0
LABELS = "abcde"


class Server:
    """A running server.

    Attributes:
        address: with its token, for one browser.
        scanned: seconds until the samples are counted.
        seconds: until the address is printed.
    """

    def __init__(self, pid: int, output: Path) -> None:
        self.pid, self.output = pid, output
        started = time.monotonic()
        self.scanned = 0.0
        while not self.addresses():
            self.scanned = self.scanned or (time.monotonic() - started if "samples" in output.read_text() else 0.0)
            if time.monotonic() - started > PATIENCE or "softmatch: " in output.read_text():
                raise RuntimeError(f"the server has not started: {output.read_text()}")
            time.sleep(0.01)
        self.seconds = time.monotonic() - started

    def addresses(self) -> list[str]:
        return ADDRESS.findall(self.output.read_text())

    @property
    def address(self) -> str:
        return self.addresses()[-1]

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill it and wait until it has gone."""
        os.kill(self.pid, number)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.005)
        raise RuntimeError(f"process {self.pid} is still there.")


class LabelServers:
    """Starts servers, and kills those that are left at the end.

    Args:
        code: a checkout to start them from, instead of the installed package.
    """

    def __init__(self, folder: Path, code: Path | None = None) -> None:
        self._folder, self._servers = folder, list[Server]()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "SOFTMATCH_CACHE": str(folder / "cache")}
        environment |= {} if code is None else {"PYTHONPATH": str(code)}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> "LabelServers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for server in self._servers:
            try:
                server.kill()
            except ProcessLookupError:
                continue
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(self, *words: str, command: str = "label") -> Server:
        """Start `softmatch label …` in the folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        output = self._folder / f"output-{secrets.token_hex(4)}.txt"
        output.touch()
        order = {"words": [command, *words, "--no-browser"], "folder": str(self._folder), "output": str(output)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        server = Server(int(self._process.stdout.readline()), output)
        self._servers.append(server)
        return server


class Client:
    """A client that has signed in with the address of a server."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        assert place.hostname is not None
        self.host, self.port, self.cookie, self.csrf = place.hostname, place.port, "", ""
        code, headers, _ = self.ask("GET", f"/?{place.query}")
        if code == 200:
            self.cookie = headers["set-cookie"].split(";")[0]
            self.state: dict[str, Any] = self.get("state")
            self.csrf = self.state["csrf"]

    @property
    def origin(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> tuple[int, dict[str, str], bytes]:
        """One request. Headers are given with _ for -; None leaves one out that is usually sent."""
        usual = {
            "Cookie": self.cookie,
            **({"Origin": self.origin, "Content-Type": "application/json"} if method == "POST" else {}),
        }
        usual |= {"X-Softmatch": self.csrf} if method == "POST" else {}
        given = usual | {name.replace("_", "-").title(): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, body, {name: value for name, value in given.items() if value is not None})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Ask the page's interface for something."""
        code, _, content = self.ask("GET", f"/api/{path}")
        if code != 200:
            raise RuntimeError(f"{path}: {code} {content[:300]!r}")
        return json.loads(content)

    def post(self, path: str, **values: Any) -> Any:
        """Write something."""
        code, _, content = self.ask("POST", f"/api/{path}", json.dumps(values).encode())
        if code != 200:
            raise RuntimeError(f"{path}: {code} {content[:300]!r}")
        return json.loads(content)

    def label(self, samples: Sequence[int], label: str | None, how: str = "key", request: str = "") -> Any:
        """Label samples."""
        about = {"samples": samples, "label": label, "how": how, "request": request or secrets.token_hex(8)}
        return self.post("act", epoch=self.state["epoch"], **about)


def label_until_killed(server: Server, acknowledged: dict[str, str], moment: random.Random, longest: float = 0.5) -> None:
    """Label without pause while another thread kills the server, after its first answer; notes what was acknowledged."""
    client = Client(server.address)
    killer = threading.Timer(moment.uniform(0.0, longest), server.kill)
    try:
        while True:
            request, label = secrets.token_hex(8), moment.choice(LABELS)
            position = moment.randrange(client.state["total"])
            client.label([position], label, request=request)
            acknowledged[request] = label
            if killer.ident is None:
                killer.start()
            if moment.random() < 0.1:
                undone = secrets.token_hex(8)
                client.post("turn", request=undone, how="undo", epoch=client.state["epoch"])
                acknowledged[undone] = "undo"
    except (OSError, RuntimeError, ValueError):
        pass  # the server has gone
    except Exception as error:  # http.client has its own errors for half an answer
        if type(error).__module__ != "http.client":
            raise
    killer.join()


def lost_or_twice(project: Path, acknowledged: dict[str, str]) -> tuple[int, int]:
    """Acknowledged acts that are not in the log, and acts that are in it more than once."""
    whole = (project / "log.jsonl").read_bytes().rpartition(b"\n")[0]
    counts = Counter(json.loads(line)["request"] for line in whole.splitlines())
    return sum(request not in counts for request in acknowledged), sum(number > 1 for number in counts.values())


def main() -> None:
    """Fork a server for each order on standard input, and print its process number."""
    import sklearn.cluster
    import sklearn.decomposition
    import sklearn.linear_model
    import sklearn.neighbors  # noqa: F401  # all of them before the forks

    import softmatch.labeling.label_server  # noqa: F401  # likewise
    from softmatch.cli.app import main as run

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # dead servers leave at once
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.chdir(order["folder"])
        file = os.open(order["output"], os.O_WRONLY | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = run(order["words"])
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
