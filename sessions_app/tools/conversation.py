"""The tool by which an agent finds again what its context has let go of."""

from __future__ import annotations

from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import Max
from pydantic import Field

from memory.excerpts import excerpt_of
from memory.words import split_words
from sessions_app.history import Said, told_among
from sessions_app.models import Session, SessionEvent
from sessions_app.transcript import SPOKEN, WORDS
from tools_app.registry import Arguments, Category, ToolContext, tool

MOST_FOUND, MOST_WORDS = 20, 64
#: Some of what is found was taken back, or waits.
SPARE = 5


class ConversationSearch(Arguments):
    query: str = Field(
        min_length=1, max_length=2_000, description="A question, or a few words that were said."
    )
    limit: int = Field(
        default=5, ge=1, le=MOST_FOUND, description="The most messages, 5 if left out."
    )


@tool(category=Category.MEMORY, read_only=True, seconds=30, title="Search this conversation")
def conversation_search(arguments: ConversationSearch, context: ToolContext) -> str:
    """Search what was said earlier in this very conversation, also what you no longer see of it."""
    session = Session.objects.get(pk=context.session_id)
    said = told_among(session, _matching(session, arguments.query, arguments.limit + SPARE))
    found = [_line(one, arguments.query) for one in said[: arguments.limit]]
    return "\n\n".join(found) or f"Nothing was said here earlier about {arguments.query!r}."


def _matching(session: Session, query: str, most: int) -> list[SessionEvent]:
    """The messages with the most of these words, before the one that is being answered."""
    asked = session.events.filter(type=SessionEvent.Type.USER_MESSAGE, processed_at__isnull=False)
    newest = asked.aggregate(seq=Max("seq"))["seq"] or 0
    words = " or ".join(split_words(query.replace("\x00", " "))[:MOST_WORDS])
    meant = SearchQuery(words, search_type="websearch", config="english")
    earlier = session.events.filter(type__in=SPOKEN, seq__lt=newest).annotate(words=WORDS)
    ranked = earlier.filter(words=meant).annotate(rank=SearchRank(WORDS, meant, normalization=1))
    return list(ranked.order_by("-rank", "-seq")[:most])


def _line(said: Said, query: str) -> str:
    who = "person" if said.role == "user" else "you"
    return (
        f"#{said.seq} {who}, {said.created_at:%Y-%m-%d %H:%M} UTC\n{excerpt_of(said.text, query)}"
    )
