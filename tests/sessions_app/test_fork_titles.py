"""How forks are called."""

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
def test_a_fork_of_a_fork_has_a_number_instead_of_one_more_ending(title, forked):
    assert fork_title(title) == forked


def test_a_long_title_keeps_the_ending_that_tells_it_apart():
    assert (
        fork_title("x" * MAX_TITLE_LENGTH) == "x" * (MAX_TITLE_LENGTH - len(" (fork)")) + " (fork)"
    )
