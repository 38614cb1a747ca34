"""The forms of questions to people: what an agent may ask for, and which answers fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from core.exceptions import Invalid
from core.validation import STORABLE
from tools_app.files import is_inside_workspace
from tools_app.registry import Arguments

LONGEST_TEXT, LONGEST_PATH, LARGEST_NUMBER = 10_000, 1_000, 1e15
MOST_FIELDS, MOST_OPTIONS = 10, 20
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), STORABLE]
Option = Annotated[Line, Field(max_length=200)]


class QuestionField(Arguments):
    """One field of a form."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", description="As in the answer.")
    label: Line = Field(max_length=200)
    kind: Literal["text", "choice", "several", "number", "date", "file"] = "text"
    options: list[Option] = Field(
        default=[], max_length=MOST_OPTIONS, description="For choice and several."
    )
    required: bool = True

    @model_validator(mode="after")
    def has_options_to_choose_from(self) -> QuestionField:
        chooses = self.kind in ("choice", "several")
        if chooses != bool(self.options) or len(set(self.options)) != len(self.options):
            raise ValueError("Give different options for choice and several, and none for others.")
        return self


class Question(Arguments):
    """A question with a small form."""

    question: Line = Field(max_length=2_000, description="What to ask, in one or two sentences.")
    fields: list[QuestionField] = Field(
        default=[QuestionField(name="answer", label="Answer")],
        min_length=1,
        max_length=MOST_FIELDS,
        description="Default: one text named answer.",
    )

    @model_validator(mode="after")
    def names_are_different(self) -> Question:
        if len({field.name for field in self.fields}) != len(self.fields):
            raise ValueError("Each field needs a name of its own.")
        return self

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that answer the question, or raise Invalid with what is wrong."""
        if unknown := set(values) - {field.name for field in self.fields}:
            raise Invalid(f"The question has no field named {min(unknown)[:80]!r}.")
        answers: dict[str, Any] = {}
        for field in self.fields:
            value = values.get(field.name)
            if value is None or value in ("", []):
                if field.required:
                    raise Invalid(f"“{field.label}” needs an answer.")
                continue
            answers[field.name] = _checked(field, value)
        return answers


def _checked(field: QuestionField, value: Any) -> Any:
    parse, wanted = KINDS[field.kind]
    if (answer := parse(field, value)) is None:
        raise Invalid(f"“{field.label}” {wanted.format(options=', '.join(field.options))}.")
    return answer


def _text(field: QuestionField, value: Any) -> str | None:
    fits = isinstance(value, str) and value.strip() and len(value) <= LONGEST_TEXT
    return value if fits else None


def _choice(field: QuestionField, value: Any) -> str | None:
    return value if value in field.options else None


def _several(field: QuestionField, value: Any) -> list[str] | None:
    if not isinstance(value, list) or any(one not in field.options for one in value):
        return None
    return [option for option in field.options if option in value]


def _number(field: QuestionField, value: Any) -> int | float | None:
    """Return the number, also of what a form sent as text."""
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            return None
        value = int(value) if math.isfinite(value) and value == int(value) else value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < LARGEST_NUMBER else None


def _day(field: QuestionField, value: Any) -> str | None:
    try:
        return date.fromisoformat(value).isoformat() if isinstance(value, str) else None
    except ValueError:
        return None


def _file(field: QuestionField, value: Any) -> str | None:
    fits = isinstance(value, str) and len(value) <= LONGEST_PATH and is_inside_workspace(value)
    return value if fits else None


#: How the value of each kind is read, and what it should be.
KINDS: dict[str, tuple[Callable[[QuestionField, Any], Any], str]] = {
    "text": (_text, f"is a text of at most {LONGEST_TEXT:,} characters"),
    "choice": (_choice, "is one of: {options}"),
    "several": (_several, "is a list of some of: {options}"),
    "number": (_number, "is a number"),
    "date": (_day, "is a day like 2026-01-31"),
    "file": (_file, "is the path of a file of this session"),
}
