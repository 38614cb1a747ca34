"""Tests of the address that `up` shows, of its health checks and its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.launcher.checks import read_health
from orchestrator.launcher.parts import accepted_host, shown_address
from orchestrator.launcher.stack import MAX_LOG_BYTES, rotate_logs


@pytest.mark.parametrize(
    ("public_url", "host", "shown"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", "http://127.0.0.1:8000"),
        ("http://0.0.0.0:8000", "0.0.0.0", "http://localhost:8000"),  # noqa: S104
        ("http://::1:8000", "::1", "http://[::1]:8000"),
        ("https://yard.example/", "0.0.0.0", "https://yard.example"),  # noqa: S104
    ],
)
def test_the_address_shown_works_in_a_browser(public_url: str, host: str, shown: str) -> None:
    assert shown_address(public_url, host) == shown


@pytest.mark.parametrize(
    ("allowed", "name"),
    [(["*"], "localhost"), ([".yard.example"], "yard.example"), ([], "localhost")],
)
def test_the_health_check_uses_an_allowed_host(allowed: list[str], name: str) -> None:
    assert accepted_host(allowed) == name


def test_a_response_that_is_not_a_health_report_counts_as_an_answer() -> None:
    health = read_health(502, b"<h1>Bad gateway</h1>")

    assert (health.answered, health.ok, health.failed) == (True, False, [])


def test_a_report_names_the_checks_that_failed() -> None:
    health = read_health(503, b'{"checks": {"database": "ok", "workers": "no sign of life"}}')

    assert health.failed == ["workers"]


def test_a_large_log_is_rotated_while_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * MAX_LOG_BYTES + b"the end")
        rotate_logs(tmp_path)
        writer.write(b"after")

    assert log.read_bytes() == b"after"
    kept = (tmp_path / "web.log.1").read_bytes()
    assert len(kept) == MAX_LOG_BYTES
    assert kept.endswith(b"xthe end")
