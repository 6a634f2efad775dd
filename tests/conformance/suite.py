"""The official conformance suite: how it is installed, run and read."""

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
SUMS = FIXTURES / "SHA256SUMS"
MODULES = FIXTURES / "node_modules"
NODE = MODULES / ".bin" / "node"  # pinned like the rest: the suite needs Node.js 22
SUITE = MODULES / "@modelcontextprotocol" / "conformance"

SUITE_SECONDS = 300  # all scenarios of one run

# Whoever ends the HTTP produces these results, so there is nothing to compare with a direct run.
GATEWAYS_OWN = re.compile(r"(server-|dns-|ping$|caching$)")
# The suite adds this check to every scenario. It holds when nothing was said, so it is no success by itself.
SCHEMA_CHECK = "wire-schema-"
# What differs between any two runs, or belongs to the hop and not to the result.
VOLATILE = re.compile(
    r"id|.*sessionId|.*requestState|timestamp|.*duration.*|contentTypes?|numSseStreams|.*count|messagesValidated"
    r"|serverUrl|io\.modelcontextprotocol/(serverInfo|subscriptionId)",
    re.IGNORECASE,
)
MISSING = object()


class Broken(Exception):
    """The harness can't do its work: this says nothing about the gateway."""


@dataclass(frozen=True)
class Requirements:
    """What one revision asks of servers, in the suite's order."""

    scored: list[str]
    not_scored: list[str]

    @property
    def all(self):
        return self.scored + self.not_scored


@dataclass(frozen=True)
class Outcome:
    """What the suite saw in one scenario."""

    scenario: str
    checks: list[dict]

    @property
    def passed(self):
        """No check failed and one of the scenario's own succeeded. The suite is content with the former, and so lets
        a port that nobody listens on pass where a scenario only warns."""
        failed = any(check["status"] == "FAILURE" for check in self.checks)
        return not failed and any(check["status"] == "SUCCESS" for check in self.own_checks)

    @property
    def own_checks(self):
        return [check for check in self.checks if not check["id"].startswith(SCHEMA_CHECK)]

    @property
    def complaints(self):
        """Why it did not pass, one line a check."""
        if not self.checks:
            return ["not run"]
        bad = [check for check in self.checks if check["status"] in ("FAILURE", "WARNING")]
        return [f"{check['id']}: {reason(check)}" for check in bad] or ["no check succeeded"]

    @cached_property
    def evidence(self):
        """What each check received from the server."""
        return {check["id"]: {"status": check["status"], **(check.get("details") or {})} for check in self.own_checks}


def reason(check):
    said = check.get("errorMessage") or json.dumps(check.get("details") or check.get("description"))
    return shortened(" ".join(said.split()), 300)


def shortened(text, limit):
    return text if len(text) <= limit else text[: limit - 1] + "…"


def verify_fixtures():
    """Every file of the fixtures is named by the checked-in sums, and is what they say."""
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", SUMS.name], cwd=FIXTURES, capture_output=True, text=True
    )
    if checked.returncode:
        raise Broken(f"the fixtures are not the checked-in ones:\n{(checked.stdout + checked.stderr).strip()}")
    named = {line.split()[1].lstrip("*") for line in SUMS.read_text().splitlines()}
    there = {path.name for path in FIXTURES.iterdir() if path.is_file()} - {SUMS.name}
    if named != there:
        raise Broken(f"{SUMS.name} and the folder differ in {', '.join(sorted(named ^ there))}")


def install():
    """Installs the suite and what the fixtures need, unless the lock file's content is what is installed."""
    stamp = MODULES / ".installed"
    digest = hashlib.sha256((FIXTURES / "package-lock.json").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=FIXTURES)
        if done.returncode:
            raise Broken("npm ci failed in the fixtures' folder")
        stamp.write_text(digest)
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True)
    if version.returncode or int(version.stdout.lstrip("v").split(".")[0]) < 22:
        raise Broken(f"{NODE} is no Node.js 22: its package's install script did not run")


def suite_version():
    return json.loads((SUITE / "package.json").read_text())["version"]


def requirements(era):
    """The frozen requirements of a revision, as the suite's own file has them."""
    file = SUITE / "requirements" / f"{era}.yaml"
    if not file.exists():
        raise Broken(f"the suite has no requirements for {era}")
    sections, section = {}, None
    for line in file.read_text().splitlines():
        if key := re.match(r"([a-z_]+):$", line):
            section = sections.setdefault(key[1], [])
        elif item := re.match(r"  - (?:scenario: )?(\S+)$", line):
            section.append(item[1])
        elif (leg := re.match(r"    leg: (\S+)$", line)) and leg[1] != "server":
            section.pop()
    return Requirements(sections["server"], sections.get("not_scored", []))


def run(url, era, scenarios, out):
    """Runs the scenarios against a URL; None is all that the revision asks. A scenario without checks was not run."""
    out.mkdir()
    chosen = [["--requirements", era]]
    if scenarios is not None:
        chosen = [["--scenario", name, "--spec-version", era] for name in scenarios]
    with open(out / "suite.log", "wb") as log:
        for arguments in chosen:
            command = [NODE, SUITE / "dist" / "index.js", "server", "--url", url, "-o", out, *arguments]
            try:
                subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=SUITE_SECONDS)
            except subprocess.TimeoutExpired:
                log.write(b"\nended: it took too long\n")
    seen = {}
    for file in out.glob("server-*/checks.json"):
        name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        seen[name[1]] = json.loads(file.read_text())
    asked = requirements(era).all if scenarios is None else scenarios
    return {name: Outcome(name, seen.get(name, [])) for name in asked}


def comparable(scenario):
    return not GATEWAYS_OWN.match(scenario)


def first_difference(direct, through, at=""):
    """Where what came through the gateway first differs from what came directly, or None."""
    if at.endswith(".isError") and direct in (False, MISSING) and through in (False, MISSING):
        return None  # absent is false
    for kind, keys in ((dict, dict.keys), (list, lambda items: range(len(items)))):
        if isinstance(direct, kind) and isinstance(through, kind):
            for key in {**dict.fromkeys(keys(direct)), **dict.fromkeys(keys(through))}:
                if at and VOLATILE.fullmatch(str(key)):
                    continue
                if found := first_difference(member(direct, key), member(through, key), f"{at}.{key}"):
                    return found
            return None
    before, after = quoted(direct), quoted(through)
    return None if before == after else f"{at[1:]}: {shortened(before, 60)} -> {shortened(after, 90)}"


def member(container, key):
    try:
        return container[key]
    except LookupError:
        return MISSING


def quoted(value):
    return "nothing" if value is MISSING else json.dumps(value, ensure_ascii=False)


def without_names(evidence, prefix):
    """The evidence less what is called by a name that begins with a prefix."""
    if isinstance(evidence, dict):
        return {key: without_names(value, prefix) for key, value in evidence.items() if not key.startswith(prefix)}
    if isinstance(evidence, list):
        return [without_names(item, prefix) for item in evidence if not named(item, prefix)]
    return evidence


def named(item, prefix):
    name = item.get("name") if isinstance(item, dict) else item
    return isinstance(name, str) and name.startswith(prefix)
