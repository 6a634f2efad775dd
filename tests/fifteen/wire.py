"""A client of both eras of the protocol, over stdio and over Streamable HTTP.

A channel carries messages, a session knows an era. Over HTTP many threads may use one session at a time, over
stdio one.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import queue
import signal
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CLIENT = {"name": "fifteen", "version": "1"}
PATIENCE = 170.0
"""Seconds that an answer may take: more than what a server needs to start on a busy machine."""

_META = "io.modelcontextprotocol/"
_METHOD_NOT_FOUND = -32601
_MAX_PAGES = 100

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One of the four lists of a server."""

    name: str
    method: str
    field: str
    key: str
    capability: str


KINDS = {
    kind.name: kind
    for kind in (
        Kind("tools", "tools/list", "tools", "name", "tools"),
        Kind("prompts", "prompts/list", "prompts", "name", "prompts"),
        Kind("resources", "resources/list", "resources", "uri", "resources"),
        Kind("templates", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
    )
}


class Refused(Exception):
    """The answer is a JSON-RPC error."""

    def __init__(self, error: Json) -> None:
        super().__init__(json.dumps(error))
        self.code = error.get("code")


class Broken(Exception):
    """No answer, or none that is one."""


class Channel(Protocol):
    def exchange(self, message: Json, headers: dict[str, str]) -> Json:
        """Sends a request and returns the response to it."""

    def notify(self, message: Json, headers: dict[str, str]) -> None: ...

    def listen(self, headers: dict[str, str]) -> Iterator[Json]: ...

    def close(self, headers: dict[str, str]) -> None: ...


class Session:
    """What a client does after it is connected. Ids count from 1."""

    def __init__(self, channel: Channel, era: str) -> None:
        self.channel = channel
        self.era = era
        self.hello: Json = {}
        self._headers: dict[str, str] = {}
        self._ids = itertools.count(1)
        if era == "modern":
            self.hello = self.request("server/discover")
        else:
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
            self.hello = self.request("initialize", params)
            self._headers["MCP-Protocol-Version"] = self.hello["protocolVersion"]
            message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            self.channel.notify(message, self._headers)

    def request(self, method: str, params: Json | None = None) -> Json:
        """The result. Raises Refused or Broken."""
        params = dict(params or {})
        headers = dict(self._headers)
        if self.era == "modern":
            params["_meta"] = {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": CLIENT,
                f"{_META}clientCapabilities": {},
            }
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            if name := params.get("name") or params.get("uri"):
                headers["Mcp-Name"] = name
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        answer = self.channel.exchange(message, headers)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def lists(self, kind: Kind) -> list[Json]:
        """All pages of a list; nothing when the server has none of it."""
        if kind.capability not in self.hello["capabilities"]:
            return []
        items: list[Json] = []
        params: Json = {}
        for _ in range(_MAX_PAGES):
            try:
                page = self.request(kind.method, params)
            except Refused as refusal:
                if refusal.code == _METHOD_NOT_FOUND:
                    return items
                raise
            items += page[kind.field]
            if page.get("nextCursor") is None:
                return items
            params = {"cursor": page["nextCursor"]}
        raise Broken(f"{kind.method} has more than {_MAX_PAGES} pages")

    def listen(self) -> Iterator[Json]:
        """What the server says of itself, until it ends the stream."""
        return self.channel.listen(self._headers)

    def close(self) -> None:
        self.channel.close(self._headers)


class Stdio:
    """A child process of its own process group."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path, log: Path) -> None:
        with log.open("wb") as stderr:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        self._log = log
        self._answers: queue.Queue[Json | None] = queue.Queue()
        self.noise = 0
        threading.Thread(target=self._read, daemon=True).start()

    def exchange(self, message: Json, headers: dict[str, str]) -> Json:
        self.notify(message, headers)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise Broken(f"no answer to {message['method']} in {PATIENCE:.0f} s") from None
            if answer is None:
                raise Broken(f"it ended: {self._last_words()}")
            if answer.get("id") == message["id"]:
                return answer

    def notify(self, message: Json, headers: dict[str, str]) -> None:
        line = json.dumps(message).encode() + b"\n"
        try:
            self._child.stdin.write(line)
            self._child.stdin.flush()
        except OSError as error:
            raise Broken(f"{error}: {self._last_words()}") from error

    def listen(self, headers: dict[str, str]) -> Iterator[Json]:
        raise NotImplementedError

    def close(self, headers: dict[str, str]) -> None:
        with contextlib.suppress(OSError):  # It has ended, and what was still to be written with it.
            self._child.stdin.close()
        end_group(self._child, patience=3.0)

    def _read(self) -> None:
        for line in self._child.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self.noise += 1
                continue
            if "method" not in message:
                self._answers.put(message)
            elif "id" in message:
                # It asks for something that was not offered.
                error = {"code": _METHOD_NOT_FOUND, "message": "not offered"}
                with contextlib.suppress(Broken):
                    self.notify({"jsonrpc": "2.0", "id": message["id"], "error": error}, {})
        self._answers.put(None)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing on stderr"


class Http:
    """One connection a request, as far as the server is concerned."""

    def __init__(self, url: str) -> None:
        self._url = urllib.parse.urlsplit(url)
        self._session: dict[str, str] = {}

    def exchange(self, message: Json, headers: dict[str, str]) -> Json:
        connection, response = self._send("POST", headers, message)
        try:
            self._keep_session(response)
            if _is_stream(response):
                until = time.monotonic() + PATIENCE
                for event in events(response):
                    if event.get("id") == message["id"] and "method" not in event:
                        return event
                    if time.monotonic() > until:
                        raise Broken(f"no answer to {message['method']} in {PATIENCE:.0f} s")
                raise Broken(f"the stream of {message['method']} ended without an answer")
            body = response.read()
            try:
                answer = json.loads(body)
            except ValueError:
                raise Broken(f"status {response.status}: {body[:200]!r}") from None
            if answer.get("id") != message["id"]:
                raise Broken(f"status {response.status}, not an answer to {message['id']}: {body[:200]!r}")
            return answer
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"{message['method']}: {error!r}") from error
        finally:
            connection.close()

    def notify(self, message: Json, headers: dict[str, str]) -> None:
        connection, response = self._send("POST", headers, message)
        body = response.read()
        connection.close()
        if response.status >= 300:
            raise Broken(f"{message['method']}: status {response.status}: {body[:200]!r}")

    def listen(self, headers: dict[str, str]) -> Iterator[Json]:
        """The messages of the GET stream, until it ends."""
        connection, response = self._send("GET", headers)
        try:
            if not _is_stream(response):
                raise Broken(f"GET: status {response.status}: {response.read()[:200]!r}")
            yield from events(response)
        finally:
            connection.close()

    def close(self, headers: dict[str, str]) -> None:
        if self._session:
            connection, response = self._send("DELETE", headers)
            response.read()
            connection.close()

    def _send(
        self, verb: str, headers: dict[str, str], message: Json | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port, timeout=PATIENCE)
        body = None if message is None else json.dumps(message)
        headers = {
            "Accept": "text/event-stream" if verb == "GET" else "application/json, text/event-stream",
            **({} if body is None else {"Content-Type": "application/json"}),
            **headers,
            **self._session,
        }
        try:
            connection.request(verb, self._url.path, body=body, headers=headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Broken(f"{verb} {self._url.geturl()}: {error!r}") from error

    def _keep_session(self, response: http.client.HTTPResponse) -> None:
        if session := response.getheader("Mcp-Session-Id"):
            self._session = {"Mcp-Session-Id": session}


def events(response: http.client.HTTPResponse) -> Iterator[Json]:
    """The messages of an event stream. Events without data are there to be resumed from: not done here."""
    data: list[str] = []
    for line in response:
        text = line.decode().rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))
        elif not text:
            if joined := "\n".join(data):
                yield json.loads(joined)
            data = []


def end_group(child: subprocess.Popen[bytes], patience: float) -> None:
    """Waits for the end, asks for it, enforces it, for `patience` seconds each; then for the whole group."""
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None:
            _signal_group(child.pid, sign)
        try:
            child.wait(timeout=patience)
            break
        except subprocess.TimeoutExpired:
            continue
    _signal_group(child.pid, signal.SIGKILL)


def _signal_group(group: int, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, sign)


def _is_stream(response: http.client.HTTPResponse) -> bool:
    return response.getheader("Content-Type", "").startswith("text/event-stream")
