"""Takes secrets out of what is about to be written to a log.

A secret is known by the name it goes under or by its shape. Both are looked for everywhere:
in nested values, in addresses, in the text of exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from uuid import UUID

REMOVED = "[removed]"
DEEPEST = 12

SECRET_NAME = re.compile(
    r"(?:^|[_.\s])(?:authorization|x_api_key|api_?keys?|access_key|private_key|secret_key|salt_keys?"
    r"|passwords?|passwd|passphrase|secrets?|token|cookies?|set_cookie|credentials?|csrfmiddlewaretoken"
    r"|sessionid|csrftoken|signature)$"
)
UUID_SHAPE = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
NAMES_IN_TEXT = (
    r"authorization|x-api-key|api[_-]?key|access[_-]?token|refresh[_-]?token|client[_-]?secret"
    r"|password|passwd|secret|token|key|cookie|sessionid|csrftoken|csrfmiddlewaretoken|signature"
)
WORD = "[A-Za-z0-9_-]"
#: Each pattern keeps its first group and loses the rest.
SECRET_SHAPES = [
    re.compile(pattern, flags)
    for pattern, flags in (
        (
            r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        (r"(\b(?:bearer|basic|token)\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE),
        (r"(\bkey\.)sy_[A-Za-z0-9_-]+", 0),
        (r"()\bsy_[A-Za-z0-9_-]{8,}", 0),
        (r"()\bAIza[A-Za-z0-9_-]{10,}", 0),
        (r"()\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{10,}", 0),
        (
            r"()\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|ya29\.|whsec_)[A-Za-z0-9_./+=-]{8,}",
            0,
        ),
        # These two begin where a word does: from inside, a long word would be read over and over.
        (
            rf"((?<!{WORD})(?>{WORD}*?(?=eyJ)))eyJ{WORD}{{5,}}\.{WORD}{{5,}}\.{WORD}*",
            0,
        ),
        (r"((?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s:/@]*:)[^\s/@]+(?=@)", re.IGNORECASE),
        # name=value and name: value, as in addresses, headers and printed dictionaries.
        (
            rf"((?<![\w-])(?:{NAMES_IN_TEXT})['\"]?\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s&;,'\"}})\]]+)",
            re.IGNORECASE,
        ),
        # The same as an option of a command: --password=value, --token value.
        (
            r"((?<!\S)--?(?:[\w-]*(?:password|passwd|secret|token|api-?key))(?:=|\s+))(?!-)\S+",
            re.IGNORECASE,
        ),
        # A link that signs in, invites or resets carries its secret as a long word of the path.
        (rf"(/)(?!{UUID_SHAPE}\b)(?=[^/\s?#]*\d)[A-Za-z0-9_-]{{32,}}(?=[/?#\s'\"]|\Z)", 0),
    )
]


def redact(value: object, *, depth: int = 0) -> object:
    """The same value, plain enough for a log, without its secrets."""
    match value:
        case None | bool() | int() | float() | UUID() | date():
            return value
        case str():
            return redact_text(value)
        case bytes() | bytearray() | memoryview():
            return redact_text(bytes(value).decode(errors="replace"))
        case _ if depth >= DEEPEST:
            return REMOVED
        case Mapping():
            return {
                name: REMOVED if is_secret_name(name) else redact(inner, depth=depth + 1)
                for name, inner in value.items()
            }
        case list() | tuple() | AbstractSet():
            return [redact(inner, depth=depth + 1) for inner in value]
        case _:
            return redact_text(repr(value))


def redact_text(text: str) -> str:
    for shape in SECRET_SHAPES:
        text = shape.sub(rf"\g<1>{REMOVED}", text)
    return text


def is_secret_name(name: object) -> bool:
    return bool(SECRET_NAME.search(str(name).lower().replace("-", "_")))
