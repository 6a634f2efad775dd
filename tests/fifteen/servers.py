"""The servers, and what is harmless to ask each of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# More than a list waits for servers by default.
NAP = 12
"""Seconds that the slow server sleeps before it starts."""


@dataclass(frozen=True)
class Server:
    """One server behind the gateway.

    Arguments and variables may hold `{folder}`, `{site}` and `{port}`.
    """

    name: str
    era: str
    command: tuple[str, ...]
    tool: tuple[str, dict[str, Any]] | None = None
    """A tool with its arguments, that can be called again and again."""
    prompt: tuple[str, dict[str, str]] | None = None
    resource: str | None = None
    match: str | None = None
    """A URI that is not listed and matches a template."""
    env: dict[str, str] = field(default_factory=dict)
    http: bool = False
    """Serves `/mcp` on the port that its command names."""
    varies: tuple[str, ...] = ()
    """Regular expressions for what differs from one answer to the next."""
    noise: int = 0
    """Lines on stdout, at least, that are no messages."""
    slow: bool = False
    """Is not up when the first list is answered."""
    sick: bool = False
    """Never becomes ready."""

    @property
    def transport(self) -> str:
        return "http" if self.http else "stdio"


def _node(file: str, *args: str) -> tuple[str, ...]:
    return ("node", str(HERE / "node_modules" / file), *args)


def _python(sdk: str, *args: str) -> tuple[str, ...]:
    return (str(HERE / f"venv-{sdk}" / "bin" / "python"), *args)


def _script(sdk: str, name: str, *args: str) -> tuple[str, ...]:
    return (str(HERE / f"venv-{sdk}" / "bin" / name), *args)


def _sample(file: str) -> str:
    return str(HERE / "samples" / file)


# In this order they stand in the configuration.
SERVERS = (
    Server(
        name="everything",
        era="legacy",
        command=_node("@modelcontextprotocol/server-everything/dist/index.js"),
        tool=("echo", {"message": "zwölf €"}),
        prompt=("args-prompt", {"city": "Ulm"}),
        resource="demo://resource/static/document/features.md",
        match="demo://resource/dynamic/text/1",
        varies=(r"\d+:\d\d:\d\d [AP]M",),
    ),
    Server(
        # Its resources come on ten pages.
        name="everything-http",
        era="legacy",
        command=_node("everything-2025/dist/index.js", "streamableHttp"),
        env={"PORT": "{port}"},
        http=True,
        tool=("add", {"a": 2, "b": 3}),
        prompt=("simple_prompt", {}),
        resource="test://static/resource/1",
    ),
    Server(
        name="files",
        era="legacy",
        command=_node("@modelcontextprotocol/server-filesystem/dist/index.js", "{folder}/files"),
        tool=("read_text_file", {"path": "{folder}/files/a.txt"}),
    ),
    Server(
        name="memory",
        era="legacy",
        command=_node("@modelcontextprotocol/server-memory/dist/index.js"),
        env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
        tool=("read_graph", {}),
        resource="memory://knowledge-graph",
    ),
    Server(
        # An MCP App: its tools name a resource of its own.
        name="pdf",
        era="legacy",
        command=_node("@modelcontextprotocol/server-pdf/dist/index.js", "--stdio", "{folder}/page.pdf"),
        tool=("list_pdfs", {}),
        resource="ui://pdf-viewer/mcp-app.html",
    ),
    Server(
        name="context7",
        era="modern",
        command=_node("@upstash/context7-mcp/dist/index.js"),
        env={"CONTEXT7_API_URL": "{site}/api"},
        tool=("resolve-library-id", {"libraryName": "tokio", "query": "channels"}),
    ),
    Server(
        # A Go program behind a launcher that passes no signals on.
        name="sheets",
        era="legacy",
        command=_node("@negokaz/excel-mcp-server/dist/launcher.js"),
        tool=("excel_describe_sheets", {"fileAbsolutePath": "{folder}/sheet.xlsx"}),
    ),
    Server(
        name="kubernetes",
        era="modern",
        command=_node("kubernetes-mcp-server/bin/index.js", "--kubeconfig", "{folder}/kubeconfig"),
        tool=("configuration_view", {"minified": True}),
        prompt=("cluster-health-check", {}),
        varies=(r"\d{4}-\d\d-\d\dT[\d:]+Z",),
    ),
    Server(
        name="git",
        era="modern",
        command=_python("two", "-m", "mcp_server_git", "--repository", "{folder}/repository"),
        tool=("git_log", {"repo_path": "{folder}/repository"}),
    ),
    Server(
        name="fetch",
        era="modern",
        command=_python("two", "-m", "mcp_server_fetch", "--allow-private-ips"),
        tool=("fetch", {"url": "{site}/page"}),
        prompt=("fetch", {"url": "{site}/page"}),
    ),
    Server(
        name="arxiv",
        era="legacy",
        command=_python("one", "-m", "arxiv_mcp_server", "--storage-path", "{folder}/papers"),
        tool=("list_papers", {}),
        prompt=("summarize_paper", {"paper_id": "1706.03762"}),
    ),
    Server(
        # Prints lines on stdout before it serves; unbuffered, as in most containers, they come first.
        name="word",
        era="modern",
        command=_script("two", "word_mcp_server"),
        env={"PYTHONUNBUFFERED": "1"},
        noise=4,
        tool=("list_available_documents", {"directory": "{folder}/documents"}),
    ),
    Server(
        name="time",
        era="modern",
        command=("sh", "-c", f'sleep {NAP}; exec "$@"', "sh")
        + _python("two", "-m", "mcp_server_time", "--local-timezone", "UTC"),
        slow=True,
        tool=("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        varies=(r"\d{4}-\d\d-\d\d", "(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"),
    ),
    Server(
        name="notes",
        era="modern",
        command=_python("two", _sample("notes_http.py"), "{port}"),
        http=True,
        tool=("notes.find / by word", {"word": "rust"}),
        prompt=("summarize", {"topic": "rust"}),
        resource="note://today",
        match="note://by-title/rust",
    ),
    Server(
        name="board",
        era="modern",
        command=("node", _sample("board_http.mjs"), "{port}"),
        http=True,
        tool=("pin", {"title": "rust"}),
        prompt=("summarize", {"topic": "rust"}),
        resource="note://today",
        match="note://by-title/rust",
    ),
    Server(
        # Made for version 1 of its SDK, installed with version 2: dies at every start.
        name="sqlite",
        era="modern",
        command=_script("two", "mcp-server-sqlite", "--db-path", "{folder}/data.sqlite"),
        sick=True,
    ),
    Server(
        name="silent",
        era="legacy",
        command=(sys.executable, _sample("silent.py")),
        sick=True,
    ),
)
