"""Makes answers fit the JSON Schema that an agent or a run asks for.

A model that has a mode for it is told by the request, every model by its instructions. What it
answers is checked, and asked for again with what was wrong, at most `MOST_REPAIRS` times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from agents.providers.base import JSON, Message, ModelRequest
from sessions_app.exceptions import AnswerMisshapen
from tools_app.schemas import check_schema, find_errors

MOST_REPAIRS = 2
#: Characters of a refused answer that the model is shown again.
MAX_SHOWN = 20_000
INSTRUCTION = (
    "Your final answer must be JSON alone, without any other text, that fits this JSON Schema:\n"
)
AGAIN = "That answer does not fit the JSON Schema: {problem}. Answer again with the JSON alone."
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?```\s*", re.DOTALL)


@dataclass(kw_only=True)
class Shape:
    """The schema of a run's answer, and the answers of this run that did not fit."""

    schema: JSON
    refused: list[tuple[str, str]] = field(default_factory=list)

    def applied(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the schema, and with the last answer that did not fit."""
        schema = orjson.dumps(self.schema, option=orjson.OPT_SORT_KEYS).decode()
        instructions = f"{request.instructions}\n\n{INSTRUCTION}{schema}".strip()
        messages = request.messages
        for text, problem in self.refused[-1:]:
            again = AGAIN.format(problem=problem)
            messages = (
                *messages,
                Message(role="assistant", text=text[:MAX_SHOWN]),
                Message(role="user", text=again),
            )
        return replace(
            request, instructions=instructions, messages=messages, response_schema=self.schema
        )

    def read(self, text: str) -> Any:
        """Return the data of an answer. Raise AnswerMisshapen, naming what does not fit."""
        fenced = _FENCED.fullmatch(text)
        try:
            data = orjson.loads(fenced[1] if fenced else text)
        except orjson.JSONDecodeError as error:
            raise AnswerMisshapen(f"it is not JSON ({error})") from None
        if problem := find_errors(self.schema, data):
            raise AnswerMisshapen(problem)
        return data

    def refuse(self, text: str, problem: str) -> None:
        """Note an answer that does not fit. Raise AnswerMisshapen if it was the last attempt."""
        if len(self.refused) == MOST_REPAIRS:
            raise AnswerMisshapen(
                f"The answer does not fit the response schema: {problem}. "
                f"The model was asked {MOST_REPAIRS + 1} times."
            )
        self.refused.append((text, problem))


def shape_of(schema: JSON | None) -> Shape | None:
    """Return the shape that a run asks for. Raise AnswerMisshapen if its schema cannot be used."""
    if not schema:
        return None
    try:
        check_schema(schema)
    except ValueError as error:
        raise AnswerMisshapen(f"The response schema cannot be used: {error}") from None
    return Shape(schema=schema)
