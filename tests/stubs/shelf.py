"""What the scripted server of stub.py has when it is given the flag `shelf`: all that a server can list.

In its folder it looks, at every request anew, for
    tools, prompts, resources, templates
                            the text of each array; one that is not there is empty, but for the built-in tools
    result-prompt-NAME, result-read-URI
                            the text of a result, with % for every /
    capabilities            the text of what it declares, instead of everything
    instructions            its instructions
    announce                {"round": N, "kinds": [KIND, ...], "times": N, "only": PID}: in every new round, each
                            process, or only that one, says so often of each kind (tools, prompts, resources) that its
                            list has changed
Flags:
    page=N          gives its lists in pages of N entries
    circle          gives the cursor of the second page again with the last one
    silent=METHOD   never answers requests of that method
    lacks=METHOD    does not know that method
    keeps           looks for its lists once, when it is started
Tools, beside those of stub.py:
    login           adds an entry to a list of this process alone and says so: arguments kind (tools, prompts, resources,
                    templates) and key, by default the tool `secret`
"""

import json
import os
import threading
import time

LISTS = {
    "tools/list": ("tools", "tools", "name"),
    "prompts/list": ("prompts", "prompts", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("templates", "resourceTemplates", "uriTemplate"),
}
EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
    "completions": {},
    "logging": {},
}
# As opaque as a cursor can be.
CURSOR = 'page "%d" /+=\\ \u00e9\U0001F600'


class Shelf:
    """`found` reads a file of the folder, `send` writes a message, `answer` the result of a request."""

    def __init__(self, flags, tools, found, send, answer):
        self.flags, self.tools = flags, tools
        self.found, self.send, self.answer = found, send, answer
        self.name = flags.get("named", "stub")
        self.own, self.kept = {}, {}
        if "keeps" in flags:
            self.kept = {kind: self.text(kind) for kind, _, _ in LISTS.values()}
        threading.Thread(target=self.announce, args=[self.round()], daemon=True).start()

    def handle(self, message):
        """Answers a message; says whether it was one of those that are answered here."""
        method = message.get("method")
        if method == self.flags.get("silent"):
            return True
        if method == self.flags.get("lacks"):
            return False
        if method in LISTS:
            self.list(message, *LISTS[method])
        elif method == "initialize":
            self.hello(message)
        elif method == "prompts/get":
            self.prompt(message)
        elif method == "resources/read":
            self.read(message)
        elif method == "completion/complete":
            ref, argument = message["params"]["ref"], message["params"]["argument"]
            values = [self.name, ref.get("name") or ref.get("uri"), argument["value"]]
            self.answer(message, json.dumps({"completion": {"values": values}}))
        elif method == "logging/setLevel":
            self.answer(message, "{}")
        elif method == "tools/call" and message["params"]["name"] == "login":
            self.login(message)
        else:
            return False
        return True

    def hello(self, message):
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": json.loads(self.found("capabilities") or json.dumps(EVERYTHING)),
            "serverInfo": {"name": self.name, "version": "1"},
        }
        if (instructions := self.found("instructions")) is not None:
            result["instructions"] = instructions.decode()
        self.answer(message, json.dumps(result))

    def list(self, message, kind, member, _):
        size = int(self.flags.get("page", 0))
        if not size and kind not in self.own:
            # The bytes of the file.
            self.answer(message, b'{"%s":%s}' % (member.encode(), self.text(kind)))
            return
        entries = json.loads(self.text(kind)) + self.own.get(kind, [])
        starts = range(0, len(entries), size or len(entries) or 1)
        cursors = {CURSOR % start: start for start in starts}
        start = 0
        if (cursor := (message.get("params") or {}).get("cursor")) is not None:
            if cursor not in cursors:
                self.refuse(message, {"code": -32602, "message": "Invalid cursor"})
                return
            start = cursors[cursor]
        end = start + (size or len(entries))
        result = {member: entries[start:end]}
        if end < len(entries):
            result["nextCursor"] = CURSOR % end
        elif "circle" in self.flags and size < len(entries):
            result["nextCursor"] = CURSOR % size
        self.answer(message, json.dumps(result))

    def text(self, kind):
        text = self.kept.get(kind) or self.found(kind)
        if text is None and kind == "tools":
            return json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]).encode()
        return b"[]" if text is None else text

    def prompt(self, message):
        name = message["params"]["name"]
        content = {"type": "text", "text": "%s says %s" % (self.name, name)}
        result = json.dumps({"messages": [{"role": "user", "content": content}]})
        self.answer(message, self.file("prompt", name) or result)

    def read(self, message):
        uri = message["params"]["uri"]
        if (result := self.file("read", uri)) is not None:
            self.answer(message, result)
        elif self.has(uri):
            contents = [{"uri": uri, "mimeType": "text/plain", "text": "%s has %s" % (self.name, uri)}]
            self.answer(message, json.dumps({"contents": contents}))
        else:
            self.refuse(message, {"code": -32002, "message": "Resource not found", "data": {"uri": uri}})

    def has(self, uri):
        resources = json.loads(self.text("resources")) + self.own.get("resources", [])
        templates = json.loads(self.text("templates")) + self.own.get("templates", [])
        listed = any(entry["uri"] == uri for entry in resources)
        return listed or any(uri.startswith(entry["uriTemplate"].partition("{")[0]) for entry in templates)

    def login(self, message):
        arguments = message["params"].get("arguments") or {}
        kind = arguments.get("kind", "tools")
        key = next(key for listed, _, key in LISTS.values() if listed == kind)
        entry = {"name": "secret", key: arguments.get("key", "secret")}
        if kind == "tools":
            entry["inputSchema"] = {"type": "object"}
        self.own.setdefault(kind, []).append(entry)
        self.changed("resources" if kind == "templates" else kind)
        self.answer(message, json.dumps({"content": [{"type": "text", "text": "logged in"}]}))

    def round(self):
        return json.loads(self.found("announce") or '{"round": 0}')

    def announce(self, last):
        while True:
            announced = self.round()
            if announced["round"] != last["round"]:
                last = announced
                if announced.get("only") not in (None, os.getpid()):
                    continue
                for _ in range(announced["times"]):
                    for kind in announced["kinds"]:
                        self.changed(kind)
                    time.sleep(0.0005)
            time.sleep(0.01)

    def changed(self, kind):
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/%s/list_changed" % kind}))

    def refuse(self, message, error):
        self.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))

    def file(self, what, key):
        return self.found("result-%s-%s" % (what, key.replace("/", "%")))
