"""Tests of the destination and format of log lines, and of libraries that log little."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from core.env import ROOT
from core.logging import QUIET

PROGRAM = """
import logging, structlog
from core.logging import logging_config
logging_config(level={level!r}, terminal={terminal})
structlog.get_logger("yard").info("began", session="s-1", api_key="hidden")
logging.getLogger("library").warning("careful %s", "now")
logging.getLogger("yard").debug("detail")
logging.getLogger("httpx2").info("request")
print("result")
"""


def run(*, terminal: bool, level: str = "INFO") -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=level, terminal=terminal)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout, done.stderr


def test_without_a_terminal_each_line_is_a_json_object():
    out, err = run(terminal=False)
    first, second = (json.loads(line) for line in err.splitlines())

    assert (first["event"], first["session"], first["level"]) == ("began", "s-1", "info")
    assert (second["event"], second["logger"]) == ("careful now", "library")
    assert "hidden" not in err
    assert out == "result\n", "standard output belongs to the command"


def test_on_a_terminal_lines_are_readable():
    _, err = run(terminal=True)

    assert "began" in err
    assert "s-1" in err
    assert "hidden" not in err
    assert not err.startswith("{")


@pytest.mark.parametrize(("level", "lines"), [("DEBUG", 3), ("INFO", 2), ("WARNING", 1)])
def test_the_level_is_respected_and_noisy_libraries_are_silenced(level, lines):
    _, err = run(terminal=False, level=level)

    assert len(err.splitlines()) == lines


def test_sql_statements_are_never_logged_as_they_contain_values():
    assert QUIET["django.db.backends"] > logging.DEBUG
    assert not logging.getLogger("django.db.backends").isEnabledFor(logging.DEBUG)
