#!/usr/bin/env python
"""Run a management command. Without DATABASE_URL, start the embedded PostgreSQL for its duration."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from core.exceptions import CannotStart

WITHOUT_DATABASE = {
    "check",
    "collectstatic",
    "compilemessages",
    "diffsettings",
    "findstatic",
    "help",
    "makemessages",
    "plugins",
    "spectacular",
    "startapp",
    "startplugin",
    "up",  # starts PostgreSQL itself
    "version",
}


def needs_database(arguments: list[str]) -> bool:
    if os.environ.get("SWITCHYARD_STACK"):
        return False  # `up` started this process and has PostgreSQL running
    asks_help = not arguments or any(word in ("-h", "--help", "--version") for word in arguments)
    return not asks_help and arguments[0] not in WITHOUT_DATABASE


@contextmanager
def database(arguments: list[str]) -> Iterator[None]:
    """Keep PostgreSQL running for a command that needs it."""
    from django.conf import settings

    if not needs_database(arguments):
        yield
    elif settings.DATABASE_URL:
        from core.postgres import require_usable

        require_usable(settings.DATABASE_URL)
        yield
    else:
        from core.postgres import Embedded

        embedded = Embedded(settings.DATA_DIR)
        embedded.start()
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        try:
            yield
        finally:
            embedded.release()


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
    from django.core.management import execute_from_command_line

    try:
        with database(sys.argv[1:]):
            execute_from_command_line(sys.argv)
    except CannotStart as fault:
        sys.stderr.write(f"{fault.detail}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
