"""Tests of `conversation_search`, which finds messages that are no longer part of the context."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.ids import uuid7
from sessions_app import meaning
from sessions_app.lanes.queued_messages import withdraw_message
from sessions_app.models import MessageVector, Session
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.long_talk import Watched, say, tell, window_of, write_exchanges
from tools_app.registry import ToolContext, registry
from tools_app.sandbox.provisioning import LazySandbox

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def context(session: Session) -> ToolContext:
    return ToolContext(
        workspace_id=session.workspace_id,
        session_id=session.pk,
        agent_id=session.agent_id,
        run_id=uuid7(),
        call_id="c",
        sandbox=LazySandbox(lambda: pytest.fail("no sandbox is needed")),
    )


def search(context: ToolContext, query: str, **more: int) -> str:
    return registry["conversation_search"].call({"query": query, **more}, context)


def test_the_best_matches_are_listed_with_author_and_time(session, context):
    write_exchanges(session, ["the red kettle is broken", "the yellow engine runs", "so be it"])

    found = search(context, "What was it about that engine?")

    assert "yellow engine" in found
    assert "kettle" not in found
    first = found.splitlines()[0]
    assert first.startswith(("#3 person, 20", "#4 you, 20"))
    assert search(context, "engine", limit=1).count("#") == 1
    assert search(context, "zeppelin") == "No earlier message mentions 'zeppelin'."
    assert "No earlier message" in search(context, "the of and")


@pytest.mark.parametrize("query", ["a & b | !", "'", '"kettle', "-kettle", "\\", "<-> :*", "?!"])
def test_operators_in_a_query_are_treated_as_text(session, context, query):
    write_exchanges(session, ["the red kettle is broken"])

    assert search(context, query)


def test_the_message_being_answered_is_not_found(session, context, monkeypatch):
    write_exchanges(session, ["the heron is grey"])
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: Watched())
    tell(session, "say which colour the heron has")

    assert "which colour" not in search(context, "heron colour")
    assert "grey" in search(context, "heron colour")


def test_withdrawn_messages_and_other_sessions_are_not_searched(session, context, agent):
    write_exchanges(session, ["hello"])
    withdraw_message(session, say(session, "the secret is a heron"), None)
    other, _ = get_or_create_session(agent=agent, session_key="other")
    write_exchanges(other, ["a heron stands in the pond", "and so on"])
    write_exchanges(session, ["and so on"])

    assert search(context, "heron").startswith("No earlier message")
    assert "pond" in search(replace(context, session_id=other.pk), "heron")


def test_an_agent_with_a_summary_is_told_about_the_search(session, monkeypatch):
    model = Watched()
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: model)
    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: model)
    write_exchanges(session, [f"say note {nth} about " + "words " * 60 for nth in range(60)])
    with window_of(8_000):
        tell(session, "say hello")

    assert "conversation_search" in model.answered[-1].messages[0].text
    assert "conversation_search" in {tool.name for tool in model.answered[-1].tools}


def test_a_message_is_found_by_its_meaning(session, context):
    write_exchanges(
        session,
        [
            "Our employees get five weeks of paid holiday each year.",
            "The gateway restarts at night.",
            "so be it",
        ],
    )

    found = search(context, "vacation days of the staff", limit=1)

    assert "five weeks of paid holiday" in found


def test_vectors_are_added_once_and_only_for_what_is_new(session, context):
    write_exchanges(session, ["the red kettle is broken", "so be it"])
    search(context, "kettle")
    first = set(MessageVector.objects.values_list("pk", flat=True))
    assert first

    search(context, "kettle")
    assert set(MessageVector.objects.values_list("pk", flat=True)) == first
    tell(session, "say the yellow engine runs")
    tell(session, "say so")
    search(context, "engine")
    assert first < set(MessageVector.objects.values_list("pk", flat=True))


def test_a_long_conversation_is_added_in_parts_the_newest_first(session, context, monkeypatch):
    monkeypatch.setattr(meaning, "MOST_ADDED", 2)
    write_exchanges(session, [f"message {nth} of the talk" for nth in range(6)])
    newest = session.events.latest("seq").seq

    assert meaning.add_vectors(session, before=newest) == 2
    assert set(MessageVector.objects.values_list("seq", flat=True)) == {newest - 1, newest - 2}
    while meaning.add_vectors(session, before=newest):
        pass
    messages = session.events.filter(type__in=["user.message", "agent.message"], seq__lt=newest)
    assert MessageVector.objects.values("seq").distinct().count() == messages.count()


def test_messages_of_other_conversations_are_not_found_by_meaning(session, context, agent):
    other, _ = get_or_create_session(agent=agent)
    write_exchanges(other, ["Our employees get five weeks of paid holiday.", "fine"])
    write_exchanges(session, ["The gateway restarts at night.", "fine"])
    meaning.add_vectors(other, before=100)

    assert "holiday" not in search(context, "vacation of the staff")


def test_vectors_of_another_model_are_replaced(session, context):
    write_exchanges(session, ["the red kettle is broken", "so be it"])
    search(context, "kettle")
    MessageVector.objects.update(model="older")

    search(context, "kettle")

    assert not MessageVector.objects.filter(model="older").exists()
    assert MessageVector.objects.exists()
