"""A headless Chromium, spoken to through a pipe: what it fetches, complains of and lays out."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# Without a name service or a proxy that answers there is no network.
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
)
# It reads commands at 3 and answers at 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Page:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log", "Audits", "Accessibility", "DOM"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command; events that come before it are kept."""
        self._last += 1
        session = {} if self._session is None else {"sessionId": self._session}
        message = json.dumps({"id": self._last, "method": method, "params": parameters, **session}).encode() + b"\0"
        while message:
            message = message[os.write(self._commands, message) :]
        while (answer := self._next()).get("id") != self._last:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def wait_for(self, method: str) -> None:
        """Until an event has come."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._answers, 1 << 16)
            if not data:
                raise RuntimeError("the browser is gone")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, url: str, width: int = 1280, height: int = 800, scheme: str = "light") -> None:
        """Load a page as a window of that width shows it."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.ask("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What a script would see."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def fetched(self) -> list[str]:
        """The addresses that were asked for."""
        asked = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in asked]

    def complaints(self) -> list[Any]:
        """Errors, warnings and issues of every kind, console and policy violations among them."""
        self.value("1")
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Audits.issueAdded")
        return [event["params"] for event in self.events if event.get("method") in kinds]

    def picture(self, path: Path, height: int | None = None) -> None:
        """The whole page as a PNG, or its upper part."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))

    def paper(self, path: Path) -> None:
        """The page as A4 sheets in a PDF."""
        sheets = self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(sheets["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A fresh browser with its profile in a folder; it ends with the context."""
    assert CHROMIUM is not None
    reads, commands = os.pipe()
    answers, writes = os.pipe()
    # Above 10, so that neither is in the other's way when the child moves them to 3 and 4.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reads, writes)]
    command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _START, *map(str, ends), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=ends,
    )
    for end in (reads, writes, *ends):
        os.close(end)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        process.terminate()
        process.wait(timeout=20)
