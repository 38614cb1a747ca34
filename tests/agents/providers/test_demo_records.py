"""Tests of the demo provider's summaries, which pick names, open questions and decisions."""

from __future__ import annotations

from agents.providers.base import estimate_tokens
from agents.providers.demo.phrases import NOT_UNDERSTOOD, Say, plan_of
from agents.providers.demo.records import notes_of, summary_of

TALK = """<<<ab12 conversation>>>
person: the launch is on Friday under ticket YARD-77

agent: Noted.

person: hm

agent: Shall I write notes/plan.md?
<<<end ab12>>>"""
SUMMARISE = f"Summarise this conversation in at most 200 tokens, for the agent.\n\n{TALK}"


def test_a_summary_keeps_names_and_open_questions():
    record = summary_of(SUMMARISE)

    assert "YARD-77" in record
    assert "Shall I write notes/plan.md?" in record
    assert estimate_tokens(record) <= 200


def test_a_summary_includes_the_previous_one_and_missed_facts():
    before = "<<<ab12 summary of what went before>>>\n- The owner is Marta.\n<<<end ab12>>>"
    asked = f"Summarise, at most 300 tokens. Keep word for word: src/lost.py\n\n{before}\n\n{TALK}"
    record = summary_of(asked)

    assert "The owner is Marta." in record
    assert "src/lost.py" in record


def test_facts_are_saved_and_small_talk_is_not():
    notes = notes_of(f"Save what matters from this conversation.\n\n{TALK}")

    assert notes == "- the launch is on Friday under ticket YARD-77"
    small = "Save what matters.\n\n<<<ab12 conversation>>>\nperson: hm\n<<<end ab12>>>"
    assert notes_of(small) == "NOTHING"


def test_requests_for_records_are_recognised():
    assert plan_of(SUMMARISE) == (Say(text=summary_of(SUMMARISE)),)
    assert plan_of("summarise\nfirst line") == (NOT_UNDERSTOOD,)
