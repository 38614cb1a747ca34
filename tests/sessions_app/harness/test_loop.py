"""Tests of the harness: its bounds, and how each kind of end is recorded."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from django.db import IntegrityError, connection

from agents.definitions import change_agent
from agents.providers.base import TextDelta, ToolCall, Usage
from sessions_app.accept import accept_event
from sessions_app.harness.execution import parallel_batches
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import Draft, Run, Session, ToolExecution
from tests.sessions_app.conftest import OWNER, newest, serve, types
from tests.sessions_app.stage import WORDS, E, Note, call, say
from tests.stack.running import wait_for
from tools_app.registry import Category, Effect, registry

pytestmark = pytest.mark.usefixtures("stage_tools")


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
    assert session.title == "Go"


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
def test_an_invalid_or_failing_call_becomes_an_error_result(
    session, principal, script, asked, state, complaint
):
    script([asked], WORDS)
    say(session, principal)

    serve(session.pk)

    result = newest(session, "agent.tool_result").payload
    assert result["state"] == state
    assert complaint in result["error"]
    assert Run.objects.get().status == "completed"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("the disk is full"), "The tool look raised RuntimeError: the disk is full"),
        (KeyError("city"), "The tool look raised KeyError: 'city'"),
        (ValueError("token=abcdef123456\x00"), "The tool look raised ValueError: token=[removed]"),
        (SystemExit(), "The tool look raised SystemExit"),
        (IntegrityError("Key (email)=(a@b.c)"), "The tool look raised IntegrityError"),
    ],
)
def test_a_tools_exception_is_told_as_the_tools_with_its_type(
    session, principal, script, monkeypatch, error, told
):
    def explode(arguments: Note, context) -> str:
        raise error

    monkeypatch.setitem(registry, "look", replace(registry["look"], handler=explode))
    provider = script([call("look")], WORDS)
    say(session, principal)

    serve(session.pk)

    result = newest(session, "agent.tool_result").payload
    assert (result["state"], result["error"]) == ("error", told)
    assert told in provider.requests[1].messages[-1].results[0].output


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "output",
    [
        {"a": {1, 2}},
        object(),
        b"bytes",
        10**30,
        nested(300),
        nested(5_000),
        ["x" * 1_100_000],
    ],
    ids=lambda output: type(output).__name__,
)
def test_a_result_that_json_cannot_hold_is_that_calls_error(
    session, principal, script, monkeypatch, output
):
    monkeypatch.setitem(
        registry, "look", replace(registry["look"], handler=lambda arguments, context: output)
    )
    script([call("look")], WORDS)
    say(session, principal)

    serve(session.pk)

    result = newest(session, "agent.tool_result").payload
    assert result["state"] == "error"
    assert "The tool look ran and returned what cannot be stored as JSON" in result["error"]
    assert ToolExecution.objects.get().state == "error"
    assert Run.objects.get().status == "completed"


@pytest.mark.parametrize(
    ("output", "stored"),
    [
        ("a\x00b\ud83d", "a\ufffdb\ufffd"),
        ({"a\x00": ("\ud83d", 1)}, {"a\ufffd": ["\ufffd", 1]}),
        ({1: float("inf")}, {"1": None}),
    ],
)
def test_a_result_is_made_storable(session, principal, script, monkeypatch, output, stored):
    monkeypatch.setitem(
        registry, "look", replace(registry["look"], handler=lambda arguments, context: output)
    )
    script([call("look")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert newest(session, "agent.tool_result").payload["output"] == stored
    assert ToolExecution.objects.get().output == stored


def test_a_very_long_result_is_cut(session, principal, script, monkeypatch):
    monkeypatch.setitem(
        registry,
        "look",
        replace(registry["look"], handler=lambda arguments, context: "x" * 3_000_000),
    )
    script([call("look")], WORDS)
    say(session, principal)

    serve(session.pk)

    output = newest(session, "agent.tool_result").payload["output"]
    assert len(output) < 1_001_000
    assert "2,000,000 of 3,000,000 characters were cut here" in output


def test_read_only_calls_run_in_parallel(session, principal, script, monkeypatch):
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


def test_calls_run_together_up_to_the_limit_and_their_results_keep_their_order(
    session, agent, principal, script, monkeypatch
):
    at_once: list[int] = []
    running: set[str] = set()
    lock = threading.Lock()

    def count(arguments: Note, context) -> str:
        with lock:
            running.add(arguments.text)
            at_once.append(len(running))
        time.sleep(0.3 if arguments.text in "02" else 0.1)
        with lock:
            running.discard(arguments.text)
        return arguments.text

    monkeypatch.setitem(registry, "look", replace(registry["look"], handler=count))
    monkeypatch.setitem(registry, "act", replace(registry["act"], handler=count))
    change_agent(agent, {"limits": {"max_parallel_calls": 2}})
    session.agent_version = agent.versions.latest("number")
    session.save(update_fields=["agent_version"])
    names = ["look", "look", "look", "act", "act", "look", "look"]
    provider = script([call(name, str(n), f"c{n}") for n, name in enumerate(names)], WORDS)
    say(session, principal)

    serve(session.pk)

    assert at_once == [1, 2, 1, 1, 1, 1, 2]
    results = session.events.filter(type=E.AGENT_TOOL_RESULT)
    assert [r.payload["output"] for r in results] == list("0123456")
    assert [r.output for r in provider.requests[1].messages[-1].results] == list("0123456")


def asked_for(name: str, *, read_only: bool = False) -> ToolExecution:
    return ToolExecution(name=name, input={}, read_only=read_only)


def test_no_two_calls_with_effects_on_the_same_target_run_together():
    remote = replace(registry["act"], ownership="mcp", effects=frozenset({Effect.NETWORK}))
    local = replace(remote, effects=frozenset({Effect.COMMANDS, Effect.FILES}))
    tools = {
        "mcp:a:x": remote,
        "mcp:a:y": remote,
        "mcp:b:x": remote,
        "mcp:c:x": local,
        "act": registry["act"],
        "read": replace(registry["look"], category=Category.FILESYSTEM),
        "fetch": replace(registry["look"], category=Category.WEB),
    }
    reads = ("read", "fetch")

    def batches(*names: str, most: int = 8) -> list[list[str]]:
        calls = [asked_for(name, read_only=name in reads) for name in names]
        return [[one.name for one in batch] for batch in parallel_batches(calls, tools, most)]

    assert batches("mcp:a:x", "mcp:b:x", "read") == [["mcp:a:x", "mcp:b:x", "read"]]
    assert batches("mcp:a:x", "mcp:a:y") == [["mcp:a:x"], ["mcp:a:y"]]
    assert batches("act", "act") == [["act"], ["act"]]
    assert batches("act", "mcp:a:x") == [["act"], ["mcp:a:x"]]
    assert batches("act", "read", "read") == [["act"], ["read", "read"]]
    assert batches("act", "fetch", "fetch") == [["act", "fetch", "fetch"]]
    assert batches("mcp:c:x", "read") == [["mcp:c:x"], ["read"]]
    assert batches("read", "read", "read", most=2) == [["read", "read"], ["read"]]
    assert batches() == []


def test_the_ledger_is_written_before_the_tool_runs(session, principal, script, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "sessions_app.harness.crash_points.on_reach",
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


def test_a_steered_message_is_read_before_the_next_model_call(session, principal, script):
    provider = script(
        [lambda: say(session, principal, "also Y", on_busy="steer"), call("look", "x")], WORDS
    )
    say(session, principal, "X")

    serve(session.pk)

    seen = provider.requests[1].messages
    assert seen[-1].text == "also Y"
    assert Run.objects.count() == 1


def test_the_model_reads_a_followup_after_its_answer(session, principal, script):
    provider = script([lambda: say(session, principal, "second"), *WORDS], WORDS)
    say(session, principal, "first")

    serve(session.pk)

    assert [m.text for m in provider.requests[1].messages] == ["first", "All done.", "second"]


@pytest.mark.parametrize(
    ("limits", "said", "reason"),
    [
        ({"max_model_calls": 2}, "2 model calls", "step_limit"),
        ({"max_tool_calls": 2}, "2 tool calls", "tool_limit"),
        ({"max_tokens_total": 1000}, "1,000 tokens", "token_limit"),
    ],
)
def test_each_limit_ends_the_run_and_is_named(
    session, principal, script, agent, limits, said, reason
):
    change_agent(agent, {"limits": limits})
    session.agent_version = agent.versions.latest("number")
    session.save()
    usage = Usage(input_tokens=400, output_tokens=100)
    script(*[[call("look", str(n), f"c{n}"), usage] for n in range(9)])
    say(session, principal)

    serve(session.pk)

    assert said in newest(session, "session.error").payload["message"]
    assert newest(session, "session.status_idle").payload["stop_reason"] == reason
    assert Session.objects.get().status == "idle"


def test_repeating_the_same_call_with_the_same_result_ends_the_run_as_stuck(
    session, principal, script
):
    script(*[[call("look", "same", f"c{n}")] for n in range(9)])
    say(session, principal)

    serve(session.pk)

    assert "Stuck" in newest(session, "session.error").payload["message"]
    assert ToolExecution.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_an_interrupt_during_an_answer_ends_the_run(session, principal, script):
    def interrupt() -> None:
        accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})

    script([TextDelta(text="One "), interrupt, TextDelta(text="two.")])
    say(session, principal)

    serve(session.pk)

    # Text that had reached the draft by then is kept, which depends on the speed of the machine.
    after = types(session)[types(session).index("user.interrupt") :]
    assert [type for type in after if type != E.AGENT_MESSAGE] == [
        "user.interrupt",
        "session.status_idle",
    ]
    kept = session.events.filter(type=E.AGENT_MESSAGE)
    assert {event.payload["text"] for event in kept} <= {"One "}
    assert Run.objects.get().status == "cancelled"


def test_a_stop_signal_ends_a_waiting_tool_early(session, principal, script):
    sign, seconds = StopSignal(), 30
    script([ToolCall(call_id="c", name="wait", arguments={"seconds": seconds})], WORDS)
    say(session, principal)
    claim = run_queue.claim(session.pk, OWNER)
    threading.Timer(0.2, sign.send, ["interrupted"]).start()
    began = time.monotonic()

    assert run(claim, OWNER, sign) is None

    assert time.monotonic() - began < seconds / 2


@pytest.mark.django_db(transaction=True)
def test_text_before_a_stopped_tool_call_is_stored_once(session, principal, script, monkeypatch):
    def stop_me(arguments: Note, context) -> str:
        accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})
        return "late"

    monkeypatch.setitem(registry, "act", replace(registry["act"], handler=stop_me))

    def drafted() -> None:
        wait_for(lambda: Draft.objects.filter(text="I begin.").exists(), "the draft")

    script([TextDelta(text="I begin."), drafted, call("act")])
    say(session, principal)

    serve(session.pk)

    said = [e.payload["text"] for e in session.events.filter(type=E.AGENT_MESSAGE)]
    assert said == ["I begin."]
    assert newest(session, E.AGENT_TOOL_RESULT).payload["state"] == "cancelled"
    assert not Draft.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_no_connection_is_held_during_a_model_or_tool_call(session, principal, script, monkeypatch):
    held = []

    def reach(name: str) -> None:
        if name in {"before_model_call", "inside_tool"}:
            held.append((name, connection.connection is not None))

    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", reach)
    script([call("act")], WORDS)
    say(session, principal)

    serve(session.pk)

    assert held == [
        ("before_model_call", False),
        ("inside_tool", False),
        ("before_model_call", False),
    ]
