"""The rules of policies: how they are written, and which tools and calls they match.

A file, a page and a person have many spellings: `./a` is `a`, `HTTPS://A.example:443` is
`https://a.example`. A rule that matched only one of them could be bypassed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import httpx2

from tools_app.files import WORKSPACE_PATH
from tools_app.registry import Category, Tool

DEFAULT_PROFILE = "coding"

#: Names and groups. Time and skills change nothing, so every profile has them; waiting occupies a
#: lane, so `minimal` goes without it. MCP and custom tools were added on purpose, with a setting
#: for whether they ask, so only `minimal` leaves them out. `exec` is part of coding work and asks
#: until a rule of the agent says otherwise.
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": (
        "read",
        "web_search",
        "web_fetch",
        "memory_search",
        "memory_get",
        "current_time",
        "group:skills",
    ),
    "coding": (
        "group:filesystem",
        "group:web",
        "group:memory",
        "group:exec",
        "group:time",
        "group:skills",
        "group:mcp",
        "group:custom",
    ),
    "messaging": (
        "read",
        "group:messaging",
        "group:web",
        "group:memory",
        "group:time",
        "group:skills",
        "group:mcp",
        "group:custom",
    ),
    "full": ("*",),
}

#: With these characters a shell runs several commands, or another one than it seems.
_OPERATORS = re.compile(r"[;&|<>$`\n\r(){}\\]+")
_PORTS = {"http": 80, "https": 443}


def pattern_matches(tool: Tool, pattern: str, subject: str, *, strictly: bool) -> bool:
    """Return whether a pattern matches the subject of a call, by the category of the tool."""
    return _reading(tool)(pattern, subject, strictly)


def _reading(tool: Tool) -> Callable[[str, str, bool], bool]:
    match tool.category:
        case Category.EXEC:
            return _command
        case Category.FILESYSTEM:
            return _path
        case Category.WEB if tool.subject == "url":
            return _address
        case Category.MESSAGING:
            return _person
        case _:
            return _words


def _command(pattern: str, subject: str, strictly: bool) -> bool:
    """Match a command line.

    A line that chains several commands is not what a rule that allows `git status*` means; but each
    of the chained commands may be what a rule denies.
    """
    pieces = [piece.strip() for piece in _OPERATORS.split(subject)]
    if strictly:
        return len(pieces) == 1 and fnmatchcase(subject.strip(), pattern)
    return any(fnmatchcase(piece, pattern) for piece in (subject.strip(), *pieces))


def _path(pattern: str, subject: str, strictly: bool) -> bool:
    if fnmatchcase(_plain_path(subject), _plain_path(pattern)):
        return True
    return not strictly and fnmatchcase(f"{WORKSPACE_PATH}/{_plain_path(subject)}", pattern)


def _plain_path(path: str) -> str:
    """Return the path relative to the session's folder. What is mounted elsewhere stays absolute."""
    names = [name for name in path.split("/") if name not in {"", "."}]
    if not path.startswith("/"):
        return "/".join(names)
    home = WORKSPACE_PATH.strip("/")
    return "/".join(names[1:]) if names[:1] == [home] else "/" + "/".join(names)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A web address in its normal form."""

    scheme: str
    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


def _address(pattern: str, subject: str, strictly: bool) -> bool:
    place = _place(subject)
    if place and _leads_to(pattern, place):
        return True
    if strictly:
        return False
    spellings = (subject.strip(), *((str(place), unquote(str(place))) if place else ()))
    return any(fnmatchcase(one.lower(), pattern.lower()) for one in spellings)


def same_site(one: str, other: str) -> bool:
    """Return whether two addresses have the same host, with or without TLS."""
    places = (_place(one), _place(other))
    return all(places) and len({place and place.host for place in places}) == 1


def _leads_to(pattern: str, place: _Place) -> bool:
    """Match scheme, host and path separately, so that a `*` in the host cannot match the path.

    `https://docs.*` matches every page of such a host.
    """
    scheme, named, rest = pattern.partition("://")
    if not named:
        return fnmatchcase(str(place), pattern)
    host, slash, path = rest.partition("/")
    if not (fnmatchcase(place.scheme, scheme.lower()) and fnmatchcase(place.host, _ascii(host))):
        return False
    return fnmatchcase(place.path, f"/{path}") if slash else host.endswith("*") or place.path == "/"


def _ascii(host: str) -> str:
    """Return the host of a pattern as addresses write it: `bücher` becomes `xn--bcher-kva`."""
    try:
        labels = [one if one.isascii() else one.encode("idna").decode() for one in host.split(".")]
    except UnicodeError:
        return host
    return ".".join(labels).lower()


def _place(address: str) -> _Place | None:
    """Parse an address as the HTTP client does. Return None for what the client would refuse."""
    try:
        url = httpx2.URL(address)
    except (httpx2.InvalidURL, UnicodeError):
        return None
    host = url.raw_host.decode("ascii").lower().rstrip(".")
    if url.scheme not in _PORTS or not host:
        return None
    host = f"[{host}]" if ":" in host else host
    port = "" if url.port in {None, _PORTS[url.scheme]} else f":{url.port}"
    return _Place(scheme=url.scheme, host=f"{host}{port}", path=url.raw_path.decode("ascii"))


def _person(pattern: str, subject: str, strictly: bool) -> bool:
    """Match an e-mail address or a name, ignoring case."""
    return fnmatchcase(subject.strip().lower(), pattern.lower())


def _words(pattern: str, subject: str, strictly: bool) -> bool:
    return fnmatchcase(subject, pattern) or (not strictly and fnmatchcase(subject.strip(), pattern))


GROUP = "group:"
_PATTERNED = re.compile(r"(?P<name>[^()]+)\((?P<pattern>.*)\)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Rule:
    name: str
    #: The pattern of the call's subject; None matches any call.
    pattern: str | None = None


@lru_cache(maxsize=4096)
def parse_rule(text: str) -> Rule:
    """Parse a rule. `exec(*)` matches any call, but unlike `exec` does not narrow other tools."""
    found = _PATTERNED.fullmatch(text.strip())
    if found is None:
        return Rule(name=text.strip())
    return Rule(name=found["name"].strip(), pattern=found["pattern"])


def rule_matches_tool(rule: Rule, tool: Tool) -> bool:
    """Return whether the rule is about this tool at all."""
    if rule.name.startswith(GROUP):
        return tool.category == rule.name.removeprefix(GROUP)
    return fnmatchcase(tool.name, rule.name)


def rule_matches_call(
    rule: Rule, tool: Tool, input: Mapping[str, Any] | None, *, strictly: bool
) -> bool:
    """Return whether the rule matches this call. Without input, a rule with a pattern does not.

    Rules that allow are matched strictly; rules that ask or deny are matched widely.
    """
    if not rule_matches_tool(rule, tool):
        return False
    if rule.pattern in {None, "*"}:
        return True
    if input is None or rule.pattern is None:
        return False
    return pattern_matches(tool, rule.pattern, str(input.get(tool.subject, "")), strictly=strictly)
