"""Tests that the context preview shows what the model receives, with the same token count."""

from __future__ import annotations

import pytest

from agents.exceptions import ProviderRejected
from agents.providers.base import estimate_request
from sessions_app.context.preview import preview
from tests.sessions_app.conftest import serve
from tests.sessions_app.context.test_builder import remember
from tests.sessions_app.long_talk import give_past
from tests.sessions_app.stage import say

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("remembers", [False, True])
def test_the_preview_equals_the_request(session, principal, script, owner, remembers):
    give_past(session, 6)
    if remembers:
        remember(session, "The kettle in the office is broken.", path="kettle.md")
        remember(session, "Answer briefly.", path="style.md", pinned=True)
    model = script([ProviderRejected("no")])
    say(session, principal, "What of the office kettle?")
    serve(session.pk)
    (sent,) = model.requests

    seen = preview(session, owner.pk)
    parts = {part.name: part.content for part in seen.parts}
    background = [parts["pinned_memory"]] if remembers else []
    # The refused request had a note, which the log keeps.
    assert "recalled_memory" not in parts
    assert ("kettle" in str(parts["messages"]).split("?")[-1]) == remembers
    assert sent.instructions == f"{parts['instructions']}\n\n{parts['skills']}"
    spoken = [message.text for message in sent.messages]
    told = [one["text"] for one in parts["messages"]]
    assert spoken == (["\n\n".join(background), "Understood."] if remembers else []) + told
    assert [(one["name"], one["input_schema"]) for one in parts["tools"]] == [
        (tool.name, tool.json_schema) for tool in sent.tools
    ]
    assert abs(seen.tokens - estimate_request(sent)) <= len(parts)


def test_each_part_says_what_a_change_of_it_sends_anew(
    session, principal, script, owner, api, browser_client
):
    give_past(session, 6)
    entry = remember(session, "Answer briefly.", path="style.md", pinned=True)

    url = f"/sessions/{session.pk}/context/"
    told = api.get(f"/api/v1{url}").json()
    parts = {part["name"]: part for part in told["parts"]}
    behind = sum(parts[name]["tokens"] for name in ("pinned_memory", "messages"))
    assert parts["tools"]["resent"] == told["tokens"]
    assert parts["pinned_memory"]["resent"] == behind < told["tokens"]
    assert parts["messages"]["resent"] == 0
    page = browser_client.get(f"/chat/{session.pk}/context/").content.decode()
    assert f"about {behind:,} tokens are sent anew" in page
    document = browser_client.get(f"/memory/{entry.pk}/").content.decode()
    assert "about 4 tokens, and the conversation behind them, are sent anew" in document
