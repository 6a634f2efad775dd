"""Drives one session with the Python SDK 2.x, whose Client asks `server/discover` first unless "mode" is "legacy".

The report must hold messages as they were received, but the SDK's models drop fields they do not know and fill in
defaults. So this driver calls the typed methods, as applications do (they validate outputs, mirror headers and retry),
and quotes the messages seen at the transport beneath them; progress too, as the SDK turns its integers into floats.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

NAME = "py2"
DEADLINE_S = 60
# One request may take this long: a probe that is never answered leaves room for the fallback.
REQUEST_TIMEOUT_S = 25
MAX_PAGES = 100
# What each "mode" means to the SDK; None leaves the choice to it.
MODES = {"auto": "auto", "default": None, "legacy": "legacy"}


@dataclass
class Exchange:
    """A request, its progress (without the token) and its answer (None while there is none)."""

    id: int | str
    method: str
    token: int | str | None
    progress: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] | None = None


class Wire:
    """Records every request that passes a transport together with its answer."""

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []

    @asynccontextmanager
    async def watch(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """A transport that works like the given one and is recorded."""
        async with transport as (read, write):
            yield ReadTap(read, self._received), WriteTap(write, self._sent)

    @property
    def mark(self) -> int:
        """The number of requests so far: `answers` can start there."""
        return len(self._exchanges)

    def answers(self, method: str, mark: int = 0) -> list[dict[str, Any] | None]:
        """The answers to requests of that method sent since `mark`; None for one that has none."""
        return [one.answer for one in self._exchanges[mark:] if one.method == method]

    def progress(self, mark: int) -> list[dict[str, Any]]:
        """The progress of all requests since `mark`."""
        return [step for one in self._exchanges[mark:] for step in one.progress]

    def _sent(self, item: Any) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            token = (message.params or {}).get("_meta", {}).get("progressToken")
            self._exchanges.append(Exchange(message.id, message.method, token))

    def _received(self, item: Any) -> None:
        message = getattr(item, "message", None)  # the transport also delivers exceptions
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            one = next((one for one in reversed(self._exchanges) if one.id == message.id), None)
            if one:
                one.answer = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/progress":
            step = dict(message.params or {})
            token = step.pop("progressToken", None)
            one = next((one for one in reversed(self._exchanges) if one.token == token), None)
            if one and token is not None:
                one.progress.append(step)


class Tap:
    """A stream that shows each item to an observer and otherwise is the stream it wraps."""

    def __init__(self, stream: Any, observe: Any) -> None:
        self._stream = stream
        self._observe = observe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Tap:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


class ReadTap(Tap):
    async def receive(self) -> Any:
        item = await self._stream.receive()
        self._observe(item)
        return item

    def __aiter__(self) -> ReadTap:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        self._observe(item)
        return item


class WriteTap(Tap):
    async def send(self, item: Any) -> None:
        self._observe(item)
        await self._stream.send(item)


async def main() -> int:
    transport, calls, mode = read_request()
    wire = Wire()
    options: dict[str, Any] = {"read_timeout_seconds": REQUEST_TIMEOUT_S}
    if MODES[mode] is not None:
        options["mode"] = MODES[mode]
    client = Client(
        wire.watch(transport),
        client_info=Implementation(name="manifold-peer-py2", version="1.0.0"),
        **options,
    )
    stage = "cannot connect"
    try:
        with anyio.fail_after(DEADLINE_S):
            async with client:
                stage = "session failed"
                report = {"client": NAME, **greeting(client, wire), **await tools(client, wire)}
                report["results"] = [await call_tool(client, call, wire) for call in calls]
                print(json.dumps(report), flush=True)
                stage = "session did not close"
    except TimeoutError:
        return complain(f"{stage}: not done within {DEADLINE_S} s", 1)
    except Exception as error:
        return complain(f"{stage}: {describe(error)}", 1)
    return 0


def greeting(client: Client, wire: Wire) -> dict[str, Any]:
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    answers = wire.answers("server/discover" if modern else "initialize")
    result = next(one["result"] for one in reversed(answers) if one and "result" in one)
    return {
        "protocolVersion": client.protocol_version,
        "era": "modern" if modern else "legacy",
        "serverInfo": result.get("serverInfo") or result.get("_meta", {}).get("io.modelcontextprotocol/serverInfo"),
        "capabilities": result.get("capabilities"),
        "instructions": result.get("instructions"),
    }


async def tools(client: Client, wire: Wire) -> dict[str, Any]:
    mark = wire.mark
    kept: set[str] = set()
    cursor = None
    try:
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            kept.update(tool.name for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            raise RuntimeError(f"the tool list has more than {MAX_PAGES} pages")
    except Exception as error:
        return {"tools": [], "droppedTools": [], "toolsError": failure(error, last(wire.answers("tools/list", mark)))}
    received = [tool for one in wire.answers("tools/list", mark) if one for tool in one["result"]["tools"]]
    dropped = [tool["name"] for tool in received if tool["name"] not in kept]
    return {"tools": received, "droppedTools": dropped}


async def call_tool(client: Client, call: dict[str, Any], wire: Wire) -> dict[str, Any]:
    mark = wire.mark

    async def on_progress(_progress: float, _total: float | None, _message: str | None) -> None:
        """Makes the SDK ask for progress."""

    try:
        await client.call_tool(
            call["name"],
            call.get("arguments"),
            read_timeout_seconds=DEADLINE_S,
            progress_callback=on_progress if call.get("progress") else None,
        )
        outcome = {"result": last(wire.answers("tools/call", mark))["result"]}
    except Exception as error:
        outcome = failure(error, last(wire.answers("tools/call", mark)))
    return {**outcome, "progress": wire.progress(mark)} if call.get("progress") else outcome


def failure(error: Exception, answer: dict[str, Any] | None) -> dict[str, Any]:
    """An error the server sent is `error`; anything else (refused result, timeout) is the SDK's own."""
    if answer and "error" in answer:
        return {"error": answer["error"]}
    code = error.code if isinstance(error, MCPError) else None
    return {"clientError": {"code": code, "message": describe(error)}, "received": answer}


def last(answers: list[dict[str, Any] | None]) -> Any:
    return answers[-1] if answers else None


def describe(error: BaseException) -> str:
    """The message, or those of the exceptions inside a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"


def read_request() -> tuple[Any, list[dict[str, Any]], str]:
    match sys.argv[1:]:
        case ["http", url]:
            transport = streamable_http_client(url)
        case ["stdio", command, *args]:
            # The SDK passes on a few variables only; a test must be able to set any.
            transport = stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))
        case _:
            raise SystemExit(complain(f"use: {NAME} http URL | {NAME} stdio COMMAND [ARG…]", 2))
    try:
        request = json.load(sys.stdin)
    except ValueError as error:
        raise SystemExit(complain(f"standard input is not one JSON object: {error}", 2)) from None
    calls, mode = request.get("calls", []), request.get("mode", "auto")
    if not isinstance(calls, list):
        raise SystemExit(complain('"calls" must be a list', 2))
    if mode not in MODES:
        raise SystemExit(complain(f'"mode" must be one of {", ".join(MODES)}', 2))
    return transport, calls, mode


def complain(message: str, code: int) -> int:
    print(f"{NAME}: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(anyio.run(main))
