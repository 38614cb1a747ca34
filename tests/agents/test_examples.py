"""Tests of the example agents of a new workspace."""

from __future__ import annotations

import pytest

from agents.examples import EXAMPLES, suggestions
from agents.models import Agent, AgentVersion, Environment
from orchestrator.workspaces import create_workspace


def test_a_new_workspace_has_three_agents_and_an_environment(workspace, owner):
    versions = AgentVersion.objects.for_workspace(workspace.pk)

    assert {one.name for one in versions} == {"Concierge", "Researcher", "Coder"}
    assert {one.created_by for one in versions} == {owner}
    assert {(one.provider, one.model) for one in versions} == {("demo", "demo")}
    environment = Environment.objects.get(workspace=workspace)
    assert (environment.name, environment.network) == ("local-default", "none")


def test_a_workspace_without_an_owner_gets_the_examples_too(db):
    workspace = create_workspace(name="Robots", owner=None)

    assert Agent.objects.for_workspace(workspace.pk).count() == 3


def test_the_examples_use_the_operators_key_when_there_is_one(operator, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")

    workspace = create_workspace(name="Keyed", owner=operator)

    versions = AgentVersion.objects.for_workspace(workspace.pk)
    assert {one.provider for one in versions} == {"gemini"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_suggests_three_first_messages(example):
    assert len(suggestions(example.description)) == 3


def test_suggestions_are_the_lines_that_begin_with_try():
    description = "Does things.\nTry: one\n  Try:  two \nTry:\nYou may Try: three\nTry: 3\nTry: 4"

    assert suggestions(description) == ["one", "two", "3"]
    assert suggestions("") == []
