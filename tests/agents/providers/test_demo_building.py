"""What the demo understands of building agents, and only with a builder's tools."""

from __future__ import annotations

import pytest

from agents.providers.demo.plan import plan_of
from agents.providers.demo.steps import Calls, Help, Say, Wish


def wishes(text: str) -> list[Wish]:
    found: list[Wish] = []
    for step in plan_of(text, building=True):
        assert isinstance(step, Calls), step
        found += step.wishes
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
def test_a_purpose_becomes_a_whole_agent(text, name):
    (wish,) = wishes(text)
    assert wish.tool == "builder_update_agent"
    assert wish.arguments["name"] == name
    assert set(wish.arguments) == {"name", "description", "system_prompt"}


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
        (
            "let it read files and write files",
            {"allow": ["read", "list_directory", "write", "edit"]},
        ),
    ],
)
def test_rules_in_plain_words_become_a_policy_or_a_question(text, rules):
    step = plan_of(text, building=True)[0]
    if rules is None:
        assert isinstance(step, (Say, Calls))
    else:
        assert wishes(text) == [Wish(tool="builder_set_policy", arguments=rules)]


def test_several_wishes_in_one_breath():
    said = "Make an agent that counts boats. Call it Bo and use the model demo. Publish it!"
    assert [wish.tool for wish in wishes(said)] == [
        "builder_update_agent",
        "builder_update_agent",
        "builder_update_agent",
        "builder_publish",
    ]
    assert wishes(said)[1].arguments == {"name": "Bo"}


def test_without_a_builders_tools_it_does_not_build():
    assert plan_of("publish it") == (Help(),)
    assert plan_of("make an agent that counts boats") == (Help(),)
