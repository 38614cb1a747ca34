"""Tests that the demo provider builds agents with the builder's tools."""

from __future__ import annotations

import pytest

from agents.providers.demo.phrases import NOT_UNDERSTOOD, Call, Calls, Say, plan_of


def calls(text: str) -> list[Call]:
    found: list[Call] = []
    for step in plan_of(text, building=True):
        assert isinstance(step, Calls), step
        found += step.calls
    return found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("make an agent that answers billing questions", "Billing helper"),
        (
            "Please build me a new assistant that summarises customer calls.",
            "Customer calls helper",
        ),
        ("I need an agent to count boats", "Boats helper"),
    ],
)
def test_a_purpose_becomes_a_complete_agent(text, name):
    (call,) = calls(text)
    assert call.tool == "builder_update_agent"
    assert call.arguments["name"] == name
    assert set(call.arguments) == {"name", "description", "system_prompt"}


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (
            "let it read files but ask before running commands",
            {"allow": ["read", "list_directory"], "ask": ["exec"]},
        ),
        ("It may search the web, but not run commands", None),
        ("never let it run commands or", None),
        ("ask me before sending messages", {"ask": ["message"]}),
        ("don't let it run commands", {"deny": ["exec"]}),
        ("Never run commands.", {"deny": ["exec"]}),
        (
            "let it read files and write files",
            {"allow": ["read", "list_directory", "write", "edit"]},
        ),
    ],
)
def test_rules_in_plain_language_become_a_policy_or_a_question(text, rules):
    step = plan_of(text, building=True)[0]
    if rules is None:
        assert isinstance(step, (Say, Calls))
    else:
        assert calls(text) == [Call(tool="builder_set_policy", arguments=rules)]


def test_one_message_may_ask_for_several_changes():
    text = "Make an agent that counts boats. Call it Bo and add a step that counts. Publish it!"
    assert [call.tool for call in calls(text)] == [
        "builder_update_agent",
        "builder_update_agent",
        "builder_add_step",
        "builder_publish",
    ]
    assert calls(text)[1].arguments == {"name": "Bo"}


def test_the_demo_does_not_build_without_the_builders_tools():
    assert plan_of("publish it") == (NOT_UNDERSTOOD,)
    assert plan_of("make an agent that counts boats") == (NOT_UNDERSTOOD,)
