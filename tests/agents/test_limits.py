"""Tests of the limits of runs and of sandboxes."""

from __future__ import annotations

import pytest

from agents.limits import Limits, SandboxLimits, limits_of
from agents.models import AgentVersion
from core.exceptions import Invalid, InvalidFields
from core.validation import read_input


def test_limits_have_defaults():
    assert read_input(Limits, {}) == Limits(
        max_model_calls=30, max_tool_calls=100, max_seconds=1800, max_tokens_total=1_000_000
    )


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"max_model_calls": 0}, "max_model_calls: .*greater than or equal to 1"),
        ({"max_seconds": 10**9}, "max_seconds: .*less than or equal to"),
        ({"max_tool_calls": "many"}, "max_tool_calls: .*valid integer"),
        ({"max_tokens_total": True}, "max_tokens_total: .*valid integer"),
        ({"max_money": 5}, "max_money: There is no such field"),
        ([], "an object"),
        (None, "an object"),
    ],
)
def test_an_invalid_limit_is_named_in_the_error(fields, complaint):
    with pytest.raises(Invalid, match=complaint):
        read_input(Limits, fields)


def test_all_invalid_limits_are_reported_together():
    with pytest.raises(InvalidFields) as caught:
        read_input(SandboxLimits, {"pids": 0, "memory_mb": 1})

    assert [error["field"] for error in caught.value.errors] == ["memory_mb", "pids"]


def test_limits_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Limits().max_seconds = 5


def test_a_stored_limit_that_no_longer_exists_does_not_stop_its_agent():
    version = AgentVersion(limits={"max_seconds": 60, "max_rockets": 3})

    assert limits_of(version) == Limits(max_seconds=60)
