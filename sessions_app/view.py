"""The log as a conversation: every call with exactly one result, people and agent in turn.

The log itself is never repaired; the view is built so, whatever the log holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from agents.providers.base import Message, ToolCall, ToolResult
from agents.providers.estimate import estimate_tokens
from sessions_app.models import SessionEvent
from tools_app.clip import clip_for_model

E = SessionEvent.Type
RESULT_CHARS = 20_000  #: What the model sees of one result; the ledger keeps it whole.


@dataclass(frozen=True, kw_only=True)
class Line:
    """An event as the view needs it."""

    seq: int
    type: str
    payload: dict[str, Any]
    taken: bool
    run_id: UUID | None


@dataclass(kw_only=True)
class View:
    """Messages under construction. An assistant's calls are closed by their results at once."""

    results: dict[str, ToolResult]
    messages: list[Message] = field(default_factory=list)

    def user(self, text: str) -> None:
        last = self.messages[-1] if self.messages else None
        if last and last.role == "user":
            self.messages[-1] = Message(role="user", text=f"{last.text}\n\n{text}")
        else:
            self.messages.append(Message(role="user", text=text))

    def assistant(self, text: str, call: ToolCall | None, state: str | None) -> None:
        """Words or a call of the agent. A call joins the words before it, never the other way."""
        last = self.messages[-1] if self.messages else None
        if last and last.role == "assistant" and (call or not last.calls):
            joined = "\n\n".join(part for part in (last.text, text) if part)
            calls = (*last.calls, call) if call else last.calls
            state = last.provider_state or state
            self.messages[-1] = Message(
                role="assistant", text=joined, calls=calls, provider_state=state
            )
        else:
            calls = (call,) if call else ()
            self.messages.append(
                Message(role="assistant", text=text, calls=calls, provider_state=state)
            )

    def close_calls(self) -> None:
        """Answer the calls of the last message, whatever became of them."""
        last = self.messages[-1] if self.messages else None
        if last and last.calls:
            answers = tuple(self.results.get(c.call_id) or no_result(c) for c in last.calls)
            self.messages.append(Message(role="tool", results=answers))


def no_result(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        output="There is no result: the call was not finished.",
        is_error=True,
    )


def build_messages(lines: list[Line]) -> list[Message]:
    """The conversation as a provider wants it: pairs whole, roles in turn, a person first."""
    edits = {l.payload.get("seq"): l.payload for l in lines if l.type == E.USER_MESSAGE_EDITED}
    results: dict[str, ToolResult] = {}
    for line in lines:
        if line.type == E.AGENT_TOOL_RESULT:
            results.setdefault(line.payload["tool_use_id"], _result(line.payload))
    view = View(results=results)
    for line in lines:
        match line.type:
            case E.USER_MESSAGE if line.taken:
                view.close_calls()
                view.user(edits.get(line.seq, line.payload).get("text", ""))
            case E.AGENT_MESSAGE:
                view.close_calls()
                view.assistant(line.payload["text"], None, line.payload.get("provider_state"))
            case E.AGENT_TOOL_USE | E.AGENT_CUSTOM_TOOL_USE:
                view.assistant("", _call(line.payload), None)
            case E.AGENT_TOOL_RESULT:
                view.close_calls()
            case _:
                pass  # an edit, or a message that still waits
    view.close_calls()
    return view.messages


def _call(payload: dict[str, Any]) -> ToolCall:
    return ToolCall(
        call_id=payload["tool_use_id"],
        name=payload["name"],
        arguments=payload["input"],
        provider_state=payload.get("provider_state"),
    )


def _result(payload: dict[str, Any]) -> ToolResult:
    good = payload["state"] == "completed"
    said = payload.get("output") if good else payload.get("error") or payload["state"]
    text = said if isinstance(said, str) else orjson.dumps(said).decode()
    return ToolResult(
        call_id=payload["tool_use_id"],
        name=payload["name"],
        output=clip_for_model(text, RESULT_CHARS),
        is_error=not good,
    )


def trim(messages: list[Message], budget: int) -> list[Message]:
    """The newest messages that fit, from a person's message on."""
    kept, used = len(messages), 0
    for nth in range(len(messages) - 1, -1, -1):
        used += tokens_of(messages[nth])
        if used > budget and kept < len(messages):
            break
        if messages[nth].role == "user":
            kept = nth
    if kept < len(messages):
        return messages[kept:]
    # One endless turn: its beginning was not even read. Never start with half a pair.
    whole = next((nth for nth, m in enumerate(messages) if m.role != "tool"), len(messages))
    return [Message(role="user", text="(Earlier messages are left out.)"), *messages[whole:]]


def tokens_of(message: Message) -> int:
    """An estimate; the provider's own count comes with its answer."""
    parts = [message.text, *(r.output for r in message.results)]
    parts += [orjson.dumps(c.arguments).decode() for c in message.calls]
    return sum(estimate_tokens(part) + 4 for part in parts if part)
