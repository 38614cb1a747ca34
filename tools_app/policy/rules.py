"""The rules of policies: how they are written, which tools and calls they match, and their layers.

A file, a page and a person have many spellings: `./a` is `a`, `HTTPS://A.example:443` is
`https://a.example`. A rule that matched only one of them could be bypassed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import unquote, urlsplit
from uuid import UUID

import httpx2

from tools_app.files import WORKSPACE_PATH
from tools_app.registry import Category, Tool

DEFAULT_PROFILE = "coding"

_SHARED = (
    "ask_user",
    "group:web",
    "group:memory",
    "group:time",
    "group:skills",
    "group:mcp",
    "group:custom",
)
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
        "ask_user",
        "group:skills",
    ),
    "coding": ("group:filesystem", "group:exec", *_SHARED),
    "messaging": ("read", "group:messaging", *_SHARED),
    "full": ("*",),
}
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


def matches_tool(rule: str, tool: Tool) -> bool:
    """Return whether the rule is about this tool at all."""
    name = parse_rule(rule).name
    if name.startswith(GROUP):
        return tool.category == name.removeprefix(GROUP)
    return fnmatchcase(tool.name, name)


def matches_call(rule: str, tool: Tool, input: Mapping[str, Any] | None, *, strictly: bool) -> bool:
    """Return whether the rule matches this call. Without input, a rule with a pattern does not.

    Rules that allow are matched strictly; rules that ask or deny are matched widely.
    """
    pattern = parse_rule(rule).pattern
    if not matches_tool(rule, tool):
        return False
    if pattern is None or pattern == "*":
        return True
    if input is None:
        return False
    matched = (
        _matcher(tool)(pattern, subject, strictly)
        for subject in _subjects(input.get(tool.subject, ""))
    )
    return all(matched) if strictly else any(matched)


def _subjects(argument: object) -> list[str]:
    """Return what a pattern is matched against: each element of a list, else the argument itself.

    A rule that allows one recipient must match all of them; one that denies, any of them.
    """
    if isinstance(argument, list | tuple) and argument:
        return [subject for element in argument for subject in _subjects(element)]
    return [str(argument)]


def names_call(rule: str, tool: Tool) -> bool:
    """Return whether a rule that lifts the question names this tool, or the server of the tool.

    A group or `*` names none.
    """
    name = parse_rule(rule).name
    if tool.category == Category.MCP:
        server = ":".join(tool.name.split(":")[:2])
        return name.startswith(f"{server}:")
    return name == tool.name


# ── Patterns ─────────────────────────────────────────────────────────────────

#: With these characters a shell runs several commands, or another one than it seems.
_OPERATORS = re.compile(r"[;&|<>$`\n\r(){}\\]+")
_PORTS = {"http": 80, "https": 443}


def _matcher(tool: Tool) -> Callable[[str, str, bool], bool]:
    """Return how a pattern is matched against the subject of a call, by the tool's category."""
    match tool.category:
        case Category.EXEC:
            return _match_command
        case Category.FILESYSTEM:
            return _match_path
        case Category.WEB if tool.subject == "url":
            return _match_address
        case Category.MESSAGING:
            return _match_person
        case _:
            return _match_text


def _match_command(pattern: str, subject: str, strictly: bool) -> bool:
    """Match a command line.

    A line that chains several commands is not what a rule that allows `git status*` means; but each
    of the chained commands may be what a rule denies.
    """
    pieces = [piece.strip() for piece in _OPERATORS.split(subject)]
    if strictly:
        return len(pieces) == 1 and fnmatchcase(subject.strip(), pattern)
    return any(fnmatchcase(piece, pattern) for piece in (subject.strip(), *pieces))


def _match_path(pattern: str, subject: str, strictly: bool) -> bool:
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
class _WebAddress:
    """A web address in its normal form."""

    scheme: str
    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


def _match_address(pattern: str, subject: str, strictly: bool) -> bool:
    address = _parse_address(subject)
    if address and _address_matches(pattern, address):
        return True
    if strictly:
        return False
    spellings = (subject.strip(), *((str(address), unquote(str(address))) if address else ()))
    return any(fnmatchcase(one.lower(), pattern.lower()) for one in spellings)


def same_site(one: str, other: str) -> bool:
    """Return whether two addresses have the same host, with or without TLS."""
    addresses = (_parse_address(one), _parse_address(other))
    return all(addresses) and len({address and address.host for address in addresses}) == 1


def _address_matches(pattern: str, address: _WebAddress) -> bool:
    """Match scheme, host and path separately, so that a `*` in the host cannot match the path.

    `https://docs.*` matches every page of such a host.
    """
    scheme, named, rest = pattern.partition("://")
    if not named:
        return fnmatchcase(str(address), pattern)
    host, slash, path = rest.partition("/")
    if not (
        fnmatchcase(address.scheme, scheme.lower()) and fnmatchcase(address.host, _ascii(host))
    ):
        return False
    if slash:
        return fnmatchcase(address.path, f"/{path}")
    return host.endswith("*") or address.path == "/"


def _ascii(host: str) -> str:
    """Return the host of a pattern as addresses write it: `bücher` becomes `xn--bcher-kva`."""
    try:
        labels = [one if one.isascii() else one.encode("idna").decode() for one in host.split(".")]
    except UnicodeError:
        return host
    return ".".join(labels).lower()


def _parse_address(address: str) -> _WebAddress | None:
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
    return _WebAddress(scheme=url.scheme, host=f"{host}{port}", path=url.raw_path.decode("ascii"))


def _match_person(pattern: str, subject: str, strictly: bool) -> bool:
    """Match an e-mail address or a name, ignoring case."""
    return fnmatchcase(subject.strip().lower(), pattern.lower())


def _match_text(pattern: str, subject: str, strictly: bool) -> bool:
    return fnmatchcase(subject, pattern) or (not strictly and fnmatchcase(subject.strip(), pattern))


# ── Layers ───────────────────────────────────────────────────────────────────

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
LayerName: TypeAlias = Literal["workspace", "agent", "environment", "session", "subagent"]
#: From the workspace ceiling down.
ORDER: tuple[LayerName, ...] = get_args(LayerName)
STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}
#: What an agent may do with the sessions of a peer.
PeerRight: TypeAlias = Literal["list", "read", "send"]
PEER_RIGHTS: tuple[PeerRight, ...] = get_args(PeerRight)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another agent, and what may be done with its sessions."""

    agent_id: UUID
    may: tuple[PeerRight, ...]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The rules of one layer. A layer without rules has no effect.

    - `denied` and `asked`: a matching rule denies the call, or asks a person first.
    - `profile`: a set of tools; all others are denied.
    - `allowed`: if there are any, only the tools that these rules name are left. A bare name, a
      group or `*` lifts no question. A pattern, such as `exec(git status*)`, does: calls that match
      it are allowed, other calls of the same tool ask.
    - `approved`: calls that run without asking, in the agent's layer. They narrow nothing, and a
      rule that asks about particular calls still asks.
    - `peers`: the agents whose sessions may be reached, in the agent's layer.
    """

    #: `run` is the last layer: the tools that one run was narrowed to.
    name: LayerName | Literal["run"]
    profile: str | None = None
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    max_tool_calls_per_turn: int | None = None
    peers: tuple[Peer, ...] = ()
    #: For a subagent, the layers of the session that started it: what is denied or asks there,
    #: is denied or asks here.
    parent: tuple[Layer, ...] = ()


def call_limit(layers: Iterable[Layer]) -> int | None:
    """Return the smallest number of tool calls per turn that any layer sets."""
    limits = [
        limit
        for layer in layers
        for limit in (layer.max_tool_calls_per_turn, call_limit(layer.parent))
        if limit is not None
    ]
    return min(limits, default=None)


def peer_ids(layers: Iterable[Layer], right: PeerRight) -> frozenset[UUID]:
    """Return the agents whose sessions may be reached in this way.

    A subagent reaches no agent that the session that started it does not reach.
    """
    stacked = tuple(layers)
    named = (peer for layer in stacked if layer.name == "agent" for peer in layer.peers)
    found = frozenset(peer.agent_id for peer in named if right in peer.may)
    for layer in stacked:
        if layer.parent:
            found &= peer_ids(layer.parent, right)
    return found


def with_allow_rule(layer: Layer, tool: Tool, rule: str) -> Layer:
    """Return the layer with one more rule that lets calls of this tool run without asking."""
    return replace(layer, approved=(*layer.approved, rule))


def unknown_rules(rules: Iterable[str], tools: Mapping[str, Tool]) -> list[str]:
    """Return the rules that match no known tool: most likely typing errors."""
    return [rule for rule in rules if not any(matches_tool(rule, tool) for tool in tools.values())]


# ── Approvals ────────────────────────────────────────────────────────────────

#: What an approval covers, as it is shown to the person who decides, by the category of the tool.
COVERS: dict[str, str] = {
    Category.EXEC: "exactly this command",
    Category.WEB: "every page of this site",
    Category.MESSAGING: "the same recipient",
}
EVERY_CALL = "every call of this tool"
_GLOBS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


def grant_rule(tool: Tool, input: Mapping[str, Any]) -> str:
    """Return the rule that this call and others like it fall under.

    For a command it is exactly that command, for a page every page of its site, for a message the
    same recipient, and for any other tool every call of it. A grant covers a call whose own rule is
    equal.
    """
    pattern = _pattern(tool, input)
    return tool.name if pattern is None else f"{tool.name}({pattern})"


def permanent_rule(tool: Tool, input: Mapping[str, Any]) -> str:
    """Return the same rule as a policy writes it, with the globs in its arguments escaped."""
    pattern = _pattern(tool, input)
    if pattern is None:
        return f"{tool.name}(*)"
    site = _site(pattern) if tool.category == Category.WEB else ""
    literal = f"{site.translate(_GLOBS)}/*" if site else pattern.translate(_GLOBS)
    return f"{tool.name}({literal})"


def covers(tool: Tool | None) -> str:
    """Describe what an approval for the whole session would cover."""
    if tool is None or (tool.category == Category.WEB and tool.subject != "url"):
        return EVERY_CALL
    return COVERS.get(tool.category, EVERY_CALL)


def _pattern(tool: Tool, input: Mapping[str, Any]) -> str | None:
    subject = str(input.get(tool.subject, "")).strip()
    match tool.category:
        case Category.EXEC | Category.MESSAGING:
            return subject
        case Category.WEB if "://" in subject:
            return f"{_site(subject)}/*" if _site(subject) else subject
        case _:
            return None


def _site(address: str) -> str:
    """Return scheme, host and port, or an empty string for what is not a plain web address."""
    try:
        parts = urlsplit(address)
        named = parts.hostname and parts.scheme in {"http", "https"} and "@" not in parts.netloc
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.lower()}" if named else ""
