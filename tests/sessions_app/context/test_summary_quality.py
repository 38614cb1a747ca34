"""Tests of the checks that a summary must pass."""

from __future__ import annotations

import pytest

from agents.providers.base import estimate_tokens
from sessions_app.context.compaction.summaries import check_summary, expected_content
from sessions_app.context.conversation import LogEntry


def lines(*said: tuple[str, str]) -> list[LogEntry]:
    kinds = {"person": "user.message", "agent": "agent.message"}
    return [
        LogEntry(seq=seq, type=kinds[who], payload={"text": text}, taken=True, run_id=None)
        for seq, (who, text) in enumerate(said, start=1)
    ]


def verdict(summary: str, *said: tuple[str, str], target: int = 300) -> str:
    return check_summary(summary, expected_content(lines(*said), target), target).why


ADDRESSES = [f"https://docs.example.com/{nth:02d}/{'very/' * 16}long.html" for nth in range(16)]


def test_the_check_expects_no_more_names_than_a_summary_can_hold():
    talk = [("person", f"read {one}") for one in ADDRESSES] + [("agent", "I have read them all.")]
    summary = "Task: read the pages. Newest: " + " ".join(ADDRESSES[-5:])

    assert estimate_tokens(" ".join(ADDRESSES)) > 400
    assert estimate_tokens(summary) < 200
    assert verdict(summary, *talk) == ""
    assert "names are lost" in verdict("Task: read the pages, all of them.", *talk)


def test_a_long_open_question_need_not_be_repeated_word_for_word():
    more = " ".join(f"{one}{other}word" for one in "abcdefghi" for other in "klmnopqrst")
    asked = ("person", f"Please rewrite the chapter about signals, carefully: {more}")
    kept = "Open: the person wants the chapter about signals to be rewritten carefully."
    summary = f"{kept} It begins with akword alword amword anword."

    assert verdict(summary, asked) == ""
    assert "open question" in verdict("The person said something about cats.", asked)


@pytest.mark.parametrize(
    "said",
    [
        "I'm sorry, but a summary of this conversation is beyond what can be done.",
        "I cannot summarise what was said in this conversation.",
        "As an AI model, there is nothing to be summarised in here.",
    ],
)
def test_a_refusal_is_not_a_summary(said):
    assert verdict(said) == "it is a refusal"


OTHER = "用户喜欢喝茶,也喜欢吃苹果,今天天气很好。他们谈了很久。"


def test_an_open_question_without_spaces_is_recognised():
    asked = ("person", "去北京的火车什么时候从上海出发")

    assert verdict(f"未决问题:{asked[1]}。还没有人回答这个问题。", asked) == ""
    assert "open question" in verdict(OTHER, asked)
    assert "open question" in verdict(OTHER, ("agent", "要坐几点的火车去北京\uff1f"))
