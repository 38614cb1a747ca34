"""What the demo can be asked to do: say something, call tools, or fail on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agents.providers.base import JSON


@dataclass(frozen=True, kw_only=True)
class Say:
    """Stream this text as it is."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One call of one tool, if the agent may use it."""

    tool: str
    arguments: JSON
    #: The person wrote the arguments; they are sent as they are, right or wrong.
    literal: bool = False


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Calls made side by side in one answer."""

    wishes: tuple[Wish, ...]


@dataclass(frozen=True, kw_only=True)
class Fail:
    """Break down as a real provider might."""

    kind: Literal["overload", "rejection", "overflow"]


@dataclass(frozen=True, kw_only=True)
class Help:
    """Nothing was understood: say what can be asked."""


Step: TypeAlias = Say | Calls | Fail | Help
