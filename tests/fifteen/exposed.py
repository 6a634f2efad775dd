"""What the gateway makes of a server's names, URIs and answers, and the way back.

Everything here is a pure function or a table.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from servers import Server
from wire import Json, Kind

ORIGIN = "dev.manifold/origin"
UNAVAILABLE = "dev.manifold/unavailable"
MAX_NAME = 48

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_ALTERED = re.compile(r"[A-Za-z0-9_-]+_[A-Za-z2-7]{6}")
# Results of 2026-07-28 have these, others need not.
_ENVELOPE = ("resultType", "ttlMs", "cacheScope")
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"

GATEWAY = "gateway"

Original = tuple[str, str]
"""A server and its own name or URI for a thing."""
Problem = tuple[str, str]
"""Whom it concerns, a server or the gateway, and what is wrong."""


def unavailable(result: Json) -> dict[str, Json]:
    """What a list says is missing, by server."""
    return {entry["server"]: entry for entry in result.get("_meta", {}).get(UNAVAILABLE, [])}


@dataclass
class Names:
    """Which exposed name or URI is whose, as one list of the gateway shows it."""

    kind: Kind
    exposed: dict[Original, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def missing(self, known: dict[str, list[Json]]) -> list[Problem]:
        """What is listed by these servers, but not by the gateway."""
        wanted = [(server, item[self.kind.key]) for server, items in known.items() for item in items]
        what = f"{self.kind.field}: not listed by the gateway:"
        return [(server, f"{what} {name!r}") for server, name in wanted if (server, name) not in self.exposed]


def read(kind: Kind, seen: list[Json], known: dict[str, list[Json]]) -> Names:
    """Finds the owner of every listed item and compares it with what the owner lists itself.

    `known` holds all servers in the order of the configuration.
    """
    names = Names(kind)
    originals = {(server, item[kind.key]): item for server, items in known.items() for item in items}
    shown = Counter(item[kind.key] for item in seen)
    for name, times in shown.items():
        if times > 1:
            names.problems.append((GATEWAY, f"{kind.field}: {name!r} is listed {times} times"))
    by_uri = kind.capability == "resources"
    forms = _forms_of_uris(originals, set(shown)) if by_uri else _forms_of_names(originals)
    for item in seen:
        name = item[kind.key]
        owner = forms.get(name)
        if origin := item.get("_meta", {}).get(ORIGIN):
            owner = (origin["server"], origin["name"])
            names.problems += [(owner[0], f"{kind.field}: {text}") for text in _ill_made(name, owner, forms)]
        if owner not in originals:
            names.problems.append((GATEWAY, f"{kind.field}: no server lists {name!r}"))
            continue
        if names.exposed.setdefault(owner, name) != name:
            names.problems.append((owner[0], f"{kind.field}: {owner[1]!r} is listed twice"))
        for text in differences(originals[owner], own_item(owner, item, kind)):
            names.problems.append((owner[0], f"{kind.field}: {name!r} {text}"))
    return names


def own_item(owner: Original, item: Json, kind: Kind) -> Json:
    """An item as its server lists it."""
    server, name = owner
    item = {**item, kind.key: name}
    if meta := item.get("_meta"):
        meta = {key: value for key, value in meta.items() if key != ORIGIN}
        if uri := meta.get("ui", {}).get("resourceUri"):
            meta["ui"] = {**meta["ui"], "resourceUri": own_uri(server, uri)}
        if uri := meta.get("ui/resourceUri"):
            meta["ui/resourceUri"] = own_uri(server, uri)
        item["_meta"] = meta
        if not meta:
            del item["_meta"]
    return item


def own_result(server: Server, result: Json) -> Json:
    """A result as the server answers it to a client of its own, without what belongs to one era."""
    result = {key: value for key, value in result.items() if key not in _ENVELOPE}
    meta = {key: value for key, value in result.pop("_meta", {}).items() if key != _SERVER_INFO}
    if meta:
        result["_meta"] = meta
    result = _map_uris(result, lambda uri: own_uri(server.name, uri))
    text = json.dumps(result, sort_keys=True)
    for pattern in server.varies:
        text = re.sub(pattern, "…", text)
    return json.loads(text)


def uris(result: Json) -> list[str]:
    """The URIs in a result that the gateway answers for."""
    found: list[str] = []
    _map_uris(result, lambda uri: found.append(uri) or uri)
    return found


def own_uri(server: str, uri: str) -> str:
    if uri.startswith(f"ui://{server}/"):
        return "ui://" + uri.removeprefix(f"ui://{server}/")
    return uri.removeprefix(f"{server}+")


def prefixed_uri(server: str, uri: str) -> str:
    return f"ui://{server}/" + uri.removeprefix("ui://") if uri.startswith("ui://") else f"{server}+{uri}"


def differences(expected: Any, seen: Any, limit: int = 300) -> list[str]:
    """At most one text, with the first place where two JSON values differ."""
    place = _first_difference(expected, seen, "")
    if place is None:
        return []
    path, left, right = place
    left, right = (json.dumps(value, ensure_ascii=False)[:limit] for value in (left, right))
    return [f"differs at {path or '/'}: directly {left}, through the gateway {right}"]


_ABSENT = "(absent)"


def _first_difference(left: Any, right: Any, path: str) -> tuple[str, Any, Any] | None:
    if type(left) is not type(right):
        return path, left, right
    if isinstance(left, dict):
        keys = [*left, *(key for key in right if key not in left)]
        pairs = [(key, left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in keys]
    elif isinstance(left, list) and len(left) == len(right):
        pairs = [(index, *pair) for index, pair in enumerate(zip(left, right, strict=True))]
    else:
        return None if left == right else (path, left, right)
    return next((place for key, *pair in pairs if (place := _first_difference(*pair, f"{path}/{key}"))), None)


def _forms_of_names(originals: dict[Original, Json]) -> dict[str, Original]:
    """The exposed names that need no alteration."""
    forms = {f"{server}__{name}": (server, name) for server, name in originals}
    return {form: owner for form, owner in forms.items() if _SAFE.fullmatch(form) and len(form) <= MAX_NAME}


def _forms_of_uris(originals: dict[Original, Json], seen: set[str]) -> dict[str, Original]:
    """Bare for one claimant, behind its prefix for every other."""
    forms: dict[str, Original] = {}
    for server, uri in originals:
        prefixed = prefixed_uri(server, uri)
        forms[prefixed if prefixed in seen or uri in forms else uri] = (server, uri)
    return forms


def _ill_made(exposed: str, owner: Original, plain: dict[str, Original]) -> list[str]:
    """What is wrong with a name that was made safe."""
    wrong = []
    if owner in plain.values():
        wrong.append("needed no change")
    if not _ALTERED.fullmatch(exposed) or not exposed.startswith(f"{owner[0]}__"):
        wrong.append("has not the form of a changed name")
    if len(exposed) > MAX_NAME:
        wrong.append(f"is longer than {MAX_NAME}")
    return [f"{exposed!r}, which is {owner[1]!r}, {text}" for text in wrong]


def _map_uris(result: Json, change: Any) -> Json:
    """A result of a tool call, a prompt or a read with its URIs changed; texts are left alone."""
    result = dict(result)
    if "contents" in result:
        result["contents"] = [{**item, "uri": change(item["uri"])} for item in result["contents"]]
    if "content" in result:
        result["content"] = [_map_block(block, change) for block in result["content"]]
    if "messages" in result:
        result["messages"] = [
            {**message, "content": _map_block(message["content"], change)} for message in result["messages"]
        ]
    return result


def _map_block(block: Json, change: Any) -> Json:
    if block.get("type") == "resource_link":
        return {**block, "uri": change(block["uri"])}
    if block.get("type") == "resource":
        return {**block, "resource": {**block["resource"], "uri": change(block["resource"]["uri"])}}
    return block
