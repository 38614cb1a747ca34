"""Puts tool calls together again from the pieces in which they are streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from agents.providers.base import JSON, RAW, ToolCall

if TYPE_CHECKING:
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall


@dataclass(kw_only=True)
class _Pieces:
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class CallAssembly:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Pieces] = []
        self._by_index: dict[int, _Pieces] = {}

    def add(self, deltas: Iterable[ChoiceDeltaToolCall]) -> None:
        for delta in deltas:
            pieces = self._pieces_of(delta)
            pieces.call_id = pieces.call_id or delta.id or ""
            if function := delta.function:
                pieces.name = pieces.name or function.name or ""
                pieces.arguments.append(_text_of(function.arguments))

    def finish(self, names: dict[str, str]) -> Iterator[ToolCall]:
        """The whole calls, under the names that the product knows."""
        for pieces in self._calls:
            yield ToolCall(
                call_id=pieces.call_id or f"call_{uuid4().hex}",
                name=names.get(pieces.name, pieces.name),
                arguments=parse_arguments("".join(pieces.arguments)),
            )

    def __bool__(self) -> bool:
        return bool(self._calls)

    def text(self) -> str:
        """All that was streamed, for a count where the server gives none."""
        return "".join(piece.name + "".join(piece.arguments) for piece in self._calls)

    def _pieces_of(self, delta: ChoiceDeltaToolCall) -> _Pieces:
        # Some servers leave the index out, or send every call as number 0.
        index: int | None = delta.index
        last = self._calls[-1] if self._calls else None
        known = last if index is None else self._by_index.get(index)
        if known and not _begins_another(delta, known):
            return known
        fresh = _Pieces()
        self._calls.append(fresh)
        if index is not None:
            self._by_index[index] = fresh
        return fresh


def _begins_another(delta: ChoiceDeltaToolCall, known: _Pieces) -> bool:
    """By an id of its own; without ids, by a name that comes when the call before it is whole."""
    if delta.id and known.call_id:
        return delta.id != known.call_id
    named = bool(delta.function and delta.function.name)
    return named and RAW not in parse_arguments("".join(known.arguments) or "?")


def _text_of(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


def parse_arguments(text: str) -> JSON:
    """The arguments as an object; anything else is kept whole under `_raw`."""
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text)
    except ValueError:
        return {RAW: text}
    return arguments if isinstance(arguments, dict) else {RAW: text}
