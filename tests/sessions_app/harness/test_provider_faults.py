"""Tests of failing model calls: retried, handed to a fallback model, or reported."""

from __future__ import annotations

import pytest

from agents.definitions import change_agent
from agents.exceptions import ProviderRejected, ProviderUnavailable
from agents.providers.base import TextDelta, ToolCall
from sessions_app.models import Run
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, call, say

pytestmark = pytest.mark.usefixtures("stage_tools")


def test_a_temporary_failure_is_retried(session, principal, script):
    script([ProviderUnavailable("busy")], [ProviderUnavailable("busy")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert newest(session, "agent.message").payload["text"] == "All done."


def test_a_rejected_request_falls_back_to_the_next_model(session, principal, script, agent):
    change_agent(agent, {"fallbacks": [{"provider": "demo", "model": "other"}]})
    session.agent_version = agent.versions.latest("number")
    session.save()
    provider = script([ProviderRejected("no such model")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert [r.model for r in provider.requests] == ["demo", "other"]
    assert newest(session, "agent.message").payload["model"] == "other"


def test_there_is_no_fallback_once_text_was_shown_or_a_tool_ran(session, principal, script, agent):
    change_agent(agent, {"fallbacks": [{"provider": "demo", "model": "other"}]})
    session.agent_version = agent.versions.latest("number")
    session.save()
    provider = script([TextDelta(text="Well"), ProviderRejected("no")])
    say(session, principal)
    serve(session.pk)

    assert len(provider.requests) == 1
    failed = Run.objects.get()
    assert (failed.status, failed.error["code"]) == ("failed", "provider_rejected")
    assert newest(session, "session.error").payload["message"] == "no"

    provider = script([call("look", "x")], [ProviderRejected("no")])
    say(session, principal)
    serve(session.pk)
    assert [r.model for r in provider.requests] == ["demo", "demo"]


def test_there_is_no_retry_once_text_was_shown(session, principal, script):
    provider = script([TextDelta(text="Well"), ProviderUnavailable("busy")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert len(provider.requests) == 1
    assert Run.objects.get().stop_reason == "retries_exhausted"
    assert newest(session, "session.error").payload["message"] == "busy"


def test_the_providers_state_is_sent_back_to_it(session, principal, script):
    signed = ToolCall(call_id="c", name="look", arguments={}, provider_state="c2ln")
    provider = script([signed], WORDS)
    say(session, principal)

    serve(session.pk)

    assert provider.requests[1].messages[1].calls[0].provider_state == "c2ln"


def test_an_empty_answer_is_a_provider_failure(session, principal, script):
    script([], [], [])
    say(session, principal)

    serve(session.pk)

    assert Run.objects.get().error["code"] == "provider_unavailable"
