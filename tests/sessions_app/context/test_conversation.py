"""Tests of the messages built from a log: one result per call, alternating roles."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.providers.base import Message
from sessions_app.context.conversation import LogEntry, build_messages, trim


def lines(*events: tuple[str, dict[str, Any]]) -> list[LogEntry]:
    return [
        LogEntry(
            seq=nth,
            type=type,
            payload=payload,
            taken=not payload.get("waits"),
            run_id=None,
        )
        for nth, (type, payload) in enumerate(events, start=1)
    ]


def said(text: str) -> tuple[str, dict[str, Any]]:
    return ("user.message", {"text": text})


def answered(text: str) -> tuple[str, dict[str, Any]]:
    return ("agent.message", {"text": text})


def call(id: str) -> tuple[str, dict[str, Any]]:
    return ("agent.tool_use", {"tool_use_id": id, "name": "read", "input": {"path": id}})


def result(id: str, state: str = "completed", output: str = "done") -> tuple[str, dict[str, Any]]:
    payload = {"tool_use_id": id, "name": "read", "state": state, "output": output, "error": "bad"}
    return ("agent.tool_result", payload)


def shape(messages: list[Message]) -> list[str]:
    return [
        " ".join([m.role, *(c.call_id for c in m.calls), *(r.call_id for r in m.results)])
        for m in messages
    ]


def test_text_and_calls_of_one_answer_are_one_message():
    built = build_messages(lines(said("hi"), answered("Let me look."), call("a"), result("a")))

    assert shape(built) == ["user", "assistant a", "tool a"]
    assert built[1].text == "Let me look."


def test_parallel_calls_are_answered_together():
    built = build_messages(lines(said("hi"), call("a"), call("b"), result("b"), result("a")))

    assert shape(built) == ["user", "assistant a b", "tool a b"]


def test_a_call_without_a_result_gets_a_placeholder_result():
    built = build_messages(lines(said("hi"), call("a"), said("still there?")))

    assert shape(built) == ["user", "assistant a", "tool a", "user"]
    assert built[2].results[0].is_error
    assert "no result" in built[2].results[0].output


def test_a_result_without_a_call_is_left_out():
    assert shape(build_messages(lines(said("hi"), result("ghost")))) == ["user"]


def test_a_second_result_changes_nothing():
    built = build_messages(
        lines(said("hi"), call("a"), result("a", output="1"), result("a", output="2"))
    )

    assert [r.output for r in built[2].results] == ["1"]


def test_a_result_follows_its_call_even_when_a_message_came_between():
    built = build_messages(lines(said("hi"), call("a"), said("and?"), result("a", output="late")))

    assert shape(built) == ["user", "assistant a", "tool a", "user"]
    assert built[2].results[0].output == "late"


def test_a_queued_message_is_not_included():
    built = build_messages(lines(said("hi"), ("user.message", {"text": "later", "waits": True})))

    assert [m.text for m in built] == ["hi"]


def test_an_edited_message_shows_its_new_text():
    edited = ("user.message_edited", {"seq": 1, "text": "better"})

    assert [m.text for m in build_messages(lines(said("bad"), edited))] == ["better"]


def test_consecutive_messages_are_joined():
    assert [m.text for m in build_messages(lines(said("a"), said("b")))] == ["a\n\nb"]


def test_trimming_keeps_whole_turns_that_start_with_a_user_message():
    events = []
    for nth in range(50):
        events += [
            said(f"question {nth} " * 20),
            call(f"c{nth}"),
            result(f"c{nth}"),
            answered("ok " * 50),
        ]

    kept = trim(build_messages(lines(*events)), budget=1000)

    assert kept[0].role == "user"
    assert 4 <= len(kept) < 40
    assert kept[-1].text.startswith("ok")


events = st.lists(
    st.one_of(
        st.sampled_from([said("x"), answered("y")]),
        st.sampled_from("abcd").map(call),
        st.sampled_from("abcd").map(result),
    ),
    max_size=30,
)


@given(events)
def test_every_call_is_followed_by_exactly_one_result_for_any_log(found):
    built = build_messages(lines(said("start"), *found))

    for nth, message in enumerate(built):
        if message.calls:
            assert built[nth + 1].role == "tool"
            assert [r.call_id for r in built[nth + 1].results] == [c.call_id for c in message.calls]
        if message.role == "tool":
            assert built[nth - 1].calls
    for before, after in itertools.pairwise(built):
        assert before.role != after.role or before.calls
