"""Parses the conditions of a canvas, and fills the templates of its nodes.

Only this grammar is evaluated:

    choice  := all ("or" all)*          all   := one ("and" one)*
    one     := "not" one | value [("==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "in") value]
    value   := "text" | 12.5 | true | false | null | path | {{path}} | "(" choice ")"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from core.exceptions import Invalid

#: A node's id may contain dots, colons and dashes, and so may a path.
PATH = r"[A-Za-z_][A-Za-z0-9_.:-]*"
LONGEST_PATH = 300
_INPUT = re.compile(r"input(\.[A-Za-z0-9_:-]+)*")
_REST = re.compile(r"(\.[A-Za-z0-9_:-]+)*")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The data of a run: its input, and the outputs of its nodes so far."""

    input: Any = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    #: What only a part of a node can name, such as the item of a loop.
    locals: Mapping[str, Any] = field(default_factory=dict)


def node_in(path: str, ids: Collection[str]) -> str | None:
    """Return the node that a path names. If two ids fit, the longer one is meant."""
    fit = [node for node in ids if _rest_after(path, node) is not None]
    return max(fit, key=len, default=None)


def is_input(path: str) -> bool:
    return len(path) <= LONGEST_PATH and _INPUT.fullmatch(path) is not None


def look_up(path: str, facts: Facts) -> Any:
    """Return the value at a path, or None."""
    if is_input(path):
        return _walk(facts.input, path.split(".")[1:])
    name, *rest = path.split(".")
    if name in facts.locals:
        return _walk(facts.locals[name], rest)
    node = node_in(path, facts.outputs)
    if node is None:
        return None
    return _walk(facts.outputs[node], (_rest_after(path, node) or "").split(".")[1:])


def _rest_after(path: str, node: str) -> str | None:
    """Return what follows `nodes.ID.output`, if the path begins with it."""
    begin = f"nodes.{node}.output"
    if not path.startswith(begin) or len(path) > LONGEST_PATH:
        return None
    rest = path[len(begin) :]
    return rest if _REST.fullmatch(rest) else None


def _walk(value: Any, names: list[str]) -> Any:
    for name in names:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 7:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


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
    """A parsed condition: the paths it names, and a function that evaluates it."""

    paths: tuple[str, ...]
    meaning: Meaning

    def holds(self, facts: Facts) -> bool:
        return is_true(self.meaning(facts))


def parse(text: str) -> Expression:
    """Parse a condition. Raise Invalid, saying where the error is."""
    if len(text) > LONGEST:
        raise Invalid(f"A condition has at most {LONGEST:,} characters.")
    reader = _Reader(list(_tokens(text)))
    meaning = reader.choice(0)
    reader.end()
    return Expression(paths=tuple(reader.paths), meaning=meaning)


def is_true(value: Any) -> bool:
    """Return whether a value counts as true: null, false, zero and empty values do not."""
    return bool(value)


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while text[place:].strip():
        found = TOKEN.match(text, place)
        if found is None:
            raise Invalid(f"Unexpected text in the condition: {text[place:].strip()[:30]!r}.")
        kind = str(found.lastgroup)
        yield Token(kind=kind, text=found[kind])
        place = found.end()


class _Reader:
    """Parses the tokens from left to right."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.paths: list[str] = []

    def choice(self, depth: int) -> Meaning:
        if depth > DEEPEST:
            raise Invalid(f"A condition can be nested at most {DEEPEST} levels deep.")
        parts = [self._all(depth)]
        while self._takes("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise Invalid(f"Unexpected {self._tokens[self._at].text!r}.")

    def _all(self, depth: int) -> Meaning:
        parts = [self._one(depth)]
        while self._takes("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def _one(self, depth: int) -> Meaning:
        negations = 0
        while self._takes("not"):
            negations += 1
        left = self._value(depth)
        sign = next((operator for operator in SIGNS if self._takes(operator)), None)
        if sign:
            left = _compare(SIGNS[sign], left, self._value(depth))
        return _negated(left, negations) if negations else left

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
    """Strip leading zeros, which JSON does not allow."""
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
    """Compare as JSON does: true is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _ordered(left: Any, right: Any) -> bool:
    """Return whether two values have an order: two numbers or two strings."""
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right)
    )
    return numbers or (isinstance(left, str) and isinstance(right, str))


def contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, list):
        return any(same(item, part) for item in whole)
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

PLACE = re.compile(r"\{\{([^{}]*)\}\}")
MOST_FILLED = 1024 * 1024


def paths_in(value: Any) -> Iterator[str]:
    """Yield every path in a text, or in the texts inside a list or an object."""
    if isinstance(value, str):
        for found in PLACE.finditer(value):
            yield found[1].strip()
    elif isinstance(value, list):
        for one in value:
            yield from paths_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from paths_in(one)


def fill(value: Any, facts: Facts, *, keep: str = "") -> Any:
    """Return the value with its `{{paths}}` filled in. A text of one path alone becomes its value.

    Paths that begin with `keep` stay as they are. No filled-in value may contain such a path.
    """
    return _Filling(facts, keep).fill(value)


def as_text(value: Any) -> str:
    """Return text as it is, null as empty text, and the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Filling:
    """Fills one value, and counts the characters that it inserts."""

    def __init__(self, facts: Facts, keep: str) -> None:
        self._facts = facts
        self._keep = keep
        self._left = MOST_FILLED

    def fill(self, value: Any) -> Any:
        if isinstance(value, str):
            alone = PLACE.fullmatch(value.strip())
            if alone and not self._is_kept(alone[1]):
                found = look_up(alone[1].strip(), self._facts)
                self._spend(as_text(found))
                return found
            return PLACE.sub(
                lambda match: match[0] if self._is_kept(match[1]) else self._text(match[1]), value
            )
        if isinstance(value, list):
            return [self.fill(one) for one in value]
        if isinstance(value, dict):
            return {name: self.fill(one) for name, one in value.items()}
        return value

    def _is_kept(self, path: str) -> bool:
        return bool(self._keep) and path.strip().startswith(self._keep)

    def _text(self, path: str) -> str:
        return self._spend(as_text(look_up(path.strip(), self._facts)))

    def _spend(self, text: str) -> str:
        if self._keep and self._keep in text:
            raise Invalid(f"A value that is filled in contains {self._keep!r}, which is reserved.")
        self._left -= len(text)
        if self._left < 0:
            raise Invalid(f"The filled text has more than {MOST_FILLED:,} characters.")
        return text
