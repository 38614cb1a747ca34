"""Tests of validated bodies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from rest_framework import serializers

from core.rest import TextField, validate_body


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
