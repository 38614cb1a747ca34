"""Tests of the titles of forks."""

from __future__ import annotations

import pytest

from sessions_app.sessions import MAX_TITLE_LENGTH, fork_title


@pytest.mark.parametrize(
    ("title", "forked"),
    [
        ("", "Session (fork)"),
        ("Plan", "Plan (fork)"),
        ("Plan (fork)", "Plan (fork 2)"),
        ("Plan (fork 9)", "Plan (fork 10)"),
        ("(fork) in the road", "(fork) in the road (fork)"),
    ],
)
def test_a_fork_of_a_fork_is_numbered(title, forked):
    assert fork_title(title) == forked


def test_a_long_title_keeps_the_suffix():
    assert (
        fork_title("x" * MAX_TITLE_LENGTH) == "x" * (MAX_TITLE_LENGTH - len(" (fork)")) + " (fork)"
    )
