"""Tests of a chat that uses another model than its agent."""

from __future__ import annotations

import pytest

from agents.providers.base import TextDelta
from core.exceptions import InvalidFields
from core.validation import read_input
from sessions_app.accept import accept_event
from sessions_app.context.preview import preview
from sessions_app.sessions import ChatModel, choose_model, fork
from tests.sessions_app.conftest import serve


def ask(principal, session, **extra) -> None:
    payload = {"text": "hello", **extra}
    accept_event(principal, session.pk, type="user.message", payload=payload)
    serve(session.pk)


def test_a_chat_keeps_its_model_and_a_message_can_name_another(session, principal, script):
    provider = script(*([TextDelta(text="Hi.")] for _ in range(4)))
    ask(principal, session)
    choose_model(session, ChatModel(provider="openai", model="gpt-4o"))
    ask(principal, session)
    ask(principal, session, overrides={"provider": "openai", "model": "o3"})
    ask(principal, session)

    assert [one.model for one in provider.requests] == ["demo", "gpt-4o", "o3", "gpt-4o"]
    models = [one.payload["model"] for one in session.events.filter(type="agent.message")]
    assert models == ["demo", "gpt-4o", "o3", "gpt-4o"]


def test_the_context_is_previewed_for_the_chosen_model(session):
    choose_model(session, ChatModel(provider="openai", model="gpt-4o"))
    seen = preview(session)

    assert (seen.provider, seen.model) == ("openai", "gpt-4o")


def test_a_fork_keeps_the_choice_and_choosing_the_agents_own_model_ends_it(session):
    choose_model(session, ChatModel(provider="openai", model="gpt-4o"))
    assert fork(session, 0, None).model == "gpt-4o"
    choose_model(session, ChatModel(provider="demo", model="demo"))
    session.refresh_from_db()

    assert (session.provider, session.model) == ("", "")


@pytest.mark.parametrize("choice", [{"model": "x"}, {"provider": "openai"}, {"provider": "no"}])
def test_a_choice_names_a_known_provider_and_a_model(choice):
    with pytest.raises(InvalidFields):
        read_input(ChatModel, choice)


def test_rest_reads_and_changes_the_model_of_a_session(api, session, agent):
    path = f"/api/v1/sessions/{session.pk}/"
    changed = api.patch(path, {"provider": "openai", "model": "gpt-4o"}, format="json")
    assert (changed.json()["provider"], changed.json()["model"]) == ("openai", "gpt-4o")
    assert api.patch(path, {"model": "gpt-4o"}, format="json").status_code == 400
    assert api.patch(path, {"provider": "", "model": ""}, format="json").json()["model"] == ""
    made = api.post(
        "/api/v1/sessions/",
        {"agent": str(agent.pk), "provider": "openai", "model": "o3"},
        format="json",
    )
    assert made.json()["model"] == "o3"
