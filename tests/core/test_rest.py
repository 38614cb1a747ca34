"""Tests of validated bodies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from rest_framework import renderers, serializers
from rest_framework.request import Request

from core.rest import JSONRenderer, Negotiation, TextField, validate_body


class Body(serializers.Serializer):
    made = 0

    text = TextField(max_length=5)
    tags = serializers.ListField(child=TextField(), default=list)

    def __init__(self, **kwargs: Any) -> None:
        Body.made += 1
        super().__init__(**kwargs)


def validate(data: object, *, partial: bool = False) -> dict[str, Any]:
    request: Any = SimpleNamespace(data=data)
    return validate_body(request, Body, partial=partial)


def test_one_serializer_validates_the_bodies_of_all_requests():
    validate({"text": "a"})
    made = Body.made

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: validate({"text": str(n)}), range(200)))

    assert [answer["text"] for answer in answers] == [str(n) for n in range(200)]
    assert Body.made == made


def test_requests_share_no_default_value():
    first = validate({"text": "a"})
    first["tags"].append("changed")

    assert validate({"text": "a"})["tags"] == []


def test_a_wrong_body_names_its_fields_and_leaves_no_trace():
    with pytest.raises(serializers.ValidationError) as raised:
        validate({"text": "too long", "tags": [1]})

    assert set(raised.value.detail) == {"text", "tags"}
    assert validate({}, partial=True) == {}
    assert validate({"text": "a"}) == {"text": "a", "tags": []}


def test_a_surrogate_is_refused_as_before():
    with pytest.raises(serializers.ValidationError) as raised:
        validate({"text": "a\ud800"})

    details: Any = raised.value.detail
    assert details["text"][0].code == "surrogate_characters_not_allowed"


def test_json_is_written_as_the_rest_framework_writes_it():
    data: dict[Any, Any] = {
        "at": datetime(2026, 11, 18, 20, 15, 1, 5000, tzinfo=UTC),
        "on": date(2026, 11, 18),
        "took": timedelta(seconds=1.5),
        "price": Decimal("0.10"),
        "id": UUID(int=7),
        "texts": ["ä", '"', "\x01"],
        1: None,
        "huge": 1 << 80,
    }
    small = {name: value for name, value in data.items() if name != "huge"}

    values: list[Any] = [data, small, [], None]
    for value in values:
        assert JSONRenderer().render(value) == renderers.JSONRenderer().render(value)
    indented = JSONRenderer().render({"a": 1}, "application/json; indent=2")
    assert indented == b'{\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("accepted", "query", "chosen"),
    [
        ("*/*", "", "application/json"),
        ("application/json", "", "application/json"),
        ("application/json; indent=2", "", "application/json; indent=2"),
        ("text/plain", "", "text/plain"),
        ("*/*", "format=txt", "text/plain"),
    ],
)
def test_the_first_renderer_is_chosen_at_once_only_where_nothing_else_could_be(
    rf, accepted, query, chosen
):
    class Text(renderers.BaseRenderer):
        media_type, format = "text/plain", "txt"

    plain = rf.get(f"/?{query}", HTTP_ACCEPT=accepted)
    request: Any = Request(plain)
    assert Negotiation().select_renderer(request, [JSONRenderer(), Text()])[1] == chosen
