"""The gateway under test: its configuration, its process, what it says about itself."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from direct import MARK, Place
from servers import Server
from wire import Broken, Json

SETTLE = 30.0
"""Seconds that an end may take: `timeouts.shutdown` is 25."""


def configuration(servers: tuple[Server, ...], place: Place) -> str:
    """All servers as a user writes them down, everything else as it is by default."""
    lines = ["[listen]", 'address = "127.0.0.1:0"', "[admin]", 'address = "127.0.0.1:0"']
    for server in servers:
        lines.append(f"[servers.{server.name}]")
        if server.http:
            lines.append(f"url = {_toml(place.url(server))}")
            continue
        command, *args = place.command(server)
        variables = ", ".join(f"{name} = {_toml(value)}" for name, value in place.variables(server).items())
        lines += [
            f"command = {_toml(command)}",
            f"args = {_toml(args)}",
            f"env = {{ {variables} }}",
            f"cwd = {_toml(str(place.folder))}",
        ]
    return "\n".join(lines) + "\n"


class Gateway:
    """A running gateway. It is ended by `stop`, or killed by `close`."""

    def __init__(self, binary: Path, config: str, place: Place) -> None:
        file = place.folder / "manifold.toml"
        file.write_text(config)
        self.log = place.folder / "logs" / "manifold.log"
        self.started = time.monotonic()
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                [str(binary), "serve", "--config", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, MARK: place.mark},
                cwd=place.folder,
                start_new_session=True,
            )
        try:
            self.listen, self.admin = self._addresses()
        except Broken:
            self.close()
            raise
        self.up_after: dict[str, float] = {}
        """By server: the seconds after which `/status` first called it ready."""
        self._watch = threading.Event()
        threading.Thread(target=self._note_starts, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{self.listen}/mcp"

    def age(self) -> float:
        return time.monotonic() - self.started

    def servers(self) -> dict[str, Json]:
        """What `/status` says, by server."""
        return {server["name"]: server for server in json.loads(self.ask("/status"))["servers"]}

    def ask(self, path: str) -> str:
        host, port = self.admin.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"{path}: {error!r}") from error
        finally:
            connection.close()

    def stop(self) -> int | None:
        """Asks for the end: the exit code, or nothing when it does not come."""
        self._watch.set()
        self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(timeout=SETTLE)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()

    def _addresses(self, patience: float = 30.0) -> tuple[str, str]:
        until = time.monotonic() + patience
        while time.monotonic() < until:
            code = self._child.poll()
            for line in self.log.read_text(errors="replace").splitlines():
                entry = json.loads(line) if line.startswith("{") else {}
                if "listen" in entry and "admin" in entry:
                    return entry["listen"], entry["admin"]
            if code is not None:
                raise Broken(f"the gateway ended with {code}:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.05)
        raise Broken(f"the gateway does not say where it listens:\n{self.log.read_text(errors='replace')}")

    def _note_starts(self) -> None:
        while not self._watch.wait(0.25):
            try:
                servers = self.servers()
            except (Broken, ValueError):
                continue
            for name, server in servers.items():
                if server["state"] == "ready":
                    self.up_after.setdefault(name, self.age())


def _toml(value: Any) -> str:
    # JSON strings and arrays of them are TOML, except for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
