"""Tells what a call could carry out of a session or change for good.

A session that has read text from outside asks a person before such a call, whatever its profile
allows, unless a rule of the agent's policy names the call. The text may be written to make the model
send private data away; see docs/security.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

#: A search for words is fine. Longer queries, addresses and encoded data are not words.
LONGEST_QUERY = 120
_MORE_THAN_WORDS = re.compile(r"://|[\w+/=%-]{32,}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """What a session has read and may reach. Each fact is looked up only when a call needs it."""

    #: Says which text from outside the session has read; empty if none. With `but` set, tools of
    #: that ownership do not count.
    source: Callable[[str], str]
    #: Whether a person named this host in the conversation.
    is_named: Callable[[str], bool] = lambda host: False
    #: Whether a session is one of those above or below this one, which share what it has read.
    is_family: Callable[[str], bool] = lambda session: False
    #: Whether a session belongs to a peer that the agent's policy lets it write to.
    is_peer: Callable[[str], bool] = lambda session: False
    #: Whether commands of the session reach a network.
    has_network: Callable[[], bool] = lambda: True


Outflow: TypeAlias = Callable[[Mapping[str, Any], Exposure], str]


def nothing(input: Mapping[str, Any], exposure: Exposure) -> str:
    """The call has an effect that stays within the session."""
    return ""


def of_address(input: Mapping[str, Any], exposure: Exposure) -> str:
    """Return what fetching a page sends away. Hosts that a person named may be asked anything."""
    address = str(input.get("url", ""))
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        host = ""
    if host and exposure.is_named(host):
        return ""
    return f"send this address to {host or 'a host that cannot be read'}"


def of_query(input: Mapping[str, Any], exposure: Exposure) -> str:
    """Return what a web search sends away: nothing, as long as it is a plain query."""
    query = str(input.get("query", ""))
    if len(query) <= LONGEST_QUERY and not _MORE_THAN_WORDS.search(query):
        return ""
    return "send this text to the search engine"


def of_command(input: Mapping[str, Any], exposure: Exposure) -> str:
    return "run a command that can reach the network" if exposure.has_network() else ""


def of_peer_message(input: Mapping[str, Any], exposure: Exposure) -> str:
    """Return what a message to another session gives away.

    The family has read the same text, and an admin named the peers.
    """
    session = str(input.get("session", ""))
    if exposure.is_family(session) or exposure.is_peer(session):
        return ""
    return "write to another session"
