"""The run: every step adds what it finds wrong to one list."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import exposed
import world
from direct import HttpServer, Known, Place, Question, ask, free_ports, left, questions
from exposed import GATEWAY, Names, Problem, own_result, own_uri, prefixed_uri, unavailable
from gateway import Gateway, configuration
from servers import SERVERS, Server
from wire import KINDS, Broken, Http, Json, Refused, Session

LIST_TIMEOUT = 5.0
"""`timeouts.list`, as it is by default."""
A_LITTLE = 5.0
UP = 180.0
"""Seconds in which all healthy servers are up: they burn CPU, and the machine may have other work."""
NEWS = 5.0
"""Seconds in which a session is told of a change: one, and some for a busy machine."""
AT_ONCE = 4
"""Servers that are asked directly at a time."""
NOT_UP = ("starting", "backoff", "crash_loop", "stopped")
TOOLS_CHANGED = "notifications/tools/list_changed"

HEALTHY = tuple(server for server in SERVERS if not server.sick)
SICK = tuple(server for server in SERVERS if server.sick)
LISTENING = tuple(server for server in SERVERS if server.http)

In = TypeVar("In")
Out = TypeVar("Out")


class Run:
    """One run in one folder, for some of the kinds of lists."""

    def __init__(self, binary: Path, kinds: list[str], folder: Path) -> None:
        self.problems: list[Problem] = []
        self.known: dict[str, Known] = {}
        self.gateway: Gateway | None = None
        self._binary = binary
        self._kinds = kinds
        self._folder = folder
        self._names: dict[str, Names] = {}
        self._listening: dict[str, HttpServer] = {}
        self._heard: set[str] = set()

    def steps(self) -> None:
        world.fill(self._folder)
        site = world.Site()
        ports = dict(zip((server.name for server in LISTENING), free_ports(len(LISTENING)), strict=True))
        self._place = Place(self._folder, site.url, f"{os.getpid()}-{time.time_ns()}", ports)
        try:
            self._step("asking every server directly", self._ask_directly)
            self.gateway = Gateway(self._binary, configuration(SERVERS, self._place), self._place)
            self._step("listing at once", self._list_at_once)
            self._step("waiting for all that is healthy", self._wait_for_all)
            self._step("looking at /status and /metrics", self._look_inside)
            self._step("asking through the gateway, 2025-11-25", self._ask_as_legacy_client)
            self._step("asking through the gateway, 2026-07-28", self._ask_as_modern_client)
            self._step("ending", self._end)
        finally:
            if self.gateway:
                self.gateway.close()
            for server in self._listening.values():
                server.close()
            self._nothing_is_left("run", set())
            site.shutdown()

    def _step(self, what: str, do: Callable[[], None]) -> None:
        print(f"{what} …", flush=True)
        started, before = time.monotonic(), len(self.problems)
        do()
        found = len(self.problems) - before
        print(f"    {time.monotonic() - started:.1f} s" + (f", {found} problems" if found else ""), flush=True)

    def _wrong(self, who: str, *texts: str) -> None:
        self.problems += [(who, text) for text in texts]

    def _ask_directly(self) -> None:
        def start(server: Server) -> None:
            self._listening[server.name] = HttpServer(server, self._place)

        def one(server: Server) -> Known:
            return ask(server, self._place, self._listening.get(server.name), self._kinds)

        _in_parallel(LISTENING, start, AT_ONCE)
        answers = _in_parallel(HEALTHY, one, AT_ONCE)
        self.known = {server.name: known for server, known in zip(HEALTHY, answers, strict=True)}

    def _list_at_once(self) -> None:
        self._session = Session(Http(self.gateway.url), "legacy")
        threading.Thread(target=self._hear, daemon=True).start()

        def one(kind: str) -> tuple[Json | None, float]:
            try:
                return self._session.request(KINDS[kind].method), self.gateway.age()
            except Refused as refusal:
                self._wrong(GATEWAY, f"{KINDS[kind].method}: {refusal}")
                return None, 0.0

        for kind, (result, age) in zip(tuple(self._kinds), _in_parallel(self._kinds, one, len(KINDS)), strict=True):
            if result is None:
                self._kinds.remove(kind)  # There is nothing more to be learnt about it.
                continue
            field = KINDS[kind].field
            away = self._away(kind, result)
            print(f"    {len(result[field])} {field}, {len(away)} servers missing, {age:.1f} s after the start")
            if age > LIST_TIMEOUT + A_LITTLE:
                self._wrong(GATEWAY, f"{field}: the first list came {age:.1f} s after the start")
            for server in SERVERS:
                if (server.sick or server.slow) and server.name not in away:
                    self._wrong(server.name, f"{field}: the first list does not say that it is missing")
            names = exposed.read(KINDS[kind], result[field], self._lists(kind))
            here = {name: items for name, items in self._lists(kind).items() if name not in away}
            self.problems += names.problems + names.missing(here)
            for name in {owner for owner, _ in names.exposed} & set(away):
                self._wrong(name, f"{field}: is said to be missing and is in the same list")

    def _wait_for_all(self) -> None:
        """The same session sees the lists become whole."""
        while True:
            results = {kind: self._session.request(KINDS[kind].method) for kind in self._kinds}
            whole = all(unavailable(result).keys() <= {server.name for server in SICK} for result in results.values())
            if whole or self.gateway.age() > UP:
                break
            time.sleep(0.5)
        self._names = {kind: self._check_whole(kind, result) for kind, result in results.items()}
        self._check_apps(results)
        if "tools" in self._kinds:
            self._check_news()

    def _check_whole(self, kind: str, result: Json) -> Names:
        """A list has all of the healthy servers, nothing else, and says what is wrong with the sick ones."""
        field = KINDS[kind].field
        names = exposed.read(KINDS[kind], result[field], self._lists(kind))
        self.problems += names.problems + names.missing(self._lists(kind))
        away = self._away(kind, result)
        for server in SERVERS:
            if server.sick and server.name not in away:
                self._wrong(server.name, f"{field}: the list does not say that it is missing")
            if not server.sick and server.name in away:
                self._wrong(server.name, f"{field}: is missing after {UP:.0f} s: {away[server.name]}")
        return names

    def _check_apps(self, results: dict[str, Json]) -> None:
        """Tools name the resources of their apps as the list of resources does."""
        if not {"tools", "resources"} <= set(self._kinds):
            return
        owners = {name: owner for (owner, _), name in self._names["tools"].exposed.items()}
        for tool in results["tools"]["tools"]:
            uri = tool.get("_meta", {}).get("ui", {}).get("resourceUri")
            if uri and tool["name"] in owners:
                self._check_uri(owners[tool["name"]], uri, f"tools: {tool['name']!r}")

    def _check_news(self) -> None:
        """The slow server's tools came after the first list: the session was told."""
        if not self._session.hello["capabilities"]["tools"].get("listChanged"):
            self._wrong(GATEWAY, "does not declare that it tells of changes in its tools")
            return
        until = time.monotonic() + NEWS
        while TOOLS_CHANGED not in self._heard:
            if time.monotonic() > until:
                self._wrong(GATEWAY, f"has not told its session of more tools in {NEWS:.0f} s")
                return
            time.sleep(0.1)

    def _look_inside(self) -> None:
        servers = self.gateway.servers()
        for server in HEALTHY:
            status = servers[server.name]
            said = (status["state"], status["era"], status["transport"])
            expected = ("ready", server.era, "streamable-http" if server.http else "stdio")
            if said != expected:
                self._wrong(server.name, f"/status says {said}, not {expected}")
            for kind in self._kinds:
                said, counted = status["counts"][kind], len(self._lists(kind)[server.name])
                if said != counted:
                    self._wrong(server.name, f"/status counts {said} {kind}, there are {counted}")
        for server in SICK:
            status = servers[server.name]
            if status["state"] not in NOT_UP:
                self._wrong(server.name, f"/status says {status['state']!r}")
        dead = servers["sqlite"]
        if not any("AttributeError" in line for line in dead["stderr_tail"]):
            self._wrong("sqlite", f"/status does not show why it dies: {dead['stderr_tail']}")
        if not dead["last_exit"] or dead["last_exit"]["code"] != 1:
            self._wrong("sqlite", f"/status does not show how it ended: {dead['last_exit']}")
        metrics = self.gateway.ask("/metrics")
        for server in HEALTHY:
            noise = re.search(rf'^manifold_stdout_noise_total{{server="{server.name}"}} (\d+)$', metrics, re.MULTILINE)
            if (int(noise[1]) if noise else 0) < server.noise:
                self._wrong(server.name, f"the noise on its stdout is not counted: {noise and noise[0]}")

    def _ask_as_legacy_client(self) -> None:
        self._ask_all(self._session)

    def _ask_as_modern_client(self) -> None:
        session = Session(Http(self.gateway.url), "modern")
        for kind in self._kinds:
            result = session.request(KINDS[kind].method)
            missing = _unlike_modern(result, KINDS[kind].method)
            self._wrong(GATEWAY, *(f"{session.era} client: {KINDS[kind].method}: {text}" for text in missing))
            self._check_whole(kind, result)
        self._ask_all(session)

    def _ask_all(self, session: Session) -> None:
        """Everything at once: the gateway starts the links that it needs."""

        def one(server: Server) -> None:
            for question in questions(server, self._kinds):
                self._ask(session, server, question)

        _in_parallel(HEALTHY, one, len(HEALTHY))

    def _ask(self, session: Session, server: Server, question: Question) -> None:
        direct = own_result(server, self.known[server.name].answers[question])
        for name, listed in self._forms(server, question):
            what = f"{session.era} client: {question.method} {name!r}"
            try:
                result = session.request(question.method, question.params(self._place, server, name))
            except (Broken, Refused) as error:
                self._wrong(server.name, f"{what}: {error}")
                continue
            found = exposed.differences(direct, own_result(server, result))
            if session.era == "modern":
                found += _unlike_modern(result, question.method)
            self._wrong(server.name, *(f"{what}: {text}" for text in found))
            if listed and "resources" in self._kinds:
                for uri in exposed.uris(result):
                    self._check_uri(server.name, uri, what)

    def _forms(self, server: Server, question: Question) -> list[tuple[str, bool]]:
        """What a client may call the thing that a question is about, and whether a list says so.

        A URI is accepted as it is listed and behind the prefix of its server.
        """
        names = self._names[question.kind].exposed
        prefixed = prefixed_uri(server.name, question.name)
        if question.kind == "templates":
            own = [item["uriTemplate"] for item in self._lists("templates")[server.name]]
            bare = all(names.get((server.name, template)) == template for template in own)
            return [(question.name, False), (prefixed, False)] if bare else [(prefixed, False)]
        listed = names.get((server.name, question.name))
        if listed is None:
            return []  # That it is missing is known.
        alias = question.kind == "resources" and listed != prefixed
        return [(listed, True), (prefixed, False)] if alias else [(listed, True)]

    def _check_uri(self, server: str, uri: str, where: str) -> None:
        """A URI in a message is the one in the list of resources."""
        own = own_uri(server, uri)
        listed = self._names["resources"].exposed.get((server, own), prefixed_uri(server, own))
        if uri != listed:
            self._wrong(server, f"{where}: has {uri!r}, the list of resources {listed!r}")

    def _end(self) -> None:
        self._session.close()
        code = self.gateway.stop()
        if code != 0:
            self._wrong(GATEWAY, f"did not end with 0 after SIGTERM: {code}")
        self._nothing_is_left(GATEWAY, {server.group for server in self._listening.values()})

    def _nothing_is_left(self, who: str, except_groups: set[int]) -> None:
        for pid, command in left(self._place.mark, except_groups).items():
            self._wrong(who, f"has left process {pid}: {command}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _hear(self) -> None:
        """Collects what the gateway tells its first session."""
        try:
            for message in self._session.listen():
                self._heard.add(message["method"])
        except (Broken, OSError, ValueError) as error:
            print(f"    the GET stream: {error!r}")

    def _lists(self, kind: str) -> dict[str, list[Json]]:
        return {name: known.lists[kind] for name, known in self.known.items()}

    def _away(self, kind: str, result: Json) -> dict[str, Json]:
        """What a list says is missing, after a look at how it says so."""
        away = unavailable(result)
        for name, entry in away.items():
            if entry.get("state") not in NOT_UP or not entry.get("reason"):
                self._wrong(name, f"{KINDS[kind].field}: is missing without a state or a reason: {entry}")
        return away


def _unlike_modern(result: Json, method: str) -> list[str]:
    """What a result of 2026-07-28 has to have and this one has not."""
    needed = ["resultType"] if method in ("tools/call", "prompts/get") else ["resultType", "ttlMs", "cacheScope"]
    missing = ", ".join(name for name in needed if name not in result)
    return [f"no {missing} in the result"] if missing else []


def _in_parallel(items: Sequence[In], do: Callable[[In], Out], at_once: int) -> list[Out]:
    """The first failure is raised when all that was begun has ended; an interrupt at once."""
    pool = ThreadPoolExecutor(at_once)
    try:
        return list(pool.map(do, items))
    except (Broken, Refused):
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
