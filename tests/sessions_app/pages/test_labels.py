"""Tests of the sentences in which pages describe rules."""

from __future__ import annotations

import pytest

from sessions_app.pages.labels import approval_reason

ALWAYS = "This tool always asks first, until a rule of the agent allows it."


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("default: exec asks first", ALWAYS),
        ("subagent: parent, default: exec asks first", ALWAYS),
        ("agent: ask exec", "The agent's policy asks: ask exec."),
        ("subagent: parent, workspace: ask *", "The workspace's policy asks: ask *."),
        ("taint: this session has read a page", "This session has read a page."),
        ("", ""),
    ],
)
def test_the_rule_that_asks_is_described_in_a_sentence(rule, sentence):
    assert approval_reason(rule) == sentence
