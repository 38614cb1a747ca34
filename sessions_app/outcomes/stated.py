"""The outcome that a session may carry: a statement, its criteria, and how often it is sent back."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from agents.inputs import STORABLE, Input, read_input
from agents.providers.registry import PROVIDERS

MOST_RETURNS, USUAL_RETURNS = 5, 2
MOST_CRITERIA = 20

Words = Annotated[str, STORABLE, StringConstraints(strip_whitespace=True, min_length=1)]


class Grader(Input):
    """The model that judges. By default the agent's own."""

    provider: str
    model: Annotated[Words, Field(max_length=120)]

    @field_validator("provider")
    @classmethod
    def is_known(cls, name: str) -> str:
        if name not in PROVIDERS:
            raise ValueError(f"No model provider is named so. Known: {', '.join(PROVIDERS)}.")
        return name


class Outcome(Input):
    statement: Annotated[Words, Field(max_length=4_000)]
    criteria: Annotated[
        list[Annotated[Words, Field(max_length=500)]],
        Field(min_length=1, max_length=MOST_CRITERIA),
    ]
    max_returns: Annotated[int, Field(strict=True, ge=0, le=MOST_RETURNS)] = USUAL_RETURNS
    grader: Grader | None = None

    @field_validator("criteria")
    @classmethod
    def each_once(cls, criteria: list[str]) -> list[str]:
        if len({name_of(one) for one in criteria}) != len(criteria):
            raise ValueError("Each criterion is named once.")
        return criteria


class Stated(Input):
    """As a door gives it, so that errors name the field."""

    outcome: Outcome | None


def name_of(criterion: str) -> str:
    """A criterion as it is compared: a grader may space and spell it a little differently."""
    return " ".join(criterion.split()).casefold()


def read_outcome(given: object) -> dict[str, Any] | None:
    """The outcome as it is stored, or a fault that names what is wrong. Nothing is none."""
    stated = read_input(Stated, {"outcome": given}).outcome
    return stated.model_dump(mode="json", exclude_none=True) if stated else None
