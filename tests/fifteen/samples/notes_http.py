"""Notes over Streamable HTTP with FastMCP, both eras: paged lists, and names that no client may see as they are.

usage: notes_http.py PORT
"""

import sys

from fastmcp import FastMCP

server = FastMCP("notes", version="1.0.0", list_page_size=2)


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(name="notes.find / by word")
def find(word: str) -> str:
    """Has a name with characters that clients refuse."""
    return f"nothing about {word}"


@server.tool(name="find_all_notes_that_somebody_wrote_about_a_word_in_a_given_year")
def find_in_year(word: str, year: int) -> str:
    """Has a name that is too long behind a prefix."""
    return f"nothing about {word} in {year}"


@server.resource("note://today", mime_type="text/plain")
def today() -> str:
    """Has the same URI as a resource of the other sample."""
    return "FastMCP wrote this"


@server.resource("note://by-title/{title}", mime_type="text/plain")
def by_title(title: str) -> str:
    """Has the same template as the other sample."""
    return f"FastMCP wrote {title}"


@server.prompt
def summarize(topic: str) -> str:
    """Asks for a summary."""
    return f"Summarize the notes about {topic}."


server.run(
    transport="http",
    host="127.0.0.1",
    port=int(sys.argv[1]),
    path="/mcp",
    show_banner=False,
    log_level="WARNING",
)
