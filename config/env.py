"""Reads the environment. Every variable the product knows is read here and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from config.faults import CannotStart

ROOT = Path(__file__).resolve().parent.parent
STACK = "SWITCHYARD_STACK"  #: The variable that every process of one stack carries.


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def number(name: str, default: int) -> int:
    raw = text(name, str(default))
    try:
        return int(raw)
    except ValueError:
        raise CannotStart(f"{name} must be a whole number, not {raw!r}.") from None


def seconds(name: str, default: float) -> float:
    raw = text(name, str(default))
    try:
        return float(raw)
    except ValueError:
        raise CannotStart(f"{name} must be a number of seconds, not {raw!r}.") from None


def amount(name: str, default: str) -> Decimal:
    raw = text(name, default)
    try:
        value = Decimal(raw)
    except InvalidOperation:
        raise CannotStart(f"{name} must be an amount in US dollars, not {raw!r}.") from None
    if not value.is_finite():
        raise CannotStart(f"{name} must be an amount in US dollars, not {raw!r}.")
    return value


def flag(name: str, *, default: bool = False) -> bool:
    return text(name, "1" if default else "0").lower() in {"1", "true", "yes", "on"}


def words(name: str) -> list[str]:
    return [word.strip() for word in text(name).split(",") if word.strip()]


def data_dir() -> Path:
    return Path(text("DATA_DIR", str(ROOT / "var"))).expanduser().resolve()


@dataclass(frozen=True, kw_only=True)
class DatabaseAddress:
    """Where PostgreSQL is, as Django's settings want it."""

    name: str
    user: str
    password: str
    host: str
    port: str
    options: dict[str, str]


def database_address(url: str) -> DatabaseAddress:
    """Split a `postgresql://` URL. A bad one is told in one line that never shows the password."""
    hint = "DATABASE_URL must look like postgresql://user:password@host:5432/name."
    try:
        parts = urlsplit(url)
        port = str(parts.port or "")
    except ValueError:
        raise CannotStart(hint) from None
    query = dict(parse_qsl(parts.query))
    name = unquote(parts.path.lstrip("/"))
    if parts.scheme not in {"postgres", "postgresql"} or not name:
        raise CannotStart(hint)
    return DatabaseAddress(
        name=name,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        host=query.pop("host", "") or unquote(parts.hostname or ""),
        port=query.pop("port", "") or port,
        options=query,
    )
