"""The log as a conversation: every call with exactly one result, people and agent in turn.

The log itself is never repaired; the view is built so, whatever the log holds.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.providers.base import Message, ToolCall, ToolResult
from agents.providers.estimate import estimate_message
from sessions_app.context.fencing import fenced, is_outside
from sessions_app.models import SessionEvent
from sessions_app.wording import Line, reworded
from tools_app.clip import clip_for_model
from tools_app.fence import is_fenced

E = SessionEvent.Type
USES = (E.AGENT_TOOL_USE, E.AGENT_CUSTOM_TOOL_USE)
RESULT_CHARS = 20_000  #: What the model sees of one result; the ledger keeps it whole.


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


def build_messages(lines: list[Line], mark: str = "outside") -> list[Message]:
    """The conversation as a provider wants it: pairs whole, roles in turn, a person first.

    What was written outside is fenced by the mark.
    """
    lines = reworded(lines)
    owners = {
        l.payload["tool_use_id"]: l.payload.get("ownership", "") for l in lines if l.type in USES
    }
    view = View(results=_results(lines, owners, mark))
    for line in lines:
        if line.type in USES:
            view.assistant("", _call(line.payload), None)
        elif line.type == E.AGENT_MESSAGE:
            view.close_calls()
            view.assistant(line.payload["text"], None, line.payload.get("provider_state"))
        elif (said := _heard(line, view.results, owners)) is not None:
            view.close_calls()
            if said:
                view.user(said)
    view.close_calls()
    return view.messages


def _results(lines: list[Line], owners: dict[str, str], mark: str) -> dict[str, ToolResult]:
    """The one result of each call."""
    results: dict[str, ToolResult] = {}
    for line in lines:
        if line.type == E.AGENT_TOOL_RESULT:
            known = line.payload["tool_use_id"]
            # An unknown outcome may have been found out since; any other second one is a slip.
            if known not in results or line.payload.get("late"):
                results[known] = _result(line.payload, owners.get(known, ""), mark)
    return results


def _heard(line: Line, results: dict[str, ToolResult], called: Container[str]) -> str | None:
    """What the agent hears from others; nothing new with a result, None when it hears nothing."""
    match line.type:
        case E.USER_MESSAGE if line.taken:
            text = str(line.payload.get("text", ""))
            return text + _files(line.payload.get("attachments") or [])
        case E.AGENT_TOOL_RESULT:
            known = line.payload["tool_use_id"]
            late = line.payload.get("late")
            return _found_out(line.payload, results[known], known in called) if late else ""
        case _:
            return None  # an edit, or a message that still waits


def _files(attachments: list[dict[str, Any]]) -> str:
    """Which files of the workspace came with a message, for its end."""
    if not attachments:
        return ""
    named = "\n".join(f"- {one['path']} ({one.get('size', 0)} bytes)" for one in attachments)
    return f"\n\n[Files in the workspace that came with this message:]\n{named}"


def _found_out(payload: dict[str, Any], result: ToolResult, is_in_view: bool) -> str:
    """Tells the model of a result that came after it went on. What a tool said stays with its call."""
    said = f"(Found out since: the earlier call of {payload['name']} is {payload['state']}."
    if is_in_view:
        return f"{said} Its result stands with the call.)"
    return f"{said} The call is left out here; what it gave: {result.output})"


def _call(payload: dict[str, Any]) -> ToolCall:
    return ToolCall(
        call_id=payload["tool_use_id"],
        name=payload["name"],
        arguments=payload["input"],
        provider_state=payload.get("provider_state"),
    )


def _result(payload: dict[str, Any], ownership: str, mark: str) -> ToolResult:
    good = payload["state"] == "completed"
    said = payload.get("output") if good else payload.get("error") or payload["state"]
    text = said if isinstance(said, str) else orjson.dumps(said).decode()
    output, name = clip_for_model(text, RESULT_CHARS), payload["name"]
    answered = isinstance(said, dict) and "result" in said
    # A call that failed was told in a server's words perhaps, and never in a fence of the tool's own.
    if is_outside(name, ownership, output, answered) and not (good and is_fenced(output)):
        output = fenced(output, mark, name)
    return ToolResult(call_id=payload["tool_use_id"], name=name, output=output, is_error=not good)


def trim(messages: list[Message], budget: int) -> list[Message]:
    """The newest messages that fit, from a person's message on."""
    kept, used = len(messages), 0
    for nth in range(len(messages) - 1, -1, -1):
        used += estimate_message(messages[nth])
        if used > budget and kept < len(messages):
            break
        if messages[nth].role == "user":
            kept = nth
    if kept < len(messages):
        return messages[kept:]
    # One endless turn: its beginning was not even read. Never start with half a pair.
    whole = next((nth for nth, m in enumerate(messages) if m.role != "tool"), len(messages))
    return [Message(role="user", text="(Earlier messages are left out.)"), *messages[whole:]]
