"""Tests of the demo provider in a whole turn: it calls offered tools and reports their results."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import cast

import pytest

from agents.exceptions import ContextOverflow, ProviderRejected, ProviderUnavailable
from agents.providers.base import Delta, Message, ModelRequest, TextDelta, ToolSpec
from agents.providers.demo import DemoProvider
from tests.agents.providers.talk import CompleteAnswer, complete, request, results, tool, user

LIST = tool("list_directory", "path")
READ = tool("read", "path")
EXEC = tool("exec", "command")
MESSAGE = tool("message", "title")
demo = DemoProvider(delay_seconds=0)


def turn(
    text: str, *tools: ToolSpec, output: str = "fine", is_error: bool = False
) -> list[CompleteAnswer]:
    """Play the harness: answer every call, until the demo makes no more calls."""
    messages: list[Message] = [user(text)]
    answers: list[CompleteAnswer] = []
    while not answers or answers[-1].calls:
        answers.append(complete(demo, request(*messages, tools=tools)))
        calls = answers[-1].calls
        messages += [answers[-1].as_message(), results(*calls, output=output, is_error=is_error)]
        assert len(answers) < 10
    return answers


def test_the_demo_says_that_it_is_not_a_model_and_what_its_tools_can_do():
    text = complete(demo, request("hello", tools=(LIST, tool("clock", "zone")))).text

    assert "not a model" in text
    assert "list the files" in text
    assert "`clock`" in text
    assert "run ls" not in text
    assert "fail with overload" in text


def test_the_demo_says_when_it_has_no_tools():
    assert "may use no tools" in complete(demo, request("hello")).text


def test_a_call_is_made_and_its_result_reported():
    called, reported = turn("list the files", LIST, output="notes.md")

    assert [(call.name, call.arguments) for call in called.calls] == [
        ("list_directory", {"path": "."})
    ]
    assert "not a model" in called.text
    assert reported.text == "`list_directory` answered: “notes.md”"


@pytest.mark.parametrize(
    ("output", "quoted"),
    [
        ("<<<UNTRUSTED ab12>>> read: data.\nnotes.md\n<<<END UNTRUSTED ab12>>>", "notes.md"),
        (
            "<<<UNTRUSTED ab>>>\n<<<UNTRUSTED cd>>>\nhi\n<<<END UNTRUSTED cd>>>\n<<<END UNTRUSTED ab>>>",
            "hi",
        ),
        ('{"result": "It is six. ", "session_id": "s1"}', "It is six."),
        ('{"result": "It is si', '{"result": "It is si'),
        ("<<<UNTRUSTED ab12>>> read: cut", "<<<UNTRUSTED ab12>>> read: cut"),
    ],
)
def test_a_result_is_reported_without_fences(output, quoted):
    _, reported = turn("list the files", LIST, output=output)

    assert reported.text == f"`list_directory` answered: “{quoted}”"


def test_a_tool_that_is_not_offered_is_named_and_not_called():
    (answer,) = turn("run ls", LIST, READ)

    assert answer.text == "I would need the tool `exec`, which this agent may not use."


def test_a_missing_tool_does_not_stop_the_steps_after_it():
    called, reported = turn("run ls and then read a.md and then fetch example.com", READ)

    assert "`exec`, which this agent may not use" in called.text
    assert [call.name for call in called.calls] == ["read"]
    assert "`read` answered" in reported.text
    assert "`web_fetch`, which this agent may not use" in reported.text


def test_steps_run_one_after_the_other():
    answers = turn("list the files and then read a.md and then say bye", LIST, READ)

    assert [[call.name for call in answer.calls] for answer in answers] == [
        ["list_directory"],
        ["read"],
        [],
    ]
    assert answers[-1].text.endswith("bye")


def test_parallel_calls_share_one_answer_and_have_unique_ids():
    called, reported = turn("in parallel: list the files; read a.md; run ls", LIST, READ, EXEC)

    assert len({call.call_id for call in called.calls}) == 3
    assert all(f"`{name}` answered" in reported.text for name in ("list_directory", "read", "exec"))


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        ("No such file.", "`read` failed: “No such file.”"),
        ("Denied by Olive: not now.", "`read` was denied: “Denied by Olive: not now.”"),
        ("", "`read` failed."),
    ],
)
def test_errors_and_denials_are_reported_differently(output: str, reported: str):
    assert turn("read a.md", READ, output=output, is_error=True)[-1].text == reported


def test_a_long_output_is_shortened_and_stays_inside_its_quotation():
    text = turn("read a.md", READ, output="```\nline\n" * 500)[-1].text

    assert len(text) < 800
    assert "\n````\n" in text


def test_only_arguments_in_the_schema_are_sent():
    called = turn("tell Ann: hi", MESSAGE)[0]

    assert called.calls[0].arguments == {"title": "hi"}


def test_arguments_written_by_a_person_are_sent_unchanged():
    called = turn('use read with {"wrong": 1}', READ)[0]

    assert called.calls[0].arguments == {"wrong": 1}


def test_the_same_request_gets_the_same_answer():
    asked = request("list the files", tools=(LIST,))

    assert complete(demo, asked).text == complete(demo, asked).text


def test_only_the_users_last_message_is_answered():
    old = [user("fail with overload"), Message(role="assistant", text="no")] * 5_000
    answer = complete(demo, request(*old, "say fresh"))

    assert answer.text == "fresh"


def test_a_new_message_in_the_middle_of_a_plan_starts_a_new_plan():
    first = complete(demo, request("list the files and then run ls", tools=(LIST, EXEC)))
    history = ("list the files and then run ls", first.as_message(), results(*first.calls))

    assert complete(demo, request(*history, "say stop", tools=(LIST, EXEC))).text == "stop"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("fail with overload", ProviderUnavailable),
        ("fail with rejection", ProviderRejected),
        ("fail with overflow", ContextOverflow),
    ],
)
def test_the_demo_fails_on_request(text: str, fault: type[Exception]):
    with pytest.raises(fault, match="was asked to"):
        complete(demo, request(text))


def test_the_demo_can_fail_in_the_middle_of_an_answer():
    deltas = demo.stream(request("say hi and then fail with overload"))

    assert next(deltas) == TextDelta(text="hi")
    with pytest.raises(ProviderUnavailable):
        next(deltas)


def test_words_are_streamed_one_by_one_and_add_up():
    answer = complete(demo, request("say 500 words"))

    assert len(answer.pieces) == 500
    assert len(answer.text.split()) == 500
    assert answer.usage is not None
    assert answer.usage.output_tokens > 500


def test_the_demo_waits_between_words_until_the_stream_is_closed():
    slow = DemoProvider(delay_seconds=0.01)
    began = time.monotonic()
    complete(slow, request("say 20 words"))
    deltas = cast(Generator[Delta, None, None], slow.stream(request("say 20000 words")))
    next(deltas)
    deltas.close()

    assert time.monotonic() - began >= 0.2


def test_usage_grows_with_the_conversation():
    def tokens(asked: ModelRequest) -> int:
        usage = complete(demo, asked).usage
        assert usage is not None
        return usage.input_tokens

    assert tokens(request("x" * 4_000, "say hi")) > tokens(request("say hi")) + 900
