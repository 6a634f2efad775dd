"""The servers without the gateway: what they list, and what they answer."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import Server
from wire import KINDS, Broken, Http, Json, Refused, Session, Stdio, end_group

MARK = "MANIFOLD_FIFTEEN"
"""The variable that every process of a run carries."""

_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Place:
    """Where the servers of one run live."""

    folder: Path
    site: str
    mark: str
    ports: dict[str, int]
    """By name, of the HTTP servers."""

    def fill_in(self, server: Server, value: Any) -> Any:
        """Replaces the placeholders in all strings of a JSON value."""
        if isinstance(value, str):
            for name, text in (
                ("{folder}", str(self.folder)),
                ("{site}", self.site),
                ("{port}", str(self.ports.get(server.name, ""))),
            ):
                value = value.replace(name, text)
        elif isinstance(value, dict):
            return {key: self.fill_in(server, item) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            return [self.fill_in(server, item) for item in value]
        return value

    def variables(self, server: Server) -> dict[str, str]:
        """What a server gets on top of what is inherited."""
        own = {"HOME": str(self.folder / "home"), "NO_PROXY": "127.0.0.1", MARK: self.mark}
        return own | self.fill_in(server, server.env)

    def environment(self, server: Server) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return inherited | self.variables(server)

    def command(self, server: Server) -> list[str]:
        return self.fill_in(server, server.command)

    def url(self, server: Server) -> str:
        return f"http://127.0.0.1:{self.ports[server.name]}/mcp"

    def log(self, server: Server) -> Path:
        return self.folder / "logs" / f"{server.name}.log"


@dataclass(frozen=True)
class Question:
    """One request about one thing of a server."""

    kind: str
    method: str
    key: str
    """The parameter that names the thing."""
    name: str
    """In the server's own words."""

    def params(self, place: Place, server: Server, name: str) -> Json:
        arguments = {"tools": server.tool, "prompts": server.prompt}.get(self.kind)
        return {self.key: name} | ({"arguments": place.fill_in(server, arguments[1])} if arguments else {})


def questions(server: Server, kinds: list[str]) -> list[Question]:
    """What the table says that is harmless to ask."""
    all_of_them = (
        Question("tools", "tools/call", "name", server.tool[0]) if server.tool else None,
        Question("prompts", "prompts/get", "name", server.prompt[0]) if server.prompt else None,
        Question("resources", "resources/read", "uri", server.resource) if server.resource else None,
        Question("templates", "resources/read", "uri", server.match) if server.match else None,
    )
    return [question for question in all_of_them if question and question.kind in kinds]


@dataclass
class Known:
    """What one server is."""

    seconds: float
    """From its start to its first answer."""
    lists: dict[str, list[Json]] = field(default_factory=dict)
    """By kind."""
    answers: dict[Question, Json] = field(default_factory=dict)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


class HttpServer:
    """A server that listens, from its start to `close`."""

    def __init__(self, server: Server, place: Place, patience: float = 60.0) -> None:
        started = time.monotonic()
        with place.log(server).open("wb") as log:
            self._child = subprocess.Popen(
                place.command(server),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=place.environment(server),
                cwd=place.folder,
                start_new_session=True,
            )
        address = ("127.0.0.1", place.ports[server.name])
        while True:
            try:
                socket.create_connection(address, timeout=1).close()
                break
            except OSError:
                pass
            if self._child.poll() is not None or time.monotonic() > started + patience:
                self.close()
                raise Broken(f"{server.name} does not listen; see {place.log(server)}")
            time.sleep(0.1)
        self.seconds = time.monotonic() - started

    @property
    def group(self) -> int:
        return self._child.pid

    def close(self) -> None:
        end_group(self._child, patience=0.0 if self._child.poll() is not None else 1.0)


def ask(server: Server, place: Place, running: HttpServer | None, kinds: list[str]) -> Known:
    """Everything that a client of the server's own era is told by it."""
    started = time.monotonic()
    channel = (
        Http(place.url(server))
        if server.http
        else Stdio(place.command(server), place.environment(server), place.folder, place.log(server))
    )
    session = None
    try:
        session = Session(channel, server.era)
        known = Known(seconds=running.seconds if running else time.monotonic() - started)
        for kind in kinds:
            known.lists[kind] = session.lists(KINDS[kind])
        asked = questions(server, kinds)
        for question in asked:
            params = question.params(place, server, question.name)
            known.answers[question] = session.request(question.method, params)
        unasked = {kind for kind, items in known.lists.items() if items} - {question.kind for question in asked}
        if unasked - {"templates"}:
            raise Broken(f"{server.name} lists {sorted(unasked)}, and the table does not say what to ask")
        return known
    except (Broken, Refused) as error:
        raise Broken(f"{server.name}, asked directly: {error}") from error
    finally:
        if session:
            session.close()
        else:
            channel.close({})


def left(mark: str, except_groups: set[int]) -> dict[int, str]:
    """The processes that carry the mark of a run, with their command lines."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            pid = int(folder.name)
            if os.getpgid(pid) not in except_groups:
                found[pid] = command.strip()
        except OSError:
            continue  # It is gone, or another user's.
    return found
