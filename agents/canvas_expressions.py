"""The language of a canvas's conditions: compare, contains, in, and, or, not.

Nothing is evaluated but what this grammar knows.

    choice  := all ("or" all)*          all   := one ("and" one)*
    one     := "not" one | value [("==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "in") value]
    value   := "text" | 12.5 | true | false | null | path | {{path}} | "(" choice ")"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from agents.canvas_paths import PATH, Facts, look_up
from config.faults import Invalid

LONGEST = 2_000
DEEPEST = 50
Meaning: TypeAlias = Callable[[Facts], Any]
TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])"
    r"|(?P<sign>==|!=|<=|>=|<|>|\(|\))"
    rf"|(?P<word>{PATH})"
    rf"|\{{\{{\s*(?P<place>{PATH})\s*\}}\}})"
)
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
KEPT = {"and", "or", "not", "contains", "in", *WORDS}


@dataclass(frozen=True, kw_only=True)
class Token:
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Expression:
    """A condition that was understood: what it names, and what it means."""

    paths: tuple[str, ...]
    meaning: Meaning

    def holds(self, facts: Facts) -> bool:
        return is_true(self.meaning(facts))


def parse(text: str) -> Expression:
    """Understand a condition, or say where it cannot be."""
    if len(text) > LONGEST:
        raise Invalid(f"A condition has at most {LONGEST:,} characters.")
    reader = _Reader(list(_tokens(text)))
    meaning = reader.choice(0)
    reader.end()
    return Expression(paths=tuple(reader.paths), meaning=meaning)


def is_true(value: Any) -> bool:
    """Nothing, false, zero and what is empty do not hold."""
    return bool(value)


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while text[place:].strip():
        found = TOKEN.match(text, place)
        if found is None:
            raise Invalid(f"This is not understood: {text[place:].strip()[:30]!r}.")
        kind = str(found.lastgroup)
        yield Token(kind=kind, text=found[kind])
        place = found.end()


class _Reader:
    """Reads the tokens from left to right."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.paths: list[str] = []

    def choice(self, depth: int) -> Meaning:
        if depth > DEEPEST:
            raise Invalid(f"A condition is nested at most {DEEPEST} deep.")
        parts = [self._all(depth)]
        while self._takes("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise Invalid(f"Nothing is expected at {self._tokens[self._at].text!r}.")

    def _all(self, depth: int) -> Meaning:
        parts = [self._one(depth)]
        while self._takes("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def _one(self, depth: int) -> Meaning:
        turned = 0
        while self._takes("not"):
            turned += 1
        left = self._value(depth)
        sign = next((one for one in SIGNS if self._takes(one)), None)
        if sign:
            left = _compare(SIGNS[sign], left, self._value(depth))
        return _negated(left, turned) if turned else left

    def _value(self, depth: int) -> Meaning:
        if self._takes("("):
            inner = self.choice(depth + 1)
            if not self._takes(")"):
                raise Invalid("A bracket is not closed.")
            return inner
        if self._at >= len(self._tokens):
            raise Invalid("The condition ends too early.")
        token = self._tokens[self._at]
        if token.kind == "sign" or (token.kind == "word" and token.text in KEPT - WORDS.keys()):
            raise Invalid(f"A value is expected at {token.text!r}.")
        self._at += 1
        return self._meaning(token)

    def _meaning(self, token: Token) -> Meaning:
        if token.kind == "text":
            return _constant(re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL))
        if token.kind == "number":
            return _constant(json.loads(_plain(token.text)))
        if token.kind == "word" and token.text in WORDS:
            return _constant(WORDS[token.text])
        self.paths.append(token.text)
        return lambda facts: look_up(token.text, facts)

    def _takes(self, word: str) -> bool:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token.kind not in {"word", "sign"} or token.text != word:
            return False
        self._at += 1
        return True


def _plain(number: str) -> str:
    """Without zeros in front, which JSON does not know."""
    return re.sub(r"^(-?)0+(?=\d)", r"\1", number)


def _constant(value: Any) -> Meaning:
    return lambda facts: value


def _any_of(parts: list[Meaning]) -> Meaning:
    return lambda facts: any(is_true(part(facts)) for part in parts)


def _all_of(parts: list[Meaning]) -> Meaning:
    return lambda facts: all(is_true(part(facts)) for part in parts)


def _negated(part: Meaning, times: int) -> Meaning:
    return lambda facts: is_true(part(facts)) is (times % 2 == 0)


def _compare(how: Callable[[Any, Any], bool], left: Meaning, right: Meaning) -> Meaning:
    return lambda facts: how(left(facts), right(facts))


def same(left: Any, right: Any) -> bool:
    """As JSON sees it: true is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _ordered(left: Any, right: Any) -> bool:
    """Only numbers with numbers and texts with texts have an order."""
    numbers = all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in (left, right)
    )
    return numbers or (isinstance(left, str) and isinstance(right, str))


def contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, list):
        return any(same(one, part) for one in whole)
    return isinstance(whole, dict) and isinstance(part, str) and part in whole


SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": same,
    "!=": lambda left, right: not same(left, right),
    "<=": lambda left, right: _ordered(left, right) and left <= right,
    ">=": lambda left, right: _ordered(left, right) and left >= right,
    "<": lambda left, right: _ordered(left, right) and left < right,
    ">": lambda left, right: _ordered(left, right) and left > right,
    "contains": contains,
    "in": lambda part, whole: contains(whole, part),
}
