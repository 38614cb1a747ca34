"""The harness: bounded, recoverable, and honest about what it does not know."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from pydantic import BaseModel

from agents.definitions import change_agent
from agents.providers.base import TextDelta, ToolCall, Usage
from config.faults import (
    ProviderRejected,
    ProviderUnavailable,
    ToolFailed,
)
from sessions_app import answer, lanes
from sessions_app.doors import accept_event
from sessions_app.harness import run
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.stopping import StopSign
from tests.sessions_app.conftest import OWNER, newest, serve, types
from tools_app.registry import Category, registry, tool

E = SessionEvent.Type


class Note(BaseModel):
    text: str = ""


@pytest.fixture
def effects() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def tools(monkeypatch, effects):
    """Four tools beside the real ones: one that reads, one that acts, one that asks, one that fails."""
    known = dict(registry)

    @tool(category=Category.TIME, read_only=True)
    def look(arguments: Note, context) -> str:
        """Look at something."""
        return f"saw {arguments.text}"

    @tool(category=Category.TIME)
    def act(arguments: Note, context) -> str:
        """Do something once."""
        effects.append(arguments.text)
        return f"did {arguments.text}"

    @tool(category=Category.TIME)
    def ask_first(arguments: Note, context) -> str:
        """Do something that a person must allow."""
        effects.append(arguments.text)
        return f"did {arguments.text}"

    @tool(category=Category.TIME)
    def fail(arguments: Note, context) -> str:
        """Fail."""
        raise ToolFailed("It does not work.")

    from tools_app.selection import Decision

    allow = Decision(decision="allow", decided_by="test")
    policy = dict.fromkeys(("look", "act", "fail"), allow)
    policy["ask_first"] = Decision(decision="ask", decided_by="test asks")
    policy["wait"] = allow
    monkeypatch.setattr("sessions_app.turn.effective_policy", lambda *_: policy)
    monkeypatch.setattr(answer, "PAUSES", (0.0, 0.0))
    yield
    registry.clear()
    registry.update(known)


def say(session: Session, principal, text: str = "go", **words):
    return accept_event(principal, session.pk, type=E.USER_MESSAGE, payload={"text": text}, **words)


def call(name: str, text: str = "", id: str = "c1") -> ToolCall:
    return ToolCall(call_id=id, name=name, arguments={"text": text})


WORDS = [TextDelta(text="All "), TextDelta(text="done."), Usage(input_tokens=7, output_tokens=2)]


def test_a_turn_runs_the_tool_and_shows_its_result_to_the_model(session, principal, script):
    provider = script([call("look", "x")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert types(session) == [
        "user.message",
        "session.status_changed",
        "agent.tool_use",
        "agent.tool_result",
        "agent.message",
        "session.status_idle",
    ]
    assert newest(session, "agent.message").payload["text"] == "All done."
    assert provider.requests[1].messages[-1].results[0].output == "saw x"
    done = Run.objects.get()
    assert done.result["text"] == "All done."
    assert (done.usage["model_calls"], done.usage["tool_calls"]) == (2, 1)
    assert done.policy["ask_first"] == {"decision": "ask", "decided_by": "test asks"}
    session.refresh_from_db()
    assert session.title == "go"


@pytest.mark.parametrize(
    ("asked", "state", "complaint"),
    [
        (call("nope"), "error", "no tool named 'nope'"),
        (
            ToolCall(call_id="c", name="look", arguments={"wrong": 1, "text": []}),
            "error",
            "Invalid arguments",
        ),
        (call("fail"), "error", "It does not work."),
    ],
)
def test_a_bad_call_is_answered_not_raised(session, principal, script, asked, state, complaint):
    script([asked], WORDS)
    say(session, principal)

    serve(session.pk)

    result = newest(session, "agent.tool_result").payload
    assert result["state"] == state
    assert complaint in result["error"]
    assert Run.objects.get().status == "completed"


def test_a_crash_inside_a_tool_is_a_result_that_hides_the_inside(
    session, principal, script, monkeypatch
):
    def explode(arguments: Note, context) -> str:
        raise RuntimeError("secret inside")

    monkeypatch.setitem(registry, "look", replace(registry["look"], handler=explode))
    script([call("look")], WORDS)
    say(session, principal)

    serve(session.pk)

    result = newest(session, "agent.tool_result").payload
    assert result["state"] == "error"
    assert "secret" not in result["error"]


def test_calls_that_only_read_run_together(session, principal, script, monkeypatch):
    together = threading.Barrier(3, timeout=10)

    def meet(arguments: Note, context) -> str:
        together.wait()
        return "met"

    monkeypatch.setitem(registry, "look", replace(registry["look"], handler=meet))
    script([call("look", str(n), f"c{n}") for n in range(3)], WORDS)
    say(session, principal)

    serve(session.pk)

    results = session.events.filter(type=E.AGENT_TOOL_RESULT)
    assert [r.payload["output"] for r in results] == ["met"] * 3


def test_the_ledger_is_written_before_the_tool_runs(session, principal, script, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "sessions_app.points.on_reach",
        lambda name: seen.append(
            (name, list(ToolExecution.objects.values_list("state", flat=True)))
        ),
    )
    script([call("act", "x")], WORDS)
    say(session, principal)

    serve(session.pk)

    states = dict(seen)
    assert states["after_tool_use"] == ["requested"]
    assert states["inside_tool"] == ["running"]
    assert ToolExecution.objects.get().state == "completed"


def lose(monkeypatch, at: str):
    """Let the worker vanish at this point: nothing after it is written."""

    class Gone(BaseException):
        pass

    def vanish(name: str) -> None:
        if name == at:
            raise Gone

    monkeypatch.setattr("sessions_app.points.on_reach", vanish)
    return Gone


def recover(session: Session, monkeypatch) -> None:
    monkeypatch.setattr("sessions_app.points.on_reach", lambda name: None)
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    lanes.reap()
    serve(session.pk)


@pytest.mark.parametrize(
    "point", ["after_claim", "before_model_call", "after_model_call", "before_completion"]
)
def test_a_run_lost_at_any_point_is_answered_once(session, principal, script, monkeypatch, point):
    script(WORDS, WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, point)):
        serve(session.pk)

    recover(session, monkeypatch)

    assert session.events.filter(type=E.AGENT_MESSAGE).count() == 1
    assert Run.objects.get().status == "completed"


def test_a_call_that_was_not_started_runs_after_the_crash(
    session, principal, script, monkeypatch, effects
):
    script([call("act", "once")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "after_tool_use")):
        serve(session.pk)

    recover(session, monkeypatch)

    assert effects == ["once"]
    assert ToolExecution.objects.get().state == "completed"


def test_a_started_call_with_an_effect_becomes_unknown_and_is_not_repeated(
    session, principal, script, monkeypatch, effects
):
    provider = script([call("act", "once")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "before_tool_result")):
        serve(session.pk)
    assert effects == ["once"]

    recover(session, monkeypatch)

    assert effects == ["once"]
    assert ToolExecution.objects.get().state == "unknown"
    told = provider.requests[-1].messages[-1].results[0]
    assert told.is_error
    assert "not known" in told.output


def test_a_started_call_that_only_reads_is_repeated(session, principal, script, monkeypatch):
    script([call("look", "x")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "before_tool_result")):
        serve(session.pk)

    recover(session, monkeypatch)

    execution = ToolExecution.objects.get()
    assert (execution.state, execution.attempts) == ("completed", 2)


def test_a_call_that_asks_parks_the_session_and_holds_no_worker(
    session, principal, script, effects
):
    script([call("ask_first", "x")], WORDS)
    say(session, principal)

    serve(session.pk)

    session.refresh_from_db()
    waiting = ToolExecution.objects.get()
    idle = newest(session, "session.status_idle").payload
    assert (session.status, waiting.state) == ("requires_action", "awaiting_approval")
    assert idle == {"stop_reason": "requires_action", "blocking": [waiting.tool_use_id]}
    assert Run.objects.get().status == "completed"
    assert effects == []


def confirm(session, principal, decision: str, **words):
    call_id = ToolExecution.objects.filter(state="awaiting_approval").earliest("id").tool_use_id
    payload = {"tool_use_id": call_id, "decision": decision, **words}
    return accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=payload)


def test_an_allowed_call_runs_with_the_stored_arguments_and_the_model_is_not_asked_again(
    session, principal, script, effects
):
    provider = script([call("ask_first", "as asked")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "allow")
    serve(session.pk)

    assert effects == ["as asked"]
    assert len(provider.requests) == 2
    assert newest(session, "agent.message").payload["text"] == "All done."


def test_an_allowed_call_runs_with_edited_arguments(session, principal, script, effects):
    script([call("ask_first", "dangerous")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "allow", input={"text": "harmless"})
    serve(session.pk)

    assert effects == ["harmless"]


def test_a_denied_call_is_told_to_the_model(session, principal, script, effects):
    provider = script([call("ask_first", "x")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "deny", note="not today")
    serve(session.pk)

    assert effects == []
    assert "not today" in provider.requests[-1].messages[-1].results[0].output


def test_of_two_waiting_calls_the_rest_is_named_again(session, principal, script, effects):
    script([call("ask_first", "1", "a"), call("ask_first", "2", "b")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "allow")

    left = ToolExecution.objects.get(state="awaiting_approval").tool_use_id
    assert newest(session, "session.status_idle").payload["blocking"] == [left]
    assert lanes.claim(session.pk, OWNER) is None
    confirm(session, principal, "allow")
    serve(session.pk)
    assert effects == ["1", "2"]


def test_an_answer_that_comes_before_the_run_has_parked_is_not_lost(
    session, principal, script, monkeypatch, effects
):
    script([call("ask_first", "quick")], WORDS)
    say(session, principal)
    answered = []

    def answer_now(name: str) -> None:
        if name == "before_completion" and not answered:
            answered.append(confirm(session, principal, "allow"))

    monkeypatch.setattr("sessions_app.points.on_reach", answer_now)
    serve(session.pk)

    assert effects == ["quick"]
    assert newest(session, "agent.message").payload["text"] == "All done."


def test_messages_that_come_while_it_waits_queue_and_an_interrupt_frees_them(
    session, principal, script, effects
):
    script([call("ask_first", "x")], WORDS)
    say(session, principal)
    serve(session.pk)
    say(session, principal, "next")
    assert lanes.claim(session.pk, OWNER) is None

    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})
    serve(session.pk)

    assert effects == []
    assert ToolExecution.objects.get().state == "cancelled"
    assert newest(session, "agent.message").payload["text"] == "All done."


def test_a_steered_message_is_read_before_the_next_model_call(session, principal, script):
    provider = script(
        [lambda: say(session, principal, "also Y", on_busy="steer"), call("look", "x")], WORDS
    )
    say(session, principal, "X")

    serve(session.pk)

    seen = provider.requests[1].messages
    assert seen[-1].text == "also Y"
    assert Run.objects.count() == 1


def test_a_followup_is_read_after_the_answer_before_it(session, principal, script):
    provider = script([lambda: say(session, principal, "second"), *WORDS], WORDS)
    say(session, principal, "first")

    serve(session.pk)

    assert [m.text for m in provider.requests[1].messages] == ["first", "All done.", "second"]


def test_a_fault_that_may_pass_is_tried_again(session, principal, script):
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


def test_nothing_falls_back_once_words_were_shown_or_a_tool_ran(session, principal, script, agent):
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


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_model_calls": 2}, "2 model calls"),
        ({"max_tool_calls": 2}, "2 tool calls"),
        ({"max_tokens_total": 1000}, "1,000 tokens"),
    ],
)
def test_each_bound_ends_the_run_and_says_which(session, principal, script, agent, limits, said):
    change_agent(agent, {"limits": limits})
    session.agent_version = agent.versions.latest("number")
    session.save()
    usage = Usage(input_tokens=400, output_tokens=100)
    script(*[[call("look", str(n), f"c{n}"), usage] for n in range(9)])
    say(session, principal)

    serve(session.pk)

    assert said in newest(session, "session.error").payload["message"]
    assert newest(session, "session.status_idle").payload["stop_reason"] == "step_limit"
    assert Session.objects.get().status == "idle"


def test_the_same_call_with_the_same_result_again_and_again_is_a_stuck_loop(
    session, principal, script
):
    script(*[[call("look", "same", f"c{n}")] for n in range(9)])
    say(session, principal)

    serve(session.pk)

    assert "Stuck" in newest(session, "session.error").payload["message"]
    assert ToolExecution.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_an_interrupt_in_mid_answer_writes_nothing_more(session, principal, script):
    def interrupt() -> None:
        accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})

    script([TextDelta(text="One "), interrupt, TextDelta(text="two.")])
    say(session, principal)

    serve(session.pk)

    assert types(session)[-2:] == ["user.interrupt", "session.status_idle"]
    assert Run.objects.get().status == "cancelled"


def test_a_stop_sign_ends_a_waiting_tool_within_a_second(session, principal, script):
    sign, seconds = StopSign(), 30
    script([ToolCall(call_id="c", name="wait", arguments={"seconds": seconds})], WORDS)
    say(session, principal)
    claim = lanes.claim(session.pk, OWNER)
    threading.Timer(0.2, sign.give, ["interrupted"]).start()
    began = time.monotonic()

    assert run(claim, OWNER, sign) is None

    assert time.monotonic() - began < seconds / 2


def test_a_fenced_worker_writes_no_event_ledger_or_result(session, principal, script, monkeypatch):
    script([call("act", "x")], WORDS)
    say(session, principal)
    before: list[int] = []

    def take_over(name: str) -> None:
        if name == "before_tool_result":
            Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
            lanes.reap()
            before.append(session.events.count())

    monkeypatch.setattr("sessions_app.points.on_reach", take_over)
    serve(session.pk)

    assert session.events.count() == before[0]
    assert ToolExecution.objects.get().state == "running"


def test_thoughts_of_the_provider_come_back_to_it(session, principal, script):
    signed = ToolCall(call_id="c", name="look", arguments={}, provider_state="c2ln")
    provider = script([signed], WORDS)
    say(session, principal)

    serve(session.pk)

    assert provider.requests[1].messages[1].calls[0].provider_state == "c2ln"


def test_an_empty_answer_is_not_taken_for_one(session, principal, script):
    script([], [], [])
    say(session, principal)

    serve(session.pk)

    assert Run.objects.get().error["code"] == "provider_unavailable"
