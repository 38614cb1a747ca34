"""Tests that viewers of a task get all output of its command exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.tasks.commands import MAX_CHARACTERS, TRUNCATED, ProgressReporter, Reported


@pytest.fixture
def heard() -> list[dict[str, Any]]:
    return []


def reporter(heard: list[dict[str, Any]], told: int = 0) -> ProgressReporter:
    return ProgressReporter(
        name="run-1",
        step="run",
        reported=Reported(characters=told),
        broadcast=heard.append,
        report=lambda message, *, percent, step: None,
    )


def test_every_chunk_is_sent_whole_with_its_offset(heard):
    said = reporter(heard)
    for piece in ("nearly there\n", "ls: cannot access '/nowhere'\n", "or directory\n"):
        said.take(piece)

    assert "".join(one["text"] for one in heard) == (
        "nearly there\nls: cannot access '/nowhere'\nor directory\n"
    )
    assert [one["offset"] for one in heard] == [0, 13, 42]


@pytest.mark.parametrize("told", range(12))
def test_a_worker_that_continues_after_a_crash_sends_the_rest(heard, told):
    said = reporter(heard, told)
    for piece in ("one\n", "two\n", "six\n"):
        said.take(piece)

    assert "".join(one["text"] for one in heard) == "one\ntwo\nsix\n"[told:]
    assert heard[0]["offset"] == told


def test_a_flood_ends_with_a_note(heard):
    said = reporter(heard, MAX_CHARACTERS - 3)
    said.take("x" * (MAX_CHARACTERS + 10))
    said.take("more")

    assert [one["text"] for one in heard] == ["xxx", TRUNCATED]
