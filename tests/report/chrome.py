"""A headless Chromium driven over its DevTools protocol: just enough to open a page, look at it and touch it."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0"),
)


def find_browser() -> str:
    """The browser's path; a clear error where there is none, for a test that does not run proves nothing."""
    given = os.environ.get("SOFTMATCH_CHROMIUM")
    found = shutil.which(given) if given else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError(
            f"the report's tests need a browser: {given or ', '.join(NAMES)} was not found. "
            "Install it (Debian: apt-get install chromium) or set SOFTMATCH_CHROMIUM to its path."
        )
    return found


class Chrome:
    """One browser with one page. `problems` and `requests` collect what happened since `open`."""

    def __init__(self, profile: Path, patience: float = 30.0) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._number = 0
        self._patience = patience
        self._process = subprocess.Popen(
            [find_browser(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port, path = self._wait_for(profile / "DevToolsActivePort")
            self._socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=patience, suppress_origin=True)
        except BaseException:
            self._end()
            raise
        self._session: str | None = None
        page = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _wait_for(self, file: Path) -> tuple[str, str]:
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            if file.exists() and len(lines := file.read_text().split()) == 2:
                return lines[0], lines[1]
            if self._process.poll() is not None:
                raise RuntimeError(f"the browser ended at once, with exit code {self._process.returncode}.")
            time.sleep(0.02)
        raise RuntimeError("the browser did not open its debugging port.")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command; returns its answer. Events that arrive meanwhile are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while (answer := self._receive()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(f"console.{params['type']}: {params['args']}")
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"log: {params['entry']['text']}")
            case "Page.javascriptDialogOpening":  # a page that asks whether to leave it; its answer is not waited for
                answer = {
                    "id": 0,
                    "method": "Page.handleJavaScriptDialog",
                    "params": {"accept": True},
                    "sessionId": self._session,
                }
                self._socket.send(json.dumps(answer))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
        self._events.append(message)
        return message

    def open(self, url: str, *, width: int = 1200, height: int = 800, dark: bool = False, scripts: bool = True) -> None:
        """Load a page and wait until it is drawn. A width below 600 is a phone."""
        self.resize(width, height)
        self.scheme(dark)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.problems.clear()
        self.requests.clear()
        self._events.clear()
        self.send("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._receive()
        if scripts:
            self.settle()

    def resize(self, width: int, height: int = 800) -> None:
        phone = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone
        )

    def scheme(self, dark: bool) -> None:
        value = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def settle(self) -> None:
        """Wait for two frames: observers have run and canvases are drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20))))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        try:
            answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        except RuntimeError as error:
            if "navigated" not in str(error) and "context" not in str(error):
                raise
            time.sleep(0.1)  # the page has led to another one meanwhile
            return self.run(script)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key: str, shift: bool = False) -> None:
        code, text = KEYS.get(key) or ord(key.upper()), "\r" if key == "Enter" else key if len(key) == 1 else ""
        for kind, typed in (("keyDown", {"text": text} if text else {}), ("keyUp", {})):
            self.send(
                "Input.dispatchKeyEvent",
                **{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0, **typed},
            )
        self.settle()

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        self.settle()
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        try:
            self._session = None
            self.send("Browser.close")
            self._socket.close()
            self._process.wait(5)
        except (OSError, RuntimeError, websocket.WebSocketException, subprocess.TimeoutExpired):
            self._socket.close()
        finally:
            self._end()

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
    "Enter": 13,
    "Escape": 27,
    "?": 191,
}
