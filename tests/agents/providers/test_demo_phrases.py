"""Tests how the demo provider turns plain requests into steps."""

from __future__ import annotations

import pytest

from agents.providers.demo.phrases import LONGEST_MESSAGE, NOT_UNDERSTOOD, Calls, Fail, Say, plan_of


def message_arguments(text: str, **more: str) -> dict[str, str]:
    return {"title": text, "body": text, **more}


HELLO = message_arguments("Hello from the demo provider.")


def calls(text: str) -> list[list[tuple[str, dict]]]:
    """Return the requested calls, step by step."""
    return [
        [(call.tool, call.arguments) for call in step.calls]
        for step in plan_of(text)
        if isinstance(step, Calls)
    ]


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("Remember that I like tea.", "memory_store", {"path": "notes/i-like-tea.md", "content": "I like tea"}),
        ("what do you know about tea?", "memory_search", {"query": "tea"}),
        ("What is my name?", "memory_search", {"query": "my name"}),
        ("My name is Ann", "memory_store", {"path": "notes/my-name-is-ann.md", "content": "My name is Ann"}),
        ("LIST THE FILES!", "list_directory", {"path": "."}),
        ("list the files in .", "list_directory", {"path": "."}),
        ("List all the files in src.", "list_directory", {"path": "src"}),
        ("Can you please list the files?", "list_directory", {"path": "."}),
        ("write hello world to notes.md.", "write", {"path": "notes.md", "content": "hello world"}),
        ('write "a to b" to notes.md', "write", {"path": "notes.md", "content": "a to b"}),
        ("write to notes.md: a\nb", "write", {"path": "notes.md", "content": "a\nb"}),
        ("replace tea with coffee in notes.md", "edit", {"path": "notes.md", "old": "tea", "new": "coffee"}),
        ("Read notes.md!", "read", {"path": "notes.md"}),
        ("read the file `notes.md`.", "read", {"path": "notes.md"}),
        ("run ls -la .", "exec", {"command": "ls -la ."}),
        ("run ls.", "exec", {"command": "ls"}),
        ("Please run `echo a; echo b`.", "exec", {"command": "echo a; echo b"}),
        ("fetch https://example.com/a?b=c.", "web_fetch", {"url": "https://example.com/a?b=c"}),
        ("Fetch example.com", "web_fetch", {"url": "https://example.com"}),
        ("search the web for red pandas", "web_search", {"query": "red pandas"}),
        ("ask a sub-agent to list the files", "sessions_spawn", {"task": "list the files"}),
        ('ask a sub agent to "run ls and then read x"', "sessions_spawn", {"task": "run ls and then read x"}),
        ("wait for 20 seconds", "wait", {"seconds": 20}),
        ("Wait 0.5 seconds.", "wait", {"seconds": 0.5}),
        ("tell me something", "message", HELLO),
        ("tell me that lunch is ready", "message", message_arguments("lunch is ready")),
        ("tell people that lunch is ready", "message", message_arguments("lunch is ready")),
        ("tell Ann: hi there!", "message", message_arguments("hi there!", to="Ann")),
        ('use mcp:git:search with {"q": "a and then run b"}', "mcp:git:search", {"q": "a and then run b"}),
        ("use the tool clock", "clock", {}),
    ],
)  # fmt: skip
def test_a_plain_request_becomes_one_call(text: str, tool: str, arguments: dict):
    assert calls(text) == [[(tool, arguments)]]


def test_requests_joined_by_and_then_or_lines_become_steps():
    assert calls("run ls and then read a.md\nwrite x to b.md") == [
        [("exec", {"command": "ls"})],
        [("read", {"path": "a.md"})],
        [("write", {"path": "b.md", "content": "x"})],
    ]


def test_a_sentence_is_split_only_where_a_request_begins():
    assert calls("remember that I eat and then sleep")[0][0][1]["content"] == "I eat and then sleep"
    assert calls("write one\ntwo to notes.md")[0][0][1]["content"] == "one\ntwo"


def test_words_around_a_request_are_ignored():
    assert calls("Good morning!\nlist the files\nthank you") == calls("list the files")


def test_in_parallel_makes_several_calls_in_one_step():
    assert calls("In parallel: list the files; read a.md; run ls") == [
        [
            ("list_directory", {"path": "."}),
            ("read", {"path": "a.md"}),
            ("exec", {"command": "ls"}),
        ]
    ]


def test_only_calls_can_be_made_in_parallel():
    (step,) = plan_of("in parallel: list the files; sing")

    assert isinstance(step, Say)
    assert "sing" in step.text


def test_arguments_that_are_not_json_are_explained():
    (step,) = plan_of("use clock with {zone: ")

    assert isinstance(step, Say)
    assert "not valid JSON" in step.text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("say Hello, world!", "Hello, world!"),
        ("count to 3", "1 2 3"),
        ("say 3 words.", "lorem ipsum dolor"),
    ],
)
def test_plain_answers_need_no_tool(text: str, answer: str):
    assert plan_of(text) == (Say(text=answer),)


def test_failures_can_be_requested():
    assert plan_of("fail with overload") == (Fail(kind="overload"),)
    assert plan_of("say hi and then fail with a rejection!") == (
        Say(text="hi"),
        Fail(kind="rejection"),
    )


@pytest.mark.parametrize("text", ["", "What is the meaning of life?", "?!", "\n\n", "{}"])
def test_any_other_message_is_answered_with_help(text: str):
    assert plan_of(text) == (NOT_UNDERSTOOD,)


def test_requests_inside_a_summarised_conversation_are_not_run():
    talk = "<<<ab conversation>>>\nperson: go\nrun rm -rf x\nlist the files\n<<<end ab>>>"
    (step,) = plan_of(f"Summarise the conversation:\n{talk}")

    assert isinstance(step, Say)
    assert "run rm -rf x" in step.text


def test_a_message_that_is_too_long_is_refused_and_not_cut():
    steps = plan_of("run echo " + "x" * LONGEST_MESSAGE)

    assert not any(isinstance(step, Calls) for step in steps)


# A pattern with unbounded backtracking takes minutes here, a good one far less than a second.
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "remember that " + "." * 40_000 + "x\n",
        "write " + " " * 45_000 + "x",
        "replace " + " with in" * 6_000,
        "show " + "a." * 20_000 + " x",
        "\n" * 45_000,
        " " * 45_000,
        'run "' + "x\n" * 20_000,
        "please " * 7_000,
        "in parallel: " + ";" * 40_000,
        "tell Ann " + "that " * 9_000,
    ],
)
def test_no_message_keeps_the_matcher_busy(text: str):
    assert plan_of(text)
