"""Tests of the demo provider in a whole turn: it calls offered tools and reports their results."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from datetime import UTC, datetime
from typing import cast

import pytest

from agents.exceptions import ContextOverflow, ProviderRejected, ProviderUnavailable
from agents.providers.base import Delta, Message, ModelRequest, TextDelta, ToolSpec
from agents.providers.demo import DemoProvider
from agents.providers.demo.phrases import Calls, Help, plan_of
from agents.providers.demo.replies import EXAMPLES, INTRODUCTION, time_text
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


def test_help_says_what_the_demo_is_in_one_line_and_offers_three_things_and_a_model():
    text = complete(demo, request("hello", tools=(LIST, tool("clock", "zone")))).text
    first, _, rest = text.partition("\n")

    assert first == f"Hello. {INTRODUCTION}"
    assert rest.count("\n- ") == 3
    assert "- List the files" in rest
    assert rest.endswith("[Connect a model](/settings/providers/)")


@pytest.mark.parametrize("asked", ["hello", "help", "What can you do?", "sing me a song", ""])
@pytest.mark.parametrize("tools", [(), (LIST, READ, EXEC, MESSAGE, tool("clock", "zone"))])
def test_nobody_is_shown_tool_names_hashes_or_test_phrases(asked, tools):
    text = complete(demo, request(asked, tools=tools)).text

    assert not re.search(r"`|fail with|say \d|in parallel|use \w+ with|clock|[0-9a-f]{12}", text)


def test_every_request_that_help_offers_is_understood():
    for needed, text in EXAMPLES:
        plan = plan_of(text, building=True)
        called = {call.tool for step in plan if isinstance(step, Calls) for call in step.calls}
        assert called == needed
        assert not any(isinstance(step, Help) for step in plan)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Hello!", "Hello. I'm the built-in demo"),
        ("hi there", "Hello. I'm the built-in demo"),
        ("Good morning", "Hello. I'm the built-in demo"),
        ("help", "I'm the built-in demo"),
        ("Who are you?", "I'm the built-in demo"),
        ("thank you very much", "You're welcome."),
        ("Explain quantum physics", "I didn't understand that. I'm the built-in demo"),
        ("What time is it?", "It is "),
        ("what\u2019s the time in New York?", "It is "),
        ("What did I tell you?", "You haven't told me anything in this chat yet."),
    ],
)
def test_small_talk_is_answered(asked, answer):
    assert complete(demo, request(asked)).text.startswith(answer)


def test_the_time_is_that_of_the_city():
    noon = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

    assert time_text(None, noon) == "It is 12:00 UTC on Monday, 5 January 2026."
    assert time_text("tokyo", noon) == "It is 21:00 in Tokyo on Monday, 5 January 2026."
    assert time_text("Atlantis", noon).startswith("I don't know the time zone of Atlantis. It is")


def test_the_demo_repeats_what_it_was_told_in_this_chat():
    told = [user("Remember that tea is at four"), Message(role="assistant", text="Saved.")]
    told += [user("my name is Ann"), Message(role="assistant", text="Saved.")]

    answer = complete(demo, request(*told, "What did I tell you?")).text

    assert answer == "You told me:\n\n- tea is at four\n- my name is Ann"


def test_what_was_saved_is_repeated_without_its_hash():
    store = tool("memory_store", "path", "content")
    reported = turn("my name is Ann", store, output="Stored notes/a.md (hash abc123).")[-1]

    assert reported.text == "Saved: my name is Ann"


def test_what_a_search_found_is_listed_without_scores():
    found = "1. notes/a.md (agent, 2026-01-05, score 0.91)\ntea is at four\n\n2. b.md (user, 2026-01-05, score 0.20)\nbread"
    search = tool("memory_search", "query")

    assert turn("when is our tea?", search, output=found)[-1].text == (
        "Here is what I found:\n\n- tea is at four\n- bread"
    )
    nothing = turn("what do you know about jam?", search, output="Nothing in memory matches.")
    assert nothing[-1].text.startswith("I found nothing about “jam” in memory.")


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        ("hi\n[exit code 0]", "`ls` printed: “hi”"),
        ("[exit code 0]", "`ls` finished without output."),
        ("no\n[exit code 2]", "`ls` failed with exit code 2: “no”"),
    ],
)
def test_a_command_that_failed_is_reported_as_failed(output, reported):
    assert turn("run ls", EXEC, output=output)[-1].text == reported


def test_the_demo_introduces_itself_once_in_a_chat():
    first = complete(demo, request("list the files", tools=(LIST,)))
    said = Message(role="assistant", text="Hello.")
    later = complete(demo, request("hi", said, "list the files", tools=(LIST,)))

    assert first.text == f"{INTRODUCTION} Listing the files."
    assert later.text == "Listing the files."


def test_a_call_is_made_and_its_result_reported():
    called, reported = turn("list the files", LIST, output="notes.md")

    assert [(call.name, call.arguments) for call in called.calls] == [
        ("list_directory", {"path": "."})
    ]
    assert reported.text == "These are the files:\n\n- notes.md"


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
    _, reported = turn("read a.md", READ, output=output)

    assert reported.text == f"a.md says: “{quoted}”"


def test_a_tool_that_is_not_offered_is_named_and_not_called():
    (answer,) = turn("run ls", LIST, READ)

    assert answer.text == "I can't do that: this agent may not use the tool `exec`."


def test_a_missing_tool_does_not_stop_the_steps_after_it():
    called, reported = turn("run ls and then read a.md and then fetch example.com", READ)

    assert "may not use the tool `exec`" in called.text
    assert [call.name for call in called.calls] == ["read"]
    assert "a.md says" in reported.text
    assert "may not use the tool `web_fetch`" in reported.text


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
    assert all(text in reported.text for text in ("These are the files", "a.md says", "`ls`"))


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        ("No such file.", "Reading a.md failed: “No such file.”"),
        ("Denied by Olive: not now.", "Reading a.md was denied: “Denied by Olive: not now.”"),
        ("", "Reading a.md failed."),
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
