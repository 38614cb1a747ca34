"""Whether the pattern of a rule is about what a call is about, however either of them is spelt.

A file, a page and a person have many spellings: `./a` is `a`, `HTTPS://A.example:443` is
`https://a.example`. A rule that only knew one of them could be walked around.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

import httpx2

from tools_app.folder import MOUNTED_AT
from tools_app.registry import Category, Tool

#: With these a shell does more than one thing, or something else than it seems.
_OPERATORS = re.compile(r"[;&|<>$`\n\r(){}\\]+")
_PORTS = {"http": 80, "https": 443}


def means(tool: Tool, pattern: str, subject: str, *, strictly: bool) -> bool:
    """Whether a rule with this pattern is about a call with this subject.

    A rule that allows is read strictly, one that asks or forbids is read widely.
    """
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
    """A command line that strings several commands together is not what somebody meant who allowed
    `git status*`; each of the strung commands may be what somebody forbade."""
    pieces = [piece.strip() for piece in _OPERATORS.split(subject)]
    if strictly:
        return len(pieces) == 1 and fnmatchcase(subject.strip(), pattern)
    return any(fnmatchcase(piece, pattern) for piece in (subject.strip(), *pieces))


def _path(pattern: str, subject: str, strictly: bool) -> bool:
    if fnmatchcase(_plain_path(subject), _plain_path(pattern)):
        return True
    return not strictly and fnmatchcase(f"{MOUNTED_AT}/{_plain_path(subject)}", pattern)


def _plain_path(path: str) -> str:
    """As seen from the session's folder. What is mounted elsewhere keeps its whole path."""
    names = [name for name in path.split("/") if name not in {"", "."}]
    if not path.startswith("/"):
        return "/".join(names)
    home = MOUNTED_AT.strip("/")
    return "/".join(names[1:]) if names[:1] == [home] else "/" + "/".join(names)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where an address leads, in its plain spelling."""

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
    """Whether two addresses are of one host, whichever of them is encrypted."""
    places = (_place(one), _place(other))
    return all(places) and len({place and place.host for place in places}) == 1


def _leads_to(pattern: str, place: _Place) -> bool:
    """Scheme, host and path each by their own part: a `*` for a host must not reach into the path.

    `https://docs.*` means every page of such a host.
    """
    scheme, named, rest = pattern.partition("://")
    if not named:
        return fnmatchcase(str(place), pattern)
    host, slash, path = rest.partition("/")
    if not (fnmatchcase(place.scheme, scheme.lower()) and fnmatchcase(place.host, _ascii(host))):
        return False
    return fnmatchcase(place.path, f"/{path}") if slash else host.endswith("*") or place.path == "/"


def _ascii(host: str) -> str:
    """The host of a pattern as addresses write it: `bücher` is `xn--bcher-kva` there."""
    try:
        labels = [one if one.isascii() else one.encode("idna").decode() for one in host.split(".")]
    except UnicodeError:
        return host
    return ".".join(labels).lower()


def _place(address: str) -> _Place | None:
    """Read as the client reads it that would fetch it. None for what it would refuse."""
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
    """Addresses of people have no capitals, as far as mail is sent from here."""
    return fnmatchcase(subject.strip().lower(), pattern.lower())


def _words(pattern: str, subject: str, strictly: bool) -> bool:
    return fnmatchcase(subject, pattern) or (not strictly and fnmatchcase(subject.strip(), pattern))
