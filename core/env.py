"""Reads environment variables. Nothing else in the product reads the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from core.exceptions import CannotStart

ROOT = Path(__file__).resolve().parent.parent
STACK = "SWITCHYARD_STACK"  #: The variable that marks every process of one stack.


def text(name: str, default: str = "") -> str:
    """Return the stripped value of a variable. An empty value counts as missing."""
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


def choice(name: str, default: str, options: tuple[str, ...]) -> str:
    """Return one of the options, in lower case."""
    chosen = text(name, default).lower()
    if chosen not in options:
        raise CannotStart(f"{name} must be one of {', '.join(options)}, not {chosen!r}.")
    return chosen


def flag(name: str, *, default: bool = False) -> bool:
    return text(name, "1" if default else "0").lower() in {"1", "true", "yes", "on"}


def strings(name: str) -> list[str]:
    """Return the comma-separated values of a variable."""
    return [value.strip() for value in text(name).split(",") if value.strip()]


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def data_dir() -> Path:
    return Path(text("DATA_DIR", str(ROOT / "var"))).expanduser().resolve()


@dataclass(frozen=True, kw_only=True)
class DatabaseAddress:
    """The parts of DATABASE_URL that Django's settings need."""

    name: str
    user: str
    password: str
    host: str
    port: str
    options: dict[str, str]


def database_address(url: str) -> DatabaseAddress:
    """Split a `postgresql://` URL. The error for a bad URL never shows the password."""
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
