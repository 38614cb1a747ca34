"""Turns the log into a conversation for the model, and makes it fit a number of tokens.

Every tool call has exactly one result, the roles take turns, and the newest message of a person is
always included. The log itself is never changed; the view is built this way whatever the log holds.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any
from uuid import UUID

import orjson

from agents.providers.base import Message, Part, Thinking, ToolCall, ToolResult
from sessions_app.context.deferred import CALL_TOOL, wrap
from sessions_app.context.notes import read_note
from sessions_app.context.taint import TOOL_USES, is_untrusted_output
from sessions_app.log.sql import row
from sessions_app.models import SessionEvent
from sessions_app.outcomes.criteria import return_message
from tools_app.parts import parse_parts
from tools_app.taint import clip_for_model, fence, fence_mark, is_fenced

EventType = SessionEvent.Type
#: Events that a conversation is made of.
CONVERSATION_TYPES = [
    EventType.USER_MESSAGE,
    EventType.USER_MESSAGE_EDITED,
    EventType.USER_MESSAGE_WITHDRAWN,
    EventType.AGENT_MESSAGE,
    EventType.AGENT_THINKING,
    EventType.AGENT_TOOL_USE,
    EventType.AGENT_CUSTOM_TOOL_USE,
    EventType.AGENT_TOOL_RESULT,
    EventType.CHILD_IDLE,
    EventType.OUTCOME_JUDGED,
    EventType.CONTEXT_NOTED,
]
MAX_ENTRIES = 2_000
RESULT_CHARS = 20_000  #: What the model sees of one result. The ledger keeps all of it.
#: Stands for the beginning of a conversation that does not fit.
LEFT_OUT = "(Earlier messages are left out.)"
#: Fewer characters than an estimated token has, so that clipping always gains enough.
CHARACTERS_PER_TOKEN = 3
#: Tokens for a note of what was cut, and for the frame around a message.
OVERHEAD = 40

READ = "SELECT log_entries(%s, %s, %s, %s, %s, %s)::text"


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """An event of the log with the columns that a conversation is built from."""

    seq: int
    type: str
    payload: dict[str, Any]
    #: Whether a run has taken this message. The model sees no message that waits or was withdrawn.
    taken: bool
    run_id: UUID | None
    #: When the agent learned of it, in microseconds.
    known_at: int = 0


def is_visible(entry: LogEntry) -> bool:
    """Return whether the model sees this entry."""
    return entry.taken or entry.type != EventType.USER_MESSAGE


def apply_edits(entries: Sequence[LogEntry]) -> list[LogEntry]:
    """Return the same entries with each message in its newest wording."""
    edits = {
        e.payload.get("seq"): e.payload for e in entries if e.type == EventType.USER_MESSAGE_EDITED
    }
    return [
        replace(entry, payload={**entry.payload, "text": edits[entry.seq].get("text", "")})
        if entry.type == EventType.USER_MESSAGE and entry.seq in edits
        else entry
        for entry in entries
    ]


def read_newest(
    session_id: UUID, after: int, limit: int = MAX_ENTRIES, *, carried: Sequence[int] = ()
) -> list[LogEntry]:
    """Read the newest entries after a seq, in the order in which the agent learned of them.

    A message that waited stands where a run took it, not where it was written. `carried` are
    entries up to `after` that the snapshot does not cover.
    """
    return _read(session_id, after, limit, carried, newest=True)


def read_oldest(
    session_id: UUID, after: int, limit: int, *, carried: Sequence[int] = ()
) -> list[LogEntry]:
    """Read the first entries after a seq, in the same order as `read_newest`."""
    return _read(session_id, after, limit, carried, newest=False)


def _read(
    session_id: UUID, after: int, limit: int, carried: Sequence[int], *, newest: bool
) -> list[LogEntry]:
    params = [session_id, CONVERSATION_TYPES, after, limit, list(carried), newest]
    (packed,) = row(READ, params)
    return parse_entries(orjson.loads(packed or "[]"), session_id)


def parse_entries(packed: list[list[Any]], session_id: UUID) -> list[LogEntry]:
    """Return the entries that `log_entries` in `sql/turns.sql` returned."""
    mark = fence_mark(session_id)
    return [
        _as_message(
            LogEntry(
                seq=seq,
                type=type,
                payload=payload,
                taken=taken,
                run_id=UUID(run_id) if run_id else None,
                known_at=known_at,
            ),
            mark,
        )
        for seq, type, payload, taken, run_id, known_at in packed
    ]


def _as_message(entry: LogEntry, mark: str) -> LogEntry:
    """Turn a sub-agent's result, or a verdict that sends the agent back, into a message.

    Text that another model wrote is fenced, because it may repeat untrusted text.
    """
    if entry.type == EventType.OUTCOME_JUDGED:
        payload = {"text": return_message(entry.payload, mark)}
        return replace(entry, type=EventType.USER_MESSAGE, payload=payload, taken=True)
    if entry.type != EventType.CHILD_IDLE:
        return entry
    name = entry.payload.get("title") or entry.payload["child_session_id"]
    result = fence(str(entry.payload["result"]), mark, "result of a sub-agent")
    text = f"[The sub-agent {name!r} {entry.payload['status']}. Its result:]\n{result}"
    return replace(entry, type=EventType.USER_MESSAGE, payload={"text": text})


@dataclass(kw_only=True)
class MessageBuilder:
    """Builds messages from entries, and closes the calls of an assistant with their results at once.

    A builder that has added the entries of a conversation can be continued with newer ones.
    """

    mark: str
    #: The person whose model reads this. Notes hold personal memory for one person only.
    speaker_id: UUID | None = None
    entries: Sequence[LogEntry] = ()
    #: The ownership of each call.
    owners: dict[str, str] = field(default_factory=dict)
    #: The calls that were made through `tool_call`.
    wrapped: set[str] = field(default_factory=set)
    #: The one result of each call.
    results: dict[str, ToolResult] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    #: Text of an answer that broke off. It counts unless the agent answers again.
    unfinished: str = ""
    #: Thinking that belongs to the answer that follows it.
    thinking: Thinking | None = None

    def continued(self, entries: Sequence[LogEntry]) -> MessageBuilder | None:
        """Return a builder with all of these entries.

        None if they do not begin with those of this builder, or change a message that it has built.
        """
        count = len(self.entries)
        begins_alike = count <= len(entries) and all(map(is_, self.entries, entries))
        if not begins_alike or self._is_changed_by(entries[count:]):
            return None
        view = replace(
            self,
            entries=entries,
            owners=dict(self.owners),
            wrapped=set(self.wrapped),
            results=dict(self.results),
            messages=list(self.messages),
        )
        view.add(entries[count:])
        return view

    def _is_changed_by(self, newer: Sequence[LogEntry]) -> bool:
        """Return whether an edit, or a result for a call that is closed already, is among these."""
        called = {call.call_id for message in self.messages[-1:] for call in message.calls}
        called |= {e.payload["tool_use_id"] for e in newer if e.type in TOOL_USES}
        return any(
            entry.type == EventType.USER_MESSAGE_EDITED
            or (
                entry.type == EventType.AGENT_TOOL_RESULT
                and (entry.payload.get("late") or entry.payload["tool_use_id"] not in called)
            )
            for entry in newer
        )

    def add(self, entries: Sequence[LogEntry]) -> None:
        """Add entries that follow those that were added."""
        self._pair(entries)
        for entry in entries:
            if entry.type in TOOL_USES:
                self.unfinished = ""
                self.add_assistant("", _call(entry.payload), None)
            elif entry.type == EventType.AGENT_MESSAGE:
                self._add_answer(entry.payload)
            elif entry.type == EventType.CONTEXT_NOTED:
                self.add_note(read_note(entry.payload, self.speaker_id))
            elif entry.type == EventType.AGENT_THINKING:
                self._add_thinking(entry.payload)
            elif (text := _user_text(entry, self.results, self.owners)) is not None:
                self.close_calls()
                if text:
                    self.add_user(text, parse_parts(entry.payload.get("attachments")))

    def _add_answer(self, payload: dict[str, Any]) -> None:
        """Add an answer. One that broke off waits: a retried run would repeat its text."""
        if payload.get("partial"):
            self.unfinished = payload["text"]
            return
        self.unfinished = ""
        self.close_calls()
        self.add_assistant(payload["text"], None, payload.get("provider_state"))

    def _add_thinking(self, payload: dict[str, Any]) -> None:
        """Keep thinking for the answer that follows it, if its vendor wants it back."""
        self.close_calls()
        state = payload.get("provider_state")
        self.thinking = Thinking(text=payload["text"], provider_state=state) if state else None

    def _pair(self, entries: Sequence[LogEntry]) -> None:
        """Note the calls and their results before any is added, because a result may come late."""
        for entry in entries:
            if entry.type in TOOL_USES:
                self.owners[entry.payload["tool_use_id"]] = entry.payload.get("ownership", "")
                if entry.payload.get("via") == CALL_TOOL:
                    self.wrapped.add(entry.payload["tool_use_id"])
        for entry in entries:
            if entry.type == EventType.AGENT_TOOL_RESULT:
                call_id = entry.payload["tool_use_id"]
                # Only a late result replaces another: it settles a call whose outcome was unknown.
                if call_id not in self.results or entry.payload.get("late"):
                    owner = self.owners.get(call_id, "")
                    result = _result(entry.payload, owner, self.mark)
                    name = CALL_TOOL if call_id in self.wrapped else result.name
                    self.results[call_id] = replace(result, name=name)

    def finished(self) -> list[Message]:
        """Return the messages, with a result for every call."""
        last = self.messages[-1:]
        if not last or not last[0].calls:
            return list(self.messages)
        return [*self.messages, self._results_of(last[0])]

    def with_note(self, text: str) -> MessageBuilder:
        """Return a builder that ends with a note which is not in the log yet."""
        view = replace(self, messages=list(self.messages))
        view.add_note(text)
        return view

    def add_note(self, text: str) -> None:
        if text:
            self.close_calls()
            self.add_user(text)

    def add_user(self, text: str, parts: tuple[Part, ...] = ()) -> None:
        if self.unfinished:
            self.add_assistant(self.unfinished, None, None)
            self.unfinished = ""
        last = self.messages[-1] if self.messages else None
        if last and last.role == "user":
            self.messages[-1] = Message(
                role="user", text=f"{last.text}\n\n{text}", parts=(*last.parts, *parts)
            )
        else:
            self.messages.append(Message(role="user", text=text, parts=parts))

    def add_assistant(self, text: str, call: ToolCall | None, state: str | None) -> None:
        """Add text or a call of the agent. A call joins the text before it, never the reverse."""
        thinking, self.thinking = self.thinking, None
        last = self.messages[-1] if self.messages else None
        if last and last.role == "assistant" and (call or not last.calls):
            joined = "\n\n".join(part for part in (last.text, text) if part)
            calls = (*last.calls, call) if call else last.calls
            state = last.provider_state or state
            self.messages[-1] = Message(
                role="assistant",
                text=joined,
                calls=calls,
                provider_state=state,
                thinking=last.thinking,
            )
        else:
            calls = (call,) if call else ()
            self.messages.append(
                Message(
                    role="assistant",
                    text=text,
                    calls=calls,
                    provider_state=state,
                    thinking=thinking,
                )
            )

    def close_calls(self) -> None:
        """Add a result for every call of the last message."""
        last = self.messages[-1] if self.messages else None
        if last and last.calls:
            self.messages.append(self._results_of(last))

    def _results_of(self, message: Message) -> Message:
        results = tuple(self.results.get(c.call_id) or _missing_result(c) for c in message.calls)
        return Message(role="tool", results=results)


def _missing_result(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        output="There is no result: the call was not finished.",
        is_error=True,
    )


def build_messages(
    entries: Sequence[LogEntry], mark: str = "outside", speaker_id: UUID | None = None
) -> list[Message]:
    """Build the conversation in the form that providers require.

    Calls and results are paired, roles take turns, and a person's message comes first. Untrusted
    text is fenced by the mark.
    """
    return build_view(entries, mark, speaker_id).finished()


def build_view(
    entries: Sequence[LogEntry], mark: str, speaker_id: UUID | None = None
) -> MessageBuilder:
    """Return a builder with the messages of these entries, each in its newest wording."""
    view = MessageBuilder(mark=mark, speaker_id=speaker_id, entries=entries)
    view.add(apply_edits(entries))
    return view


def _user_text(
    entry: LogEntry, results: Mapping[str, ToolResult], called: Container[str]
) -> str | None:
    """Return what an entry tells the agent: "" if it only closes calls, None if nothing at all."""
    match entry.type:
        case EventType.USER_MESSAGE if entry.taken:
            text = str(entry.payload.get("text", ""))
            return text + _attachment_list(entry.payload.get("attachments") or [])
        case EventType.AGENT_TOOL_RESULT:
            call_id = entry.payload["tool_use_id"]
            if not entry.payload.get("late"):
                return ""
            return _late_result(entry.payload, results[call_id], call_id in called)
        case _:
            return None  # an edit, or a message that still waits


def _attachment_list(attachments: list[dict[str, Any]]) -> str:
    """Return the list of files that came with a message, for the end of its text."""
    if not attachments:
        return ""
    named = "\n".join(f"- {file['path']} ({file.get('size', 0)} bytes)" for file in attachments)
    return f"\n\n[Files in the workspace that came with this message:]\n{named}"


def _late_result(payload: dict[str, Any], result: ToolResult, is_in_view: bool) -> str:
    """Tell the model of a result that came after it went on. The output stays with its call."""
    text = f"(Found out since: the earlier call of {payload['name']} is {payload['state']}."
    if is_in_view:
        return f"{text} Its result stands with the call.)"
    return f"{text} The call is left out here; what it gave: {result.output})"


def _call(payload: dict[str, Any]) -> ToolCall:
    call = ToolCall(
        call_id=payload["tool_use_id"],
        name=payload["name"],
        arguments=payload["input"],
        provider_state=payload.get("provider_state"),
    )
    return wrap(call) if payload.get("via") == CALL_TOOL else call


def _result(payload: dict[str, Any], ownership: str, mark: str) -> ToolResult:
    completed = payload["state"] == "completed"
    value = payload.get("output") if completed else payload.get("error") or payload["state"]
    parts: tuple[Part, ...] = ()
    if completed and isinstance(value, dict) and (parts := parse_parts(value.get("parts"))):
        # The parts themselves follow the text.
        value = str(value.get("text") or "\n".join(part.name for part in parts))
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    output, name = clip_for_model(text, RESULT_CHARS), payload["name"]
    answered = isinstance(value, dict) and "result" in value
    # An error may repeat a server's text, and no tool fences its errors itself.
    has_own_fence = completed and is_fenced(output)
    if is_untrusted_output(name, ownership, output, answered) and not has_own_fence:
        output = fence(output, mark, name)
    return ToolResult(
        call_id=payload["tool_use_id"],
        name=name,
        output=output,
        is_error=not completed,
        parts=parts,
    )


def count_tokens(messages: Sequence[Message]) -> int:
    """Return the estimated number of tokens of these messages."""
    return sum(message.tokens for message in messages)


def fit(messages: list[Message], budget: int) -> list[Message]:
    """Return the newest messages that fit, beginning with a person's message.

    The oldest turns go first; then long texts and results are clipped. A call and its result stay
    together.
    """
    if not messages or (messages[0].role == "user" and count_tokens(messages) <= budget):
        return messages
    kept = trim(messages, budget)
    return kept if count_tokens(kept) <= budget else _squeeze(kept, budget)


def trim(messages: list[Message], budget: int) -> list[Message]:
    """Return the newest whole turns that fit, and at least the newest one."""
    kept, used = len(messages), 0
    for nth in range(len(messages) - 1, -1, -1):
        used += messages[nth].tokens
        if used > budget and kept < len(messages):
            break
        if messages[nth].role == "user":
            kept = nth
    if kept < len(messages):
        return messages[kept:]
    # One very long turn whose beginning was not even read. Never start with half a pair.
    whole = next((nth for nth, m in enumerate(messages) if m.role != "tool"), len(messages))
    return [Message(role="user", text=LEFT_OUT), *messages[whole:]]


def _squeeze(messages: list[Message], budget: int) -> list[Message]:
    """Shorten one turn that is too long: keep its task, and the newest steps that fit."""
    steps = _steps(messages)
    task = (
        [_clip_message(message, budget // 4) for message in steps.pop(0)]
        if messages[0].role == "user"
        else []
    )
    left = budget - count_tokens(task)
    kept: list[Message] = []
    for step in reversed(steps):
        cost = count_tokens(step)
        if cost > left and kept:
            break
        if cost > left:
            step = [_clip_message(message, left // len(step)) for message in step]
            if count_tokens(step) > left:
                break
        kept = [*step, *kept]
        left -= count_tokens(step)
    return [*task, *kept] if task else [Message(role="user", text=LEFT_OUT), *kept]


def _steps(messages: list[Message]) -> list[list[Message]]:
    """Group each message with the results that belong to it."""
    steps: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and steps:
            steps[-1].append(message)
        else:
            steps.append([message])
    return steps


def _clip_message(message: Message, tokens: int) -> Message:
    """Return the message with each of its texts cut to an equal share of the tokens."""
    if message.tokens <= tokens:
        return message
    pieces = len(message.calls) + len(message.results) + bool(message.text)
    share = max(8, (tokens // max(1, pieces)) - OVERHEAD) * CHARACTERS_PER_TOKEN
    return replace(
        message,
        text=clip_for_model(message.text, share),
        parts=_clip_parts(message.parts, tokens),
        thinking=None,  # It belongs to the whole answer.
        calls=tuple(_clip_call(call, share) for call in message.calls),
        results=tuple(
            replace(
                result,
                output=clip_for_model(result.output, share),
                parts=_clip_parts(result.parts, tokens // pieces),
            )
            for result in message.results
        ),
    )


def _clip_parts(parts: tuple[Part, ...], tokens: int) -> tuple[Part, ...]:
    """Return the first parts that take at most half of the tokens."""
    kept: list[Part] = []
    for part in parts:
        if sum(one.tokens for one in (*kept, part)) > tokens // 2:
            break
        kept.append(part)
    return tuple(kept)


def _clip_call(call: ToolCall, characters: int) -> ToolCall:
    share = characters // max(1, len(call.arguments))
    return replace(
        call, arguments={name: _clip_value(value, share) for name, value in call.arguments.items()}
    )


def _clip_value(value: Any, characters: int) -> Any:
    if isinstance(value, str):
        return clip_for_model(value, characters)
    if isinstance(value, dict | list) and len(str(value)) > characters:
        return clip_for_model(str(value), characters)
    return value
