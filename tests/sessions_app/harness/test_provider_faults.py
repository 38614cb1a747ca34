"""Tests of failing model calls: retried, handed to a fallback model, or reported."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agents.definitions import change_agent
from agents.exceptions import (
    ProviderNotConfigured,
    ProviderRejected,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from agents.providers.base import TextDelta, ToolCall, Truncated, Usage
from sessions_app.models import Run
from sessions_app.sessions import retry_run
from tests.sessions_app.conftest import newest, serve, types
from tests.sessions_app.stage import WORDS, E, call, say

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


def test_an_answer_that_breaks_off_is_asked_for_again_and_replaces_its_draft(
    session, principal, script
):
    provider = script([TextDelta(text="Well"), ProviderUnavailable("cut")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert len(provider.requests) == 2
    assert [e.payload["text"] for e in session.events.filter(type=E.AGENT_MESSAGE)] == ["All done."]
    assert Run.objects.get().stop_reason == "end_turn"


def test_text_that_was_shown_of_an_answer_that_was_given_up_is_kept_and_marked(
    session, principal, script
):
    cut = ProviderUnavailable("cut")
    script([TextDelta(text="One"), cut], [TextDelta(text="Two, t"), cut], [cut])
    say(session, principal)

    serve(session.pk)

    assert types(session)[-3:] == ["agent.message", "session.error", "session.status_idle"]
    kept = newest(session, E.AGENT_MESSAGE).payload
    assert (kept["text"], kept["partial"]) == ("Two, t", True)
    assert newest(session, E.ERROR).payload == {
        "code": "provider_unavailable",
        "message": "cut",
        "retryable": True,
    }
    assert Run.objects.get().stop_reason == "retries_exhausted"


def test_text_that_was_shown_is_kept_when_the_time_is_up(session, principal, script, agent):
    change_agent(agent, {"limits": {"max_seconds": 1}})
    session.agent_version = agent.versions.latest("number")
    session.save()
    script([TextDelta(text="Well"), lambda: time.sleep(1.1), TextDelta(text=", no")])
    say(session, principal)

    serve(session.pk)

    kept = newest(session, E.AGENT_MESSAGE).payload
    assert (kept["text"], kept["partial"]) == ("Well", True)
    assert newest(session, E.STATUS_IDLE).payload["stop_reason"] == "time_limit"


def test_a_retried_run_answers_anew_and_a_later_message_sees_what_broke_off(
    session, principal, script
):
    broken = [TextDelta(text="Half an"), ProviderRejected("no")]
    provider = script(broken, WORDS, broken, WORDS)
    say(session, principal, "first")
    serve(session.pk)
    retry_run(Run.objects.get())
    serve(session.pk)
    assert [m.text for m in provider.requests[1].messages] == ["first"]
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."

    say(session, principal, "second")
    serve(session.pk)
    say(session, principal, "third")
    serve(session.pk)
    seen = [m.text for m in provider.requests[3].messages]
    assert seen == ["first", "All done.", "second", "Half an", "third"]


@pytest.mark.parametrize(
    "step",
    [
        [TextDelta(text="A\x00 and \ud83d")],
        [ToolCall(call_id="c", name="look", arguments={"text": "\x00\ud800"}), *WORDS],
        [ToolCall(call_id="c\x00", name="lo\x00ok", arguments={"n": 10**40}), *WORDS],
        [ToolCall(call_id="c", name="look", arguments={"text": [[[[]]]] * 3}), *WORDS],
    ],
)
def test_an_answer_with_characters_that_cannot_be_stored_is_kept(session, principal, script, step):
    script(step, WORDS)
    say(session, principal)

    serve(session.pk)

    assert Run.objects.get().status == "completed"
    assert "\x00" not in newest(session, E.AGENT_MESSAGE).payload["text"]


@pytest.mark.parametrize("told", ["no\x00", "no \ud83d"])
def test_a_fault_with_characters_that_cannot_be_stored_is_told(session, principal, script, told):
    script([TextDelta(text="\ud83d"), ProviderRejected(told)])
    say(session, principal)

    serve(session.pk)

    assert Run.objects.get().status == "failed"
    assert newest(session, E.ERROR).payload["message"].startswith("no")


def test_an_answer_that_cannot_be_read_ends_in_an_error_and_never_in_a_dead_run(
    session, principal, script
):
    wrong: Any = TextDelta(text=5)  # type: ignore[arg-type]
    provider = script([wrong], [wrong], [wrong])
    say(session, principal)

    serve(session.pk)

    assert len(provider.requests) == 3
    assert Run.objects.get().status == "failed"
    assert "cannot be read" in newest(session, E.ERROR).payload["message"]


def test_an_answer_that_is_too_large_is_not_asked_for_again(
    session, principal, script, monkeypatch
):
    monkeypatch.setattr("agents.providers.answer_checks.MAX_TEXT", 20)
    provider = script([TextDelta(text="x" * 15)] * 9)
    say(session, principal)

    serve(session.pk)

    assert len(provider.requests) == 1
    error = newest(session, E.ERROR).payload
    assert (error["code"], error["retryable"]) == ("answer_too_large", False)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "x" * 15


@pytest.mark.parametrize(
    "fault", [ProviderRejected("400"), ProviderUnauthorized("401"), ProviderNotConfigured()]
)
def test_a_fault_that_would_come_again_is_not_retryable(session, principal, script, fault):
    script([fault])
    say(session, principal)

    serve(session.pk)

    assert newest(session, E.ERROR).payload["retryable"] is False
    assert Run.objects.get().error["retryable"] is False


def test_an_answer_that_reached_its_token_limit_says_so(session, principal, script):
    script([TextDelta(text="And then"), Truncated(), Usage(output_tokens=2)])
    say(session, principal)

    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["truncated"] is True
    assert newest(session, E.STATUS_IDLE).payload["stop_reason"] == "max_tokens"
    run = Run.objects.get()
    assert (run.status, run.stop_reason, run.result["truncated"]) == (
        "completed",
        "max_tokens",
        True,
    )


def test_a_message_steered_into_a_truncated_answer_is_still_answered(session, principal, script):
    provider = script(
        [
            lambda: say(session, principal, "also Y", on_busy="steer"),
            TextDelta(text="X"),
            Truncated(),
        ],
        WORDS,
    )
    say(session, principal, "X?")

    serve(session.pk)

    assert provider.requests[1].messages[-1].text == "also Y"
    assert Run.objects.get().stop_reason == "end_turn"


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
