"""Turns the frames of an exchange into the items of a response, and into the events of its stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from sessions_app.api.openai.base import CUT, AnswerText, failure_of
from sessions_app.exchange import Extent
from sessions_app.live.frames import Body
from sessions_app.models import SessionEvent

EventType = SessionEvent.Type
Event = dict[str, Any]
#: The label under which the agent's own tools appear, as those of a server.
SERVER = "switchyard"


@dataclass(kw_only=True)
class ResponseItems:
    """The output of one response, as far as it has come."""

    model: str
    extent: Extent
    output: list[dict[str, Any]] = field(default_factory=list)
    _text: AnswerText = field(default_factory=AnswerText)
    _frames: list[Body] = field(default_factory=list)
    #: The places of unfinished items in the output, by the id of their event or call.
    _places: dict[str, int] = field(default_factory=dict)
    #: Arguments of calls that an earlier response asked about.
    _confirmed: dict[str, Any] = field(default_factory=dict)

    def consume(self, frame: Body) -> None:
        """Take in a frame without its events."""
        for _ in self.take(frame):
            pass

    def take(self, frame: Body) -> Iterator[Event]:
        """Take in a frame, and yield the events that it makes in a stream."""
        if frame["seq"] is not None:
            self._frames.append(frame)
        facts = frame["metadata"]
        match facts.get("event_type"):
            case EventType.AGENT_MESSAGE:
                yield from self._message(frame)
            case EventType.AGENT_TOOL_USE | EventType.AGENT_CUSTOM_TOOL_USE:
                yield from self._call(frame)
            case EventType.USER_TOOL_CONFIRMATION:
                self._confirmed[facts["tool_use_id"]] = frame.get("tool_input")
            case EventType.AGENT_TOOL_RESULT:
                yield from self._result(frame)
            case _:
                pass

    def outcome(self) -> dict[str, Any]:
        """Return the status of the response, with the reason if it is not complete."""
        reason, problem = self.extent.stop_reason, failure_of(self.extent, self._frames)
        error = incomplete = None
        if problem:
            status, error = "failed", {"code": problem.code, "message": problem.detail}
        elif reason in CUT:
            status, incomplete = "incomplete", {"reason": "max_output_tokens"}
        elif reason in ("interrupted", "archived"):
            status = "cancelled"
        elif reason:
            status = "completed"
        else:
            status = "in_progress" if self.extent.begun else "queued"
        return {"status": status, "error": error, "incomplete_details": incomplete}

    def _message(self, frame: Body) -> Iterator[Event]:
        event_id = frame["metadata"]["event_id"]
        new, is_whole = self._text.take(frame), frame["seq"] is not None
        if event_id not in self._places and (new or is_whole):
            item: dict[str, Any] = {"id": f"msg_{event_id.replace('-', '')}", "type": "message"}
            item |= {"status": "in_progress", "role": "assistant", "content": []}
            yield self._add(event_id, item)
            yield self._event(event_id, "content_part.added", part=_text_part(""))
        if new:
            yield self._event(event_id, "output_text.delta", delta=new, logprobs=[])
        if is_whole:
            text = frame["content"]
            yield self._event(event_id, "output_text.done", text=text, logprobs=[])
            yield self._event(event_id, "content_part.done", part=_text_part(text))
            yield self._finish(event_id, content=[_text_part(text)], status="completed")

    def _call(self, frame: Body) -> Iterator[Event]:
        call_id, name = frame["metadata"]["tool_use_id"], frame["tool_name"]
        arguments = orjson.dumps(frame["tool_input"]).decode()
        if self.extent.asks(frame):
            item = {"id": f"mcpr_{call_id}", "type": "mcp_approval_request"}
            item |= {"name": name, "arguments": arguments, "server_label": SERVER}
            yield self._add(call_id, item)
            yield self._finish(call_id)
        elif self.extent.is_for_client(frame):
            item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id}
            item |= {"name": name, "arguments": "", "status": "in_progress"}
            yield self._add(call_id, item)
            yield self._event(call_id, "function_call_arguments.delta", delta=arguments)
            yield self._event(
                call_id, "function_call_arguments.done", name=name, arguments=arguments
            )
            yield self._finish(call_id, arguments=arguments, status="completed")
        else:
            yield from self._begin_own_call(call_id, name, arguments)

    def _begin_own_call(self, call_id: str, name: str, arguments: str) -> Iterator[Event]:
        item: dict[str, Any] = {
            "id": f"mcp_{call_id}",
            "type": "mcp_call",
            "server_label": SERVER,
            "name": name,
        }
        item |= {"arguments": arguments, "output": None, "error": None, "status": "in_progress"}
        yield self._add(call_id, item)
        yield self._event(call_id, "mcp_call.in_progress")
        yield self._event(call_id, "mcp_call_arguments.done", arguments=arguments)

    def _result(self, frame: Body) -> Iterator[Event]:
        call_id = frame["metadata"]["tool_use_id"]
        if call_id not in self._places:
            # An earlier response asked about this call, or handed it to the client.
            if frame["tool_name"] in self.extent.client_tools:
                return
            arguments = orjson.dumps(self._confirmed.get(call_id) or {}).decode()
            yield from self._begin_own_call(call_id, frame["tool_name"], arguments)
        output, error = frame.get("tool_output"), frame.get("error")
        status = "failed" if error else "completed"
        text = (
            output if isinstance(output, str) or output is None else orjson.dumps(output).decode()
        )
        yield self._event(call_id, f"mcp_call.{status}")
        yield self._finish(call_id, output=text, error=error, status=status)

    def _add(self, key: str, item: dict[str, Any]) -> Event:
        self._places[key] = len(self.output)
        self.output.append(item)
        place = self._places[key]
        return {"type": "response.output_item.added", "output_index": place, "item": dict(item)}

    def _finish(self, key: str, **changes: Any) -> Event:
        place = self._places.pop(key)
        self.output[place] |= changes
        item = dict(self.output[place])
        return {"type": "response.output_item.done", "output_index": place, "item": item}

    def _event(self, key: str, kind: str, /, **fields: Any) -> Event:
        place = self._places[key]
        where = {"output_index": place, "item_id": self.output[place]["id"]}
        if kind.startswith(("output_text", "content_part")):
            where["content_index"] = 0
        return {"type": f"response.{kind}", **where, **fields}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
