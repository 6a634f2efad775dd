"""The processes of a run: fixtures, the gateway and its bad neighbours, all on free ports of this machine."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from suite import FIXTURES, NODE, Broken

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "tests" / "stubs" / "stub.py"

UP_SECONDS = 60
STOP_SECONDS = 30  # more than the gateway's own timeouts.shutdown
NOISY_PREFIX = "noisy__"
NOISY_TOOL = {"name": "echo", "description": "Of the noisy neighbour", "inputSchema": {"type": "object"}}


class Misbehaved(Exception):
    """The gateway did not start, stay or stop as it must."""


@contextlib.contextmanager
def process(command, log, fault, env=None):
    """Runs a program for a while. It must live until it is told to stop, and then end with status 0."""
    with open(log, "wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
    told = False
    try:
        yield child
        told = child.poll() is None
    finally:
        if child.poll() is None:
            child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise fault(f"{log.stem} did not stop within {STOP_SECONDS} s of SIGTERM") from None
    if not told:
        raise fault(f"{log.stem} ended by itself, with status {child.returncode}")


@contextlib.contextmanager
def fixture(program, log):
    """One fixture over Streamable HTTP; yields its URL."""
    (port,) = free_ports(1)
    with process([NODE, FIXTURES / program, str(port)], log, Broken) as child:
        wait_for(lambda: connects(port), child, log, Broken)
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.contextmanager
def gateway(program, servers, folder):
    """Manifold in front of some servers, ready; yields its client URL."""
    client, admin = free_ports(2)
    config, log = folder / "manifold.toml", folder / "manifold.log"
    config.write_text(
        f'[listen]\naddress = "127.0.0.1:{client}"\n[admin]\naddress = "127.0.0.1:{admin}"\n' + "".join(servers)
    )
    env = {name: value for name, value in os.environ.items() if name not in ("MANIFOLD_CONFIG", "RUST_LOG")}
    with process([program, "serve", "--config", config], log, Misbehaved, env) as child:
        wait_for(lambda: answers_ok(f"http://127.0.0.1:{admin}/readyz"), child, log, Misbehaved)
        yield f"http://127.0.0.1:{client}/mcp"
    if child.returncode:
        raise Misbehaved(f"manifold ended with status {child.returncode} after SIGTERM")


@contextlib.contextmanager
def bad_neighbours(folder):
    """The configuration of three servers that must not hurt the one under test: one exits at once, one works but
    prints banners and garbage before every message, one accepts connections and says nothing."""
    scripts = folder / "noisy"
    scripts.mkdir()
    (scripts / "tools").write_text(json.dumps([NOISY_TOOL]))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        yield [
            server("exits", command=sys.executable, args=["-c", "raise SystemExit(3)"]),
            server("noisy", command=sys.executable, args=[str(STUB), str(scripts), "banner"], required=True),
            server("silent", url=f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"),
        ]


def server(name, **settings):
    """One server's table of the configuration."""
    return f"[servers.{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in settings.items())


def toml(value):
    return json.dumps(value, ensure_ascii=False)  # the same for strings, booleans and lists of them


def free_ports(count):
    """Ports that nobody listens on. All are held until the last is found, so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def wait_for(condition, child, log, fault):
    end = time.monotonic() + UP_SECONDS
    while not condition():
        if child.poll() is not None:
            raise fault(f"{log.stem} ended with status {child.returncode} before it was up: {last_line(log)}")
        if time.monotonic() > end:
            raise fault(f"{log.stem} was not up within {UP_SECONDS} s: {last_line(log)}")
        time.sleep(0.02)


def last_line(log):
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"


def connects(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def answers_ok(url):
    try:
        with DIRECT.open(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


# A proxy in the environment is not for this machine.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
