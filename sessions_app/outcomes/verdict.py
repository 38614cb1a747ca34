"""What a grader said of an answer. What cannot be read for certain is unclear, and sends nothing back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sessions_app.outcomes.stated import Outcome, name_of
from tools_app.clip import clip_for_model

LONGEST_WHY, LONGEST_FEEDBACK = 500, 4_000
Said = Annotated[str, Field(max_length=20_000)]
_BLOCK = re.compile(r"```(?:json)?\s*\n(?P<inside>.*)\n```", re.DOTALL)
UNREADABLE = "The grader's verdict could not be read: {why}."


class Judged(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Said
    met: bool
    why: Said


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    met: bool
    criteria: list[Judged]
    feedback: Said


@dataclass(frozen=True, kw_only=True)
class Verdict:
    status: Literal["met", "not_met", "unclear"]
    criteria: list[dict[str, Any]] = field(default_factory=list)
    feedback: str = ""
    #: Of an unclear one.
    why: str = ""


def read_verdict(text: str, outcome: Outcome) -> Verdict:
    """The verdict in a grader's words: one JSON object, each criterion once, no contradiction."""
    block = _BLOCK.fullmatch(text.strip())
    try:
        reply = Reply.model_validate_json(block["inside"] if block else text)
    except ValidationError as error:
        return unclear(UNREADABLE.format(why=error.errors()[0]["msg"].rstrip(".")))
    judged = {name_of(one.name): one for one in reply.criteria}
    asked = [name_of(one) for one in outcome.criteria]
    if len(judged) != len(reply.criteria) or set(judged) != set(asked):
        return unclear(UNREADABLE.format(why="it does not judge each criterion once"))
    if reply.met != all(one.met for one in reply.criteria):
        return unclear(UNREADABLE.format(why="it contradicts itself"))
    return Verdict(
        status="met" if reply.met else "not_met",
        criteria=[
            {
                "name": criterion,
                "met": judged[name].met,
                "why": clip_for_model(judged[name].why, LONGEST_WHY),
            }
            for criterion, name in zip(outcome.criteria, asked, strict=True)
        ],
        feedback=clip_for_model(reply.feedback, LONGEST_FEEDBACK),
    )


def unclear(why: str) -> Verdict:
    return Verdict(status="unclear", why=clip_for_model(why, LONGEST_WHY))
