"""Speaks to a container engine over its Unix socket: the few calls that sandboxes need."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import httpx2

from config.faults import SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.container.service import find_socket

#: Creating and removing containers takes a while on a busy machine.
PATIENCE_SECONDS = 60.0
MESSAGE_LENGTH = 500


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    content: Any

    @property
    def is_missing(self) -> bool:
        return self.status == httpx2.codes.NOT_FOUND

    @property
    def is_fine(self) -> bool:
        return self.status < 400

    @property
    def message(self) -> str:
        told = self.content.get("message") if isinstance(self.content, dict) else self.content
        return str(told)[:MESSAGE_LENGTH].strip()


@dataclass(frozen=True, kw_only=True)
class Engine:
    socket: str
    client: httpx2.Client = field(repr=False)

    def ask(self, method: str, path: str, body: object = None, **query: str | int) -> Answer:
        try:
            answer = self.client.request(method, f"http://engine{path}", json=body, params=query)
        except httpx2.TransportError as error:
            raise SandboxUnavailable(
                f"The container engine at {self.socket} does not answer: {error}."
            ) from error
        kind = answer.headers.get("content-type", "")
        content = answer.json() if answer.content and "json" in kind else answer.text
        return Answer(status=answer.status_code, content=content)

    def need(self, method: str, path: str, body: object = None, **query: str | int) -> Any:
        """What the engine answers. A container that is gone is told apart from other lacks."""
        answer = self.ask(method, path, body, **query)
        if answer.is_missing:
            raise SandboxReplaced
        if not answer.is_fine:
            raise SandboxUnavailable(f"The container engine refuses: {answer.message}.")
        return answer.content

    def find(self, name: str) -> dict[str, Any] | None:
        answer = self.ask("GET", f"/containers/{name}/json")
        if answer.is_missing:
            return None
        if not answer.is_fine:
            raise SandboxUnavailable(f"The container engine refuses: {answer.message}.")
        return answer.content

    def labelled(self, labels: dict[str, str]) -> list[dict[str, Any]]:
        """Containers with all these labels, running or not."""
        wanted = json.dumps({"label": [f"{name}={value}" for name, value in labels.items()]})
        return self.need("GET", "/containers/json", all=1, filters=wanted)

    def remove(self, name: str) -> bool:
        """End a container and everything in it. False when there is none."""
        answer = self.ask("DELETE", f"/containers/{name}", force=1, v=1)
        if not answer.is_fine and not answer.is_missing:
            raise SandboxUnavailable(f"The container engine refuses: {answer.message}.")
        return answer.is_fine

    @cached_property
    def facts(self) -> dict[str, Any]:
        return self.need("GET", "/info")

    @cached_property
    def is_podman(self) -> bool:
        parts = self.need("GET", "/version").get("Components") or []
        return any("podman" in str(part.get("Name", "")).lower() for part in parts)

    @property
    def is_rootless(self) -> bool:
        return any("rootless" in option for option in self.facts.get("SecurityOptions") or [])


def connect() -> Engine:
    """The engine of this machine."""
    return _engine(find_socket(), os.getpid())


@lru_cache(maxsize=4)
def _engine(socket: str, pid: int) -> Engine:
    """One client per process: a forked child must not share its parent's connections."""
    # Nothing here is encrypted, and reading certificates would take longer than a command.
    transport = httpx2.HTTPTransport(uds=socket, verify=False)
    client = httpx2.Client(
        transport=transport,
        timeout=PATIENCE_SECONDS,
        trust_env=False,
        # A kept connection may be one that the engine has closed meanwhile; a new one is cheap.
        headers={"Connection": "close"},
    )
    return Engine(socket=socket, client=client)
