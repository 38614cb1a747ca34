"""What may be said about a webhook: its address, and the events it wants."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from config.faults import Invalid
from tenants.egress import check_host

#: What people can choose from, by part of the product. Apps to the right announce most of them.
TYPES: dict[str, tuple[str, ...]] = {
    "Messages": ("user.message", "user.message_edited", "user.message_withdrawn", "agent.message"),
    "Tools": (
        "agent.tool_use",
        "agent.custom_tool_use",
        "agent.tool_result",
        "user.tool_confirmation",
        "user.custom_tool_result",
    ),
    "Sessions": (
        "session.status_changed",
        "session.status_idle",
        "session.context_compacted",
        "session.child_created",
        "session.child_idle",
        "session.error",
        "session.resource_attached",
        "session.outcome_judged",
        "session.terminal_opened",
        "user.interrupt",
    ),
    "Runs": ("run.completed", "run.failed", "run.cancelled"),
    "People": ("approval.created", "approval.resolved", "inbox.message"),
    "Workflows": ("workflow.*",),
    "Money": ("credits.low",),
}
MOST_EVENTS = 40
LONGEST_URL = 2000
_GLOB = re.compile(r"[a-z0-9_.*]{1,80}")
_LOCAL = ("localhost", ".localhost", ".local", ".internal")


def checked_events(events: Sequence[str]) -> list[str]:
    """Globs of event types, each once."""
    wanted = list(dict.fromkeys(word.strip() for word in events if word.strip()))
    if not wanted:
        raise Invalid("Choose at least one type of event; * means all of them.")
    if len(wanted) > MOST_EVENTS:
        raise Invalid(f"A webhook names at most {MOST_EVENTS} types of events; * means all.")
    for word in wanted:
        if not _GLOB.fullmatch(word):
            raise Invalid(
                f"{word[:80]!r} is no type of event. Write one like run.failed or session.*."
            )
        if not _names_any(word):
            known = ", ".join(sorted({name for names in TYPES.values() for name in names}))
            raise Invalid(f"Nothing is ever announced as {word!r}. There are: {known}.")
    return wanted


def _names_any(glob: str) -> bool:
    """Whether it names a type that exists; a type may be a glob itself."""
    types = (name for names in TYPES.values() for name in names)
    return any(fnmatchcase(name, glob) or fnmatchcase(glob, name) for name in types)


def checked_url(url: str) -> str:
    """An http(s) address that is not plainly private. What its name means is looked up at sending."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid("That is not a web address.") from None
    if parts.scheme not in {"http", "https"} or not host or len(url) > LONGEST_URL:
        raise Invalid("A webhook needs an address that starts with https://.")
    if parts.username is not None or parts.fragment or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise Invalid("The address must hold no user name, fragment or white space.")
    _check_not_private(host, port or (443 if parts.scheme == "https" else 80))
    return url


def _check_not_private(host: str, port: int) -> None:
    """Asks no name server, so that saving a form never waits for one."""
    if host.lower() == _LOCAL[0] or host.lower().endswith(_LOCAL[1:]):
        check_host(host, port, lambda *_: ["127.0.0.1"])
        return
    try:
        found = socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    check_host(host, port, lambda *_: [str(entry[4][0]) for entry in found])
