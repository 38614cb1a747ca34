"""Tests of the token estimate and of the names that vendors accept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.providers.base import (
    ID_LENGTH,
    estimate_request,
    estimate_tokens,
    names_by_wire_name,
    wire_id,
    wire_name,
)
from tests.agents.providers.talk import WEATHER, request, tool


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("a", 1, 1),
        ("The quick brown fox jumps over the lazy dog.", 9, 13),
        ("我喜欢喝茶", 4, 6),
        ("東京タワーへ行きたい", 8, 11),
        ("Я люблю чай по утрам", 6, 12),
        ("tea 茶 tea", 2, 4),
    ],
)
def test_the_estimate_is_near_what_tokenizers_count(text: str, least: int, most: int):
    assert least <= estimate_tokens(text) <= most


@given(st.text(), st.text())
def test_a_longer_text_never_has_a_lower_estimate(one: str, two: str):
    assert estimate_tokens(one + two) >= max(estimate_tokens(one), estimate_tokens(two))


def test_tools_and_instructions_count():
    assert estimate_request(request("hi", tools=(WEATHER,))) > estimate_request(request("hi"))
    assert estimate_request(request("hi", instructions="x" * 400)) > 100


@given(st.text(min_size=1))
def test_every_tool_name_gets_a_form_that_vendors_accept(name: str):
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", wire_name(name))


def test_plain_names_are_unchanged_and_similar_names_stay_distinct():
    assert wire_name("list_directory") == "list_directory"
    assert wire_name("a:b") != wire_name("a.b")
    assert wire_name("x" * 70) != wire_name("x" * 71)
    assert names_by_wire_name([tool("a:b")]) == {wire_name("a:b"): "a:b"}


def test_long_ids_are_shortened_deterministically():
    assert wire_id("call_1") == "call_1"
    assert len(wire_id("x" * 100)) <= ID_LENGTH
    assert wire_id("x" * 100) == wire_id("x" * 100) != wire_id("y" * 100)
