"""Logging setup: structured lines with the request's id, and secrets removed."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from datetime import date
from functools import lru_cache
from typing import Any, TextIO
from uuid import UUID

import structlog
from structlog.typing import Processor

REMOVED = "[removed]"
DEEPEST = 12

SECRET_NAME = re.compile(
    r"(?:^|[_.\s])(?:authorization|x_api_key|api_?keys?|access_key|private_key|secret_key|salt_keys?"
    r"|passwords?|passwd|passphrase|secrets?|token|cookies?|set_cookie|credentials?|csrfmiddlewaretoken"
    r"|sessionid|csrftoken|signature)$"
)
UUID_SHAPE = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
NAMES_IN_TEXT = (
    r"authorization|x-api-key|api[_-]?key|access[_-]?token|refresh[_-]?token|client[_-]?secret"
    r"|password|passwd|secret|token|key|cookie|sessionid|csrftoken|csrfmiddlewaretoken|signature"
)
WORD = "[A-Za-z0-9_-]"
#: Of each match the first group stays and the rest is removed.
SECRET_SHAPES = [
    re.compile(pattern, flags)
    for pattern, flags in (
        (
            r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        (r"(\b(?:bearer|basic|token)\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE),
        (r"(\bkey\.)sy_[A-Za-z0-9_-]+", 0),
        (r"()\bsy_[A-Za-z0-9_-]{8,}", 0),
        (r"()\bAIza[A-Za-z0-9_-]{10,}", 0),
        (r"()\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{10,}", 0),
        (
            r"()\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|ya29\.|whsec_)[A-Za-z0-9_./+=-]{8,}",
            0,
        ),
        # These two only match at the start of a word; otherwise a long word takes quadratic time.
        (
            rf"((?<!{WORD})(?>{WORD}*?(?=eyJ)))eyJ{WORD}{{5,}}\.{WORD}{{5,}}\.{WORD}*",
            0,
        ),
        (r"((?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s:/@]*:)[^\s/@]+(?=@)", re.IGNORECASE),
        # name=value and name: value, as in URLs, headers and printed dictionaries.
        (
            rf"((?<![\w-])(?:{NAMES_IN_TEXT})['\"]?\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s&;,'\"}})\]]+)",
            re.IGNORECASE,
        ),
        # Command-line options: --password=value, --token value.
        (
            r"((?<!\S)--?(?:[\w-]*(?:password|passwd|secret|token|api-?key))(?:=|\s+))(?!-)\S+",
            re.IGNORECASE,
        ),
        # Sign-in, invitation and reset links carry their secret as a long path segment.
        (rf"(/)(?!{UUID_SHAPE}\b)(?=[^/\s?#]*\d)[A-Za-z0-9_-]{{32,}}(?=[/?#\s'\"]|\Z)", 0),
    )
]


def redact(value: object, *, depth: int = 0) -> object:
    """Return the value in a form that can be logged, without its secrets."""
    match value:
        case None | bool() | int() | float() | UUID() | date():
            return value
        case str():
            return redact_text(value)
        case bytes() | bytearray() | memoryview():
            return redact_text(bytes(value).decode(errors="replace"))
        case _ if depth >= DEEPEST:
            return REMOVED
        case Mapping():
            return {
                name: REMOVED if is_secret_name(name) else redact(inner, depth=depth + 1)
                for name, inner in value.items()
            }
        case list() | tuple() | AbstractSet():
            return [redact(inner, depth=depth + 1) for inner in value]
        case _:
            return redact_text(repr(value))


#: Each of the shapes above contains one of these, in small letters, or is a long segment of a path.
HINTS = (
    *("-----begin", "bearer", "basic", "sy_", "aiza", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_"),
    *("gh", "github_pat_", "glpat", "xox", "akia", "ya29", "whsec", "eyj", "://"),
    *("auth", "key", "secret", "passw", "token", "cookie", "session", "csrf", "signature"),
)
LONG_SEGMENT = 32


def redact_text(text: str) -> str:
    # Matching all shapes would be a sixth of the work of a request that is logged.
    if text.isascii() and not _may_hold_secret(text.lower()):
        return text
    for shape in SECRET_SHAPES:
        text = shape.sub(rf"\g<1>{REMOVED}", text)
    return text


def _may_hold_secret(text: str) -> bool:
    has_segment = len(text) > LONG_SEGMENT and "/" in text
    return has_segment or any(hint in text for hint in HINTS)


def is_secret_name(name: object) -> bool:
    return _is_secret_name(str(name))


@lru_cache(1024)
def _is_secret_name(name: str) -> bool:
    return bool(SECRET_NAME.search(name.lower().replace("-", "_")))


#: The minimum level of libraries that log too much.
QUIET = {
    "asyncio": logging.WARNING,
    "anthropic": logging.WARNING,
    "daphne": logging.WARNING,
    "django": logging.INFO,
    "django.channels.server": logging.WARNING,
    # Statements would include their values.
    "django.db.backends": logging.INFO,
    # The request middleware logs the same, with the request's id.
    "django.request": logging.CRITICAL,
    "django.server": logging.WARNING,
    "django-q": logging.WARNING,
    "google_genai": logging.WARNING,
    "httpcore2": logging.WARNING,
    "httpx2": logging.WARNING,
    # Its errors quote servers, which may repeat a credential.
    "mcp": logging.CRITICAL,
    "openai": logging.WARNING,
    "psycopg": logging.WARNING,
    "psycopg.pool": logging.WARNING,
    "urllib3": logging.WARNING,
}


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, as output is redirected after start."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def without_secrets(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Redact all entries except those that structlog adds for itself."""
    own = {name: event.pop(name) for name in ("_record", "_from_structlog") if name in event}
    clean = redact(event)
    if not isinstance(clean, dict):
        raise TypeError("a log event is a mapping")
    return clean | own


def shared_chain() -> list[Processor]:
    """Return the processors of every line. Redaction is last, so that it sees the final texts."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        without_secrets,
    ]


def renderer(*, terminal: bool) -> Processor:
    if terminal:
        return structlog.dev.ConsoleRenderer(
            exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
        )
    return structlog.processors.JSONRenderer(default=str)


def logging_config(*, level: str, terminal: bool | None = None) -> None:
    """Route all logging through one handler: text on a terminal, JSON elsewhere."""
    if terminal is None:
        terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared_chain(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = StderrHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared_chain(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer(terminal=terminal),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))
