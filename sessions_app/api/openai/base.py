"""Shared parts of the OpenAI door: views, errors, agents as models, and the text of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

import orjson
import structlog
from django.http import HttpResponse, HttpResponseBase
from pydantic import BaseModel, ConfigDict
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView, set_rollback

from core.exceptions import Invalid
from core.problems import UNEXPECTED, Problem, problem_of
from core.rest import StrictJSONParser, json_object
from core.validation import read_input
from sessions_app.api.events import EventStreamRenderer
from sessions_app.exchange import Extent
from sessions_app.live.frames import Body
from sessions_app.models import SessionEvent
from tenants.access import Principal
from tenants.authentication import principal_of
from tools_app.workspace_tools import ClientTool

log = structlog.get_logger(__name__)
M = TypeVar("M", bound=BaseModel)

#: OpenAI's name for a kind of error, by status.
ERROR_TYPES = {401: "authentication_error", 402: "insufficient_quota", 403: "permission_error"}
#: What the stop reasons of a run are called where they end an answer early.
CUT = frozenset({"max_tokens", "step_limit", "tool_limit", "time_limit", "token_limit"})


class OpenAIView(APIView):
    """A view whose errors have OpenAI's shape. OpenAI describes these paths, so our document does not."""

    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer, EventStreamRenderer]
    schema = None

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def handle_exception(self, exc: Exception) -> HttpResponseBase:  # type: ignore[override]
        problem = problem_of(exc)
        if problem is None:
            raise exc
        set_rollback()
        return error_response(problem)


class Lenient(BaseModel):
    """A part of a request. Fields that mean nothing to an agent are ignored, as other servers do."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


def read_body(request: Request, model: type[M]) -> M:
    return read_input(model, json_object(request))


def error_body(problem: Problem) -> dict[str, Any]:
    kind = ERROR_TYPES.get(problem.status)
    if kind is None and problem.status == 429:
        kind = "rate_limit_exceeded"
    if kind is None:
        kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    field_name = problem.errors[0]["field"] if problem.errors else None
    error = {"message": problem.detail, "type": kind, "param": field_name, "code": problem.code}
    return {"error": error}


def error_response(problem: Problem) -> HttpResponse:
    return HttpResponse(
        orjson.dumps(error_body(problem)),
        status=problem.status,
        headers=problem.headers,
        content_type="application/json",
    )


def late_problem(error: Exception) -> Problem:
    """Return the problem behind an error that no middleware sees any more, and log an unexpected one."""
    problem = problem_of(error)
    if problem is None:
        log.error("exchange_failed", exc_info=error)
    return problem or UNEXPECTED


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ModelName:
    """An agent as a model: its id or name, and the number of a version if the client pins one."""

    agent: str
    version: int | None

    @classmethod
    def parse(cls, model: str) -> ModelName:
        agent, at, number = model.rpartition("@")
        if at and number.isdigit() and len(number) < 10:
            return cls(agent=agent, version=int(number))
        return cls(agent=model, version=None)


class TextPart(Lenient):
    type: Literal["text", "input_text", "output_text", "refusal"]
    text: str = ""
    refusal: str = ""


Content: TypeAlias = str | list[TextPart] | None


def text_of(content: Content) -> str:
    """Return the text of a message, whose parts follow each other."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n\n".join(part.text or part.refusal for part in content)


def overrides_of(
    *,
    instructions: str,
    tools: Sequence[ClientTool],
    temperature: float | None,
    max_tokens: int | None,
) -> dict[str, Any] | None:
    """Return what a request asks of its run alone, as the field `overrides` of a message."""
    wishes = {
        "system_prompt": instructions or None,
        "client_tools": [one.model_dump() for one in tools] or None,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    return {name: value for name, value in wishes.items() if value is not None} or None


def refuse_forced_tool(choice: Any) -> None:
    """Raise for a choice that agents do not know: they decide themselves whether to call a tool."""
    if choice not in (None, "auto", "none"):
        raise Invalid("`tool_choice` can be `auto` or `none`: an agent chooses its tools itself.")


def client_tool(name: str, description: str | None, schema: dict[str, Any] | None) -> ClientTool:
    given = {"name": name, "description": description or "", "input_schema": schema or None}
    return read_input(ClientTool, {key: one for key, one in given.items() if one is not None})


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class AnswerText:
    """Turns frames of an answer into text that only grows: a stored message completes its deltas."""

    sent: dict[str, str] = field(default_factory=dict)

    def take(self, frame: Body) -> str:
        """Return the text that this frame adds to its message."""
        facts = frame["metadata"]
        if frame["type"] != "assistant" or facts.get("kind") == "thinking":
            return ""
        message, content = facts["event_id"], frame["content"]
        known = self.sent.get(message, "")
        start = facts.get("offset", 0) if frame["seq"] is None else 0
        new: str = content[len(known) - start :] if start <= len(known) else ""
        self.sent[message] = known + new
        return new


def failure_of(extent: Extent, frames: Sequence[Body]) -> Problem | None:
    """Return the problem of an exchange that ended with an error, or None."""
    errors = [f for f in frames if f["metadata"].get("event_type") == SessionEvent.Type.ERROR]
    if not errors or extent.stop_reason in CUT:
        return None
    code = errors[-1]["metadata"].get("code", "failed")
    status = 402 if extent.stop_reason == "budget_reached" else 502
    return Problem(status=status, code=code, detail=errors[-1]["error"])
