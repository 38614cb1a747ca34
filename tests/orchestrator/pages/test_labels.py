"""Tests that results of workflows are shown in words, completely and escaped."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.template.loader import render_to_string

from orchestrator.pages.labels import MAX_DEPTH, MAX_PARTS, MAX_PLAIN, ResultPart, readable

LONG = "word " * MAX_PLAIN


def rendered(value):
    return render_to_string("parts/readable.html", {"part": readable(value)})


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("six", ResultPart(plain="six")),
        (LONG, ResultPart(prose=LONG)),
        ("two\nlines", ResultPart(prose="two\nlines")),
        (7, ResultPart(plain="7")),
        (True, ResultPart(plain="Yes")),
        (0, ResultPart(plain="0")),
        ([], ResultPart(plain="Nothing")),
        ({"gone": None}, ResultPart(plain="Nothing")),
        (["a", 2], ResultPart(plain="a, 2")),
    ],
)
def test_a_value_is_plain_or_prose(value, part):
    assert readable(value) == part


def test_objects_are_labelled_by_their_keys_and_lists_by_the_names_of_their_items():
    found = readable({"cost_usd": "0.10", "answers": [{"agent": "Scout", "text": LONG}, {"n": 1}]})

    cost, answers = found.parts
    assert (cost.label, cost.plain) == ("Cost usd", "0.10")
    assert [one.label for one in answers.parts] == ["Scout", "2"]
    assert [one.prose for one in answers.parts[0].parts] == [LONG], "its name is said once"
    assert readable([{"name": "Scout"}, {"n": 1}]).parts[0].plain == "Scout"


def test_output_of_a_command_is_code():
    assert readable({"output": "# one\n# two"}).parts[0].code == "# one\n# two"
    assert readable({"exit_code": 0, "log": "# one\n# two"}).parts[1].code == "# one\n# two"
    assert "<h3" not in rendered({"output": "# one\n# two"})
    assert "<h3" in rendered({"text": "# one\n\ntwo"})


def test_ids_link_to_their_pages():
    pk = str(uuid4())

    assert f'href="/chat/{pk}/"' in rendered({"session_id": pk})
    assert f'href="/workflows/{pk}/"' in rendered({"workflow_id": pk})
    assert "href" not in rendered({"session_id": "javascript:alert(1)"})


def test_deep_or_long_values_are_json():
    deep: object = "leaf\nend"
    for _ in range(MAX_DEPTH + 2):
        deep = {"a": deep}

    assert "&quot;a&quot;" in rendered(deep)
    assert "leaf" in rendered(deep)
    assert readable({str(n): n for n in range(MAX_PARTS + 1)}).code


def test_results_are_escaped():
    evil = "<img src=x onerror=alert(1)>"

    for value in (evil, evil + "\n", {evil: evil}, {"output": evil + "\n"}, [{"name": evil}]):
        assert "<img" not in rendered(value)
