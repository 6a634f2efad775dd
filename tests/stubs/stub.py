"""A scripted MCP server over stdio, of the legacy era, that tells its test everything it saw.

usage: stub.py FOLDER [FLAG ...]

In FOLDER it leaves
    starts          one line for every start: its process id
    PID.stdin       every byte it was sent
and looks for
    tools           the text of its array of tools, instead of the built-in one
    result-NAME     the text of the result of the tool NAME
Flags:
    banner          prints the kinds of noise that real servers print, at the start and before every answer
    crlf            ends lines the Windows way and begins with a byte order mark
    odd             sends messages that make no sense before every answer
    stderr=N        writes N bytes without a line end to stderr before anything else
    gate=FILE       answers nothing until FOLDER/FILE exists
    deaf            ignores the end of stdin, SIGTERM and SIGINT
    hidden          starts a grandchild in a session of its own
    named=NAME      says this name of itself
    shelf           lists prompts, resources and templates as well: see shelf.py, with more files and flags
It dies, like some servers do, when it is sent a carriage return or a byte order mark.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

FOLDER = sys.argv[1]
FLAGS = dict(flag.partition("=")[::2] for flag in sys.argv[2:])
TOOLS = ["echo", "wait", "progress", "size", "stderr", "pid"]
NOISE = (
    "\u2554\u2550\u2550 Welcome! \u2550\u2550\u2557\n\x1b[32mready\x1b[0m\n\n\n"
    '[INFO] {"a":1}\n{"level":"info","msg":"hi"}\n"str"\n42\nnull\n[]\n'
).encode()
ODD = (
    '{"jsonrpc":"2.0","id":null,"result":null,"error":null}\n'
    '{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"}}\n'
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"x"}}\n'
    '{"jsonrpc":"2.0","id":987654321,"result":{}}\n'
    '{"jsonrpc":"2.0","id":"987654321","result":{}}\n'
    '{"jsonrpc":"2.0","method":"notifications/vendor/foo"}\n'
    '{"jsonrpc":"2.0","method":"notifications/vendor/foo","params":{"a":1}}\n'
).encode()

out_lock = threading.Lock()
cancelled = {}
shelf = None
marks = [b"\xef\xbb\xbf"]


def write(data):
    with out_lock:
        os_write(data)


def os_write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]


def send(text):
    line = text.encode() if isinstance(text, str) else text
    if "crlf" in FLAGS:
        line = marks.pop() + line + b"\r\n" if marks else line + b"\r\n"
    else:
        line += b"\n"
    if "banner" in FLAGS:
        line = NOISE + line
    if "odd" in FLAGS:
        line = ODD + line
    write(line)


def answer(request, result):
    """Answers with the text of a result."""
    head = '{"jsonrpc":"2.0","id":%s,"result":' % json.dumps(request["id"])
    error = ',"error":null' if "odd" in FLAGS else ""
    send(head.encode() + (result if isinstance(result, bytes) else result.encode()) + error.encode() + b"}")


def text(words):
    return json.dumps({"content": [{"type": "text", "text": words}]}, ensure_ascii=False)


def progress(token, done):
    params = {"progressToken": token, "progress": done, "total": 10}
    send(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))


def in_folder(name):
    return os.path.join(FOLDER, name)


def found(name):
    try:
        with open(in_folder(name), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def wait_for(name, gone=lambda: False):
    while not os.path.exists(in_folder(name)):
        if gone():
            return False
        time.sleep(0.01)
    return True


def call(request):
    params = request["params"]
    name, arguments = params["name"], params.get("arguments") or {}
    if (result := found("result-" + name.replace("/", "%"))) is not None:
        if "progressToken" in params.get("_meta", {}):
            progress(params["_meta"]["progressToken"], 1)
        answer(request, result)
    elif name == "echo":
        time.sleep(random.random() * arguments.get("up_to_ms", 0) / 1000)
        answer(request, text(json.dumps(arguments)))
    elif name == "wait":
        key = json.dumps(request["id"])
        if "progressToken" in params.get("_meta", {}):
            progress(params["_meta"]["progressToken"], 1)
        if wait_for(arguments["file"], lambda: cancelled.get(key)):
            answer(request, text("waited"))
    elif name == "progress":
        # Without a token in the request, under the id: it's what a confused server would do.
        token = params.get("_meta", {}).get("progressToken", request["id"])
        progress("nobody's", 1)
        for done in range(1, 11):
            progress(token, done)
        answer(request, text("done"))
        progress(token, 11)
    elif name == "size":
        answer(request, text("x" * arguments["bytes"]))
    elif name == "stderr":
        os.write(2, b"e" * arguments["bytes"])
        answer(request, text("written"))
    elif name == "pid":
        answer(request, text(str(os.getpid())))
    else:
        answer(request, text("called as " + name))


def handle(message):
    method = message.get("method")
    if shelf is not None and shelf.handle(message):
        return
    if method == "initialize":
        answer(message, json.dumps({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": FLAGS.get("named", "stub"), "version": "1"},
        }))
    elif method == "tools/list":
        tools = found("tools")
        if tools is None:
            tools = json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]).encode()
        answer(message, b'{"tools":' + tools + b"}")
    elif method == "tools/call":
        threading.Thread(target=call, args=[message], daemon=True).start()
    elif method == "notifications/cancelled":
        cancelled[json.dumps(message["params"]["requestId"])] = True
    elif "id" in message and method is not None:
        error = {"code": -32601, "message": "Method not found"}
        send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))


def make_shelf():
    # No traces beside the sources.
    sys.dont_write_bytecode = True
    from shelf import Shelf

    return Shelf(FLAGS, TOOLS, found, send, answer)


def main():
    global shelf
    with open(in_folder("starts"), "a") as starts:
        starts.write("%d\n" % os.getpid())
    if "shelf" in FLAGS:
        shelf = make_shelf()
    if "deaf" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "hidden" in FLAGS:
        subprocess.Popen(
            [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    left = int(FLAGS.get("stderr", 0))
    while left > 0:
        left -= os.write(2, b"\xff\x1b[31m e"[:left] * 100 if left > 700 else b"e" * left)
    if "banner" in FLAGS:
        write(NOISE)
    if "gate" in FLAGS:
        wait_for(FLAGS["gate"])
    with open(in_folder("%d.stdin" % os.getpid()), "ab", buffering=0) as record:
        for line in sys.stdin.buffer:
            record.write(line)
            if b"\r" in line or line.startswith(b"\xef\xbb\xbf"):
                os._exit(0)
            handle(json.loads(line))
    while "deaf" in FLAGS:
        time.sleep(1)
    os._exit(0)


main()
