"""Makes characters visible that could hide what a text says, for people who decide on it."""

from __future__ import annotations

import re
import unicodedata

#: Letters and marks that are drawn as nothing or as blanks, beside the categories below.
BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u2800\u3164\uffa0\U000e0100-\U000e01ef"
#: Control and format characters (directions, zero width, tags), private use, separators of lines.
CATEGORIES = {"Cc", "Cf", "Co", "Zl", "Zp"}
JOINER, EMOJI_STYLE = "\u200d", "\ufe0f"
#: Everything but printable ASCII and the usual breaks, to find quickly that nothing is to be done.
_SUSPECT = re.compile(r"[^ -~\n\t]")
_BLANK = re.compile(f"[{BLANKS}]")


def reveal(text: str) -> str:
    r"""Write invisible and direction-changing characters as escapes such as `\u202e`.

    JSON reads such an escape as the same character, so arguments that are shown this way can be
    edited and sent back without a change.
    """
    return _SUSPECT.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    if character == JOINER and _joins_emoji(found):
        return character
    if unicodedata.category(character) in CATEGORIES or _BLANK.match(character):
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    return character


def _joins_emoji(found: re.Match[str]) -> bool:
    """Return whether the joiner makes one picture of two, as in a family."""
    before, after = found.string[: found.start()].rstrip(EMOJI_STYLE), found.string[found.end() :]
    return all(
        one and unicodedata.category(one) in {"So", "Sk"} for one in (before[-1:], after[:1])
    )
