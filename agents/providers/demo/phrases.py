"""The phrases the demo understands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agents.providers.demo import building as make
from agents.providers.demo import reading
from agents.providers.demo.reading import Match
from agents.providers.demo.steps import Step

SENTENCE_END = " \t\r\n.!?…"

_POLITE = re.compile(
    r"(?:(?:please|kindly|now|then|also|next|first|finally|hi|hello|hey|okay|ok"
    r"|(?:can|could|would|will) you)[,!.:]{0,3}\s{1,4})+",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """A pattern for a whole phrase, and what to make of it."""

    pattern: re.Pattern[str]
    make: Callable[[Match], Step]
    #: What it ends in is text of the person's own, so its last full stop is not cut off.
    verbatim: bool

    def read(self, text: str) -> Step | None:
        """The step, if this phrase is what the text says."""
        # The text as it is comes second: in "list the files in ." the full stop is a folder.
        for candidate in (text,) if self.verbatim else (text.rstrip(SENTENCE_END), text):
            if match := self.pattern.fullmatch(candidate):
                return self.make(match)
        return None


def step_of(text: str, *, building: bool = False) -> Step | None:
    """The step a phrase stands for, or None when it is not understood."""
    text = text.strip()
    if polite := _POLITE.match(text):
        text = text[polite.end() :]
    known = (*BUILDING, *PHRASES) if building else PHRASES
    return next((step for phrase in known if (step := phrase.read(text))), None)


def _phrase(source: str, make: Callable[[Match], Step], *, verbatim: bool = False) -> Phrase:
    # A space in a source stands for a few of any kind. All repeats are bounded or last, because a
    # long message must not keep the matcher busy.
    spaced = source.replace(" ", r"\s{1,4}")
    return Phrase(
        pattern=re.compile(spaced, re.IGNORECASE | re.DOTALL), make=make, verbatim=verbatim
    )


_FILE = r"(?:the file )?(?P<path>\S{1,1000})"
_SUB_AGENT = r"(?:an?|the|another) sub[\s-]?agent"
_UNIT = r"(?P<unit>ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?)"
_TOOL = r"`?(?P<tool>[\w:./-]{1,128})`?"

#: The first that fits counts, so the narrow ones come first.
PHRASES: tuple[Phrase, ...] = (
    _phrase(r"say (?P<number>\d{1,6}) words?", reading.say_words),
    _phrase(r"say[:\s]\s*(?P<text>.+)", reading.say, verbatim=True),
    _phrase(r"count (?:up )?to (?P<number>\d{1,6})", reading.count),
    _phrase(r"fail with (?:an? )?(?P<kind>overload|rejection|overflow)", reading.fail),
    _phrase(rf"(?:use|call) (?:the )?(?:tool )?{_TOOL} with (?P<json>\{{.*)", reading.use, verbatim=True),
    _phrase(rf"(?:use|call) (?:the )?tool {_TOOL}(?P<json>)", reading.use),
    _phrase(r"(?:remember|keep in mind)(?: that)?[:,]? (?P<fact>.+)", reading.remember),
    _phrase(r"what do you (?:know|remember) about (?P<query>.+)", reading.recall),
    _phrase(r"(?:search|look in) (?:your |the )?memory for (?P<query>.+)", reading.recall),
    _phrase(
        r"(?:list|show)(?: me)?(?: all)?(?: the| my)? files(?: (?:in|under|of) (?P<path>\S{1,1000}))?",
        reading.list_files,
    ),
    _phrase(r"write to (?P<path>[^\s:]{1,1000}):\s?(?P<content>.+)", reading.write, verbatim=True),
    _phrase(rf"write (?P<content>.+) (?:to|into) {_FILE}", reading.write),
    _phrase(rf"(?:replace|change) (?P<old>.{{1,2000}}?) (?:with|by) (?P<new>.{{1,4000}}) in {_FILE}", reading.edit),
    _phrase(r"(?:fetch|download|open|get) (?:the page )?(?P<url>[<\"“`]?https?://\S{1,4000})", reading.fetch),
    _phrase(r"fetch (?:the page )?(?P<url>\S{1,4000})", reading.fetch),
    _phrase(r"(?:search (?:the )?(?:web|internet) for|web search(?: for)?) (?P<query>.+)", reading.search),
    _phrase(r"search for (?P<query>.+) on the (?:web|internet)", reading.search),
    _phrase(rf"(?:read|cat) (?:me )?{_FILE}", reading.read),
    _phrase(r"(?:show|open) (?:me )?(?:the file )?(?P<path>\S{0,200}\w[./]\w\S{0,200})", reading.read),
    _phrase(r"(?:run|execute) (?:the command )?(?P<command>.+)", reading.run, verbatim=True),
    _phrase(rf"(?:ask|tell|have|spawn|start) {_SUB_AGENT} (?:to )?(?P<task>.+)", reading.spawn),
    _phrase(rf"(?:wait|sleep|pause)(?: for)? (?P<number>\d{{1,6}}(?:\.\d{{1,3}})?)\s?{_UNIT}?", reading.wait),
    _phrase(
        r"send (?:me )?a message(?: to (?P<to>[^:,]{1,80}?))?(?:[:,]\s?| (?:saying|that says|that) )(?P<text>.+)",
        reading.message,
        verbatim=True,
    ),
    _phrase(r"send (?:me )?a message(?: to (?P<to>[^:,]{1,80}))?", reading.message),
    _phrase(r"tell (?P<to>\w{1,80}) (?:that )?(?P<text>.+)", reading.message, verbatim=True),
)  # fmt: skip

_AN_AGENT = r"(?:an?|another|the|this) (?:new )?(?:agent|assistant|bot|helper)"
#: Understood beside the others by whoever has a builder's tools.
BUILDING: tuple[Phrase, ...] = (
    _phrase(
        rf"(?:make|build|create|i (?:want|need))(?: me)? {_AN_AGENT} (?:that|which|who|to) (?P<purpose>.{{3,400}})",
        make.make_agent,
    ),
    _phrase(
        r"(?P<rules>(?:let it|allow it to|it (?:may|can|must|should)|(?:it must |it should )?ask (?:me |us )?before"
        r"|(?:never|don't|do not) (?:let it|allow it to)) .{3,400})",
        make.set_policy,
    ),
    _phrase(r"(?:call|name|rename) (?:it|the agent)(?: to)? (?P<name>.{1,80})", make.rename),
    _phrase(r"describe (?:it|the agent) as (?P<text>.{1,2000})", make.describe, verbatim=True),
    _phrase(r"(?:use|switch to)(?: the)? model (?P<model>\S{1,120})", make.use_model),
    _phrase(r"set the temperature to (?P<number>[012](?:\.\d{1,3})?)", make.set_temperature),
    _phrase(r"add a step (?:that|to|which) (?P<task>.{3,2000})", make.add_step),
    _phrase(r"(?:show|look at)(?: me)? (?:it|the agent|the draft)", make.look),
    _phrase(r"publish(?: (?:it|the agent|the draft))?", make.publish),
)
