"""Asks the running web server how it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException

PATH = "/api/v1/health/"


@dataclass(frozen=True, kw_only=True)
class Health:
    answered: bool = False
    ok: bool = False
    #: The names of the checks that are not well.
    unwell: list[str] = field(default_factory=list)


def reachable(host: str) -> str:
    """Give an address to reach a server that listens on `host` from this machine."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def ask_health(host: str, port: int, *, name: str, seconds: float) -> Health:
    """Ask once. `name` is the host name under which the server is willing to answer."""
    connection = HTTPConnection(reachable(host), port, timeout=seconds)
    try:
        connection.request("GET", PATH, headers={"Host": name, "X-Forwarded-Proto": "https"})
        answer = connection.getresponse()
        return read_health(answer.status, answer.read(100_000))
    except (OSError, HTTPException):
        return Health()
    finally:
        connection.close()


def read_health(status: int, body: bytes) -> Health:
    """Understand an answer; anything that speaks HTTP has at least answered."""
    try:
        checks = json.loads(body).get("checks", {})
    except (ValueError, AttributeError):
        checks = {}
    unwell = [name for name, result in checks.items() if result not in ("ok", True)]
    return Health(answered=True, ok=status == 200, unwell=unwell)
