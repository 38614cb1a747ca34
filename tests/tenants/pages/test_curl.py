"""Tests of the curl command that the pages offer to newcomers."""

from __future__ import annotations

import json
import shlex

import pytest
from django.db.models.functions import Now
from django.test import RequestFactory
from rest_framework.test import APIClient

from agents.definitions import change_agent, find_agent
from agents.models import Agent
from tenants.pages.workspace import curl_example, curl_list_agents


@pytest.fixture
def request_here(rf: RequestFactory):
    return rf.get("/")


def send(api: APIClient, words: list[str]) -> int:
    """Send the request of a shell line and return the status."""
    assert words[0] == "curl"
    path = words[1].removeprefix("http://testserver")
    if "-d" in words:
        body = json.loads(words[words.index("-d") + 1])
        return api.post(path, body, format="json").status_code
    return api.get(path).status_code


def test_the_command_reaches_an_agent_unchanged(api, workspace, request_here):
    words = shlex.split(curl_example(request_here, workspace.pk))

    assert send(api, words) == 202
    assert "x-api-key: YOUR_KEY" in words


def test_quotes_in_an_agents_name_are_escaped(api, workspace, request_here):
    change_agent(find_agent(workspace.pk, "Concierge"), {"name": """O'Neil "the" $HOME"""})
    command = curl_example(request_here, workspace.pk)
    assert "Neil" in command

    assert send(api, shlex.split(command)) == 202


def test_the_command_lists_agents_when_there_is_none(api, workspace, request_here):
    Agent.objects.update(archived_at=Now())
    command = curl_example(request_here, workspace.pk)

    assert command == curl_list_agents(request_here)
    assert send(api, shlex.split(command)) == 200
