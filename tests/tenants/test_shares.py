"""Tests that one workspace uses only its share of the threads that answer requests."""

from __future__ import annotations

import pytest

from tenants.authentication import requests_under_way


@pytest.fixture
def full(monkeypatch, workspace):
    """Let the workspace have one request under way, which is all that it may have."""
    monkeypatch.setattr(requests_under_way, "_each", lambda: 1)
    assert requests_under_way.take(workspace.pk)
    yield
    requests_under_way.give_back(workspace.pk)
    assert not requests_under_way._held


def test_a_request_above_the_share_of_its_workspace_is_told_to_wait(full, api):
    answer = api.get("/api/v1/agents/")

    assert (answer.status_code, answer.json()["code"]) == (429, "workspace_busy")
    assert int(answer["Retry-After"]) >= 1


def test_a_page_above_the_share_of_its_workspace_says_so(full, browser_client):
    answer = browser_client.get("/approvals/")

    assert answer.status_code == 429
    assert "too many requests under way" in answer.text


def test_a_repeatable_request_above_the_share_is_told_to_wait(full, api):
    answer = api.post("/api/v1/agents/", {}, format="json", headers={"Idempotency-Key": "k"})

    assert answer.status_code == 429


def test_another_workspace_is_not_affected(full, foreign_api):
    assert foreign_api.get("/api/v1/agents/").status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/agents/", "/api/v1/agents/none/", "/api/v1/nothing/"])
def test_a_request_gives_its_share_back_however_it_ends(monkeypatch, api, browser_client, path):
    monkeypatch.setattr(requests_under_way, "_each", lambda: 1)
    for _ in range(3):
        assert api.get(path).status_code != 429
        assert browser_client.get("/approvals/").status_code == 200
        assert browser_client.get("/nowhere/").status_code == 404

    assert not requests_under_way._held


def test_a_view_that_fails_gives_its_share_back(monkeypatch, api):
    monkeypatch.setattr("agents.api.agents.AgentViewSet.list", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        api.get("/api/v1/agents/")

    assert not requests_under_way._held
