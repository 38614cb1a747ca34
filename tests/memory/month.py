"""A scripted month of notes, with 30 duplicates and 10 contradictions, and a model that judges them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta

from agents.providers.base import Delta, ModelRequest, TextDelta, Usage

#: Facts that stay. Several look like others and are not.
FACTS = [
    "The Zurich office closes at six in the evening.",
    "The Geneva office closes at six in the evening.",
    "Deploys of the billing service need two approvals.",
    "Deploys of the search service need one approval.",
    "The nightly backup writes to the bucket yard-backups.",
    "Marta owns the invoices of the northern region.",
    "Jonas owns the invoices of the southern region.",
    "The staging database is reset every Sunday.",
    "Customers in Austria are invoiced in euros.",
    "The status page is updated by the person on call.",
    "Reports are sent as PDF, never as a spreadsheet.",
    "The API key of the map service expires in March.",
    "Ticket YARD-101 is about slow exports.",
    "Ticket YARD-102 is about slow imports.",
    "The parking garage opens with the blue badge.",
    "New colleagues get a laptop on their first day.",
    "The printer on the third floor needs a driver.",
    "Lunch is at noon in the canteen.",
    "The team meets on Mondays at nine.",
    "Vacation requests go to Petra.",
    "The logs of the gateway are kept for thirty days.",
    "The test suite takes twelve minutes.",
    "Do not restart the gateway during business hours.",
    "The release branch is cut on Thursdays.",
    "Contracts are signed by Helena or Tobias.",
    "The training budget is 1,500 francs a year.",
    "The coffee machine is cleaned by the last to leave.",
    "Phone calls from the press go to Nadia.",
    "The old wiki is read-only since spring.",
    "The alarm code is in the vault under ALARM.",
]  # fmt: skip

#: The same in nearly the same words: found without a model.
NEAR = {
    FACTS[0]: "the Zurich office closes at six in the evening",
    FACTS[2]: "Deploys of the billing service need two approvals!",
    FACTS[4]: "The nightly backups writes to the bucket yard-backups.",
    FACTS[7]: "Note: the staging database is reset every Sunday.",
    FACTS[9]: "Status page is updated by the person on call.",
    FACTS[12]: "ticket YARD-101 is about slow exports",
    FACTS[15]: "New colleagues get laptop on their first day.",
    FACTS[18]: "The team meets on Monday at nine.",
    FACTS[20]: "The log of the gateway are kept for thirty days.",
    FACTS[23]: "Release branch is cut on Thursdays.",
}
EXACT = [FACTS[n] for n in (1, 3, 5, 6, 8, 10, 13, 14, 16, 19)]
#: The same in other words: only a model sees it.
PARAPHRASED = {
    FACTS[11]: "In March the map service's API key runs out.",
    FACTS[17]: "The canteen serves lunch at noon.",
    FACTS[21]: "Running the whole test suite takes twelve minutes.",
    FACTS[22]: "The gateway must not be restarted during business hours.",
    FACTS[24]: "Helena or Tobias sign the contracts.",
    FACTS[25]: "Each year there is a training budget of 1,500 francs.",
    FACTS[26]: "The last to leave cleans the coffee machine.",
    FACTS[27]: "Nadia takes the phone calls from the press.",
    FACTS[28]: "Since spring the old wiki can only be read.",
    FACTS[29]: "In the vault, the alarm code is stored under ALARM.",
}
#: What was noted first, and what a later note says instead.
CONTRADICTIONS = {
    "Production deploys happen on Fridays.": "Production deploys happen on Tuesdays.",
    "The support hotline is staffed until 17:00.": "The support hotline is staffed until 20:00.",
    "Employees get 25 days of holiday.": "Employees get 27 days of holiday.",
    "The main contact at Orbis is Frank Weber.": "The main contact at Orbis is Lena Koch.",
    "Passwords must have at least 10 characters.": "Passwords must have at least 14 characters.",
    "The video calls run on Meetly.": "The video calls run on Huddle.",
    "The warehouse is in Basel.": "The warehouse is in Olten since it moved.",
    "Refunds are paid within 30 days.": "Refunds are paid within 14 days.",
    "The dashboard is built with Grafton.": "The dashboard is built with Plotwise.",
    "Invoices are due after 10 days.": "Invoices are due after 20 days.",
}
FIRST = date(2026, 9, 1)
DAYS = 30


def documents() -> dict[str, str]:
    """Return the month's documents by path: a daily log for each day, in which each note comes once."""
    days: list[list[str]] = [[] for _ in range(DAYS)]
    for nth, fact in enumerate(FACTS):
        days[nth % 15].append(fact)
    for nth, old in enumerate(CONTRADICTIONS):
        days[nth % 15].append(old)
    again = [*EXACT, *NEAR.values(), *PARAPHRASED.values(), *CONTRADICTIONS.values()]
    for nth, note in enumerate(again):
        days[15 + nth % 15].append(note)
    return {
        f"daily/{FIRST + timedelta(days=nth)}.md": "".join(f"- {note}\n" for note in day)
        for nth, day in enumerate(days)
    }


def pairs() -> list[tuple[str, str]]:
    """Return the pairs of notes of which one goes: 30 duplicates and 10 contradictions."""
    same = [(fact, fact) for fact in EXACT] + [*NEAR.items(), *PARAPHRASED.items()]
    return [*same, *CONTRADICTIONS.items()]


class Judge:
    """Answers as a model would, with some decisions that must not be followed among them."""

    _NOTE = re.compile(r"\[(\d+)\] (\d{4}-\d\d-\d\d), ([^:]+): (.*)")

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        self.requests.append(request)
        yield TextDelta(text=self.answer(request.messages[0].text))
        yield Usage(input_tokens=900, output_tokens=200)

    def answer(self, text: str) -> str:
        decisions = [one for group in text.split("\nGroup ") for one in self._judge(group)]
        # A number that does not exist, and a note that is dropped for itself.
        decisions.append({"keep": 999, "drop": [1], "kind": "duplicate", "why": "Invented."})
        decisions.append({"keep": 1, "drop": [1], "kind": "duplicate", "why": "Itself."})
        return f"```json\n{json.dumps({'decisions': decisions})}\n```"

    def _judge(self, group: str) -> Iterator[dict[str, object]]:
        number_of = {note: int(number) for number, _, _, note in self._NOTE.findall(group)}
        for fact, other in PARAPHRASED.items():
            if fact in number_of and other in number_of:
                yield {
                    "keep": number_of[fact],
                    "drop": [number_of[other]],
                    "kind": "duplicate",
                    "text": None,
                    "why": "Both say the same in other words.",
                }
        for old, new in CONTRADICTIONS.items():
            if old in number_of and new in number_of:
                # Against the dates first: it must have no effect.
                for keep, drop in ((old, new), (new, old)):
                    yield {
                        "keep": number_of[keep],
                        "drop": [number_of[drop]],
                        "kind": "outdated",
                        "why": f"It now says: {keep}",
                    }
