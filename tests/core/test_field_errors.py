"""Tests of the messages about invalid fields."""

from __future__ import annotations

from uuid import UUID

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from core.validation import describe_errors, pydantic_errors


class Shape(BaseModel):
    count: int


class Nested(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limits: Shape
    hosts: tuple[str, ...]
    count: int

    @field_validator("count")
    @classmethod
    def positive(cls, count: int) -> int:
        if count < 1:
            raise ValueError("Count from one.")
        return count


def failed(shape: type[BaseModel], fields: object) -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as raised:
        shape.model_validate(fields)
    return raised.value


def test_messages_use_the_terms_of_json_not_of_python():
    said = describe_errors(
        pydantic_errors(failed(Nested, {"limits": [], "hosts": {}, "count": 0, "zz": 1}))
    )

    assert said == (
        "limits: This must be an object.; hosts: This must be a list.; "
        "count: Count from one.; zz: There is no such field here."
    )


def test_an_invalid_id_is_described_as_such():
    class Named(BaseModel):
        agent: UUID

    for given in ("Concierge", 7):
        assert (
            describe_errors(pydantic_errors(failed(Named, {"agent": given})))
            == "agent: This must be an id."
        )
