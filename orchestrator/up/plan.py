"""What `up` is to run, and where: read once from the settings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from config.env import ROOT
from orchestrator.up.parts import Program

#: Seconds between pings that keep idle sockets open through proxies, and what a dead one is given.
PING_EVERY, PING_WITHIN = 20, 30
EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 (only compared)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where this stack lives and how people reach it."""

    data_dir: Path
    host: str
    port: int
    database_url: str  #: Empty for the embedded server.
    address: str  #: What people type into a browser, without a slash at the end.
    host_name: str  #: A name under which the web server is willing to answer.

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"


def read_plan() -> Plan:
    host, port = settings.HOST, settings.PORT
    return Plan(
        data_dir=settings.DATA_DIR,
        host=host,
        port=port,
        database_url=settings.DATABASE_URL,
        address=shown_address(settings.PUBLIC_URL, host),
        host_name=willing_name(settings.ALLOWED_HOSTS),
    )


def shown_address(public_url: str, host: str) -> str:
    """Give an address that works in a browser, even when the server listens everywhere."""
    shown = "localhost" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return public_url.replace(f"//{host}:", f"//{shown}:", 1).rstrip("/")


def willing_name(allowed_hosts: list[str]) -> str:
    """Pick a host name that the settings allow; a leading dot allows the domain itself."""
    names = [name.lstrip(".") for name in allowed_hosts if name.strip("*.")]
    return names[0] if names else "localhost"


def programs(plan: Plan, *, mark: str) -> list[Program]:
    """List the programs of Switchyard with their command lines."""
    manage = [sys.executable, str(ROOT / "manage.py")]
    web = [sys.executable, "-m", "daphne", "-b", plan.host, "-p", str(plan.port), "-v", "0"]
    web += ["--no-server-name", "--ping-interval", str(PING_EVERY)]
    web += ["--ping-timeout", str(PING_WITHIN), "config.asgi:application"]
    commands = {
        "web": web,
        "workers": [*manage, "workers"],
        "supervisor": [*manage, "supervisor"],
        "terminals": [*manage, "terminals"],
    }
    return [
        Program(name, command, mark=mark, log=plan.logs / f"{name}.log")
        for name, command in commands.items()
    ]
