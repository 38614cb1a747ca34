"""One chain for every log line: structured, with the request's id, never with a secret."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from config.redaction import redact

#: Libraries that say more than a person need read, and the least that is still worth a line.
QUIET = {
    "asyncio": logging.WARNING,
    "daphne": logging.WARNING,
    "django": logging.INFO,
    "django.channels.server": logging.WARNING,
    # Statements would carry their values.
    "django.db.backends": logging.INFO,
    # The request middleware has written the same, with the request's id.
    "django.request": logging.CRITICAL,
    "django.server": logging.WARNING,
    "django-q": logging.WARNING,
    "google_genai": logging.WARNING,
    "httpcore2": logging.WARNING,
    "httpx2": logging.WARNING,
    # What it complains of holds the words of servers, which may repeat a credential.
    "mcp": logging.CRITICAL,
    "openai": logging.WARNING,
    "psycopg": logging.WARNING,
    "psycopg.pool": logging.WARNING,
    "urllib3": logging.WARNING,
}


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at the moment, as output is redirected after start."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def without_secrets(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Keep structlog's own entries as they are and clean all others."""
    own = {name: event.pop(name) for name in ("_record", "_from_structlog") if name in event}
    clean = redact(event)
    if not isinstance(clean, dict):
        raise TypeError("a log event is a mapping")
    return clean | own


def shared_chain() -> list[Processor]:
    """What happens to every line, whoever wrote it. Secrets go last, from the finished texts."""
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
    """Send everything through one handler: lines for a terminal, JSON for anything else."""
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
