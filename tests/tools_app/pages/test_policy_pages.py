"""Tests of the policy page without JavaScript: decisions, review, saving and reverting."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from tenants.access import principal_of_user
from tests import factories
from tests.conftest import add_member
from tools_app.models import PolicyRevision
from tools_app.pages.policy_matrix import (
    CHOICE_ORDER,
    current_choice,
    extra_rules,
    fields_from_choices,
)
from tools_app.policy.effective import effective_policy
from tools_app.policy.storage import LISTS, change_policy, find_target, stored_policy
from tools_app.registry import Category

EMPTY: dict[str, Any] = {
    "profile": None,
    "allowed_tools": [],
    "approved_tools": [],
    "denied_tools": [],
    "ask_tools": [],
    "max_tool_calls_per_turn": None,
    "peers": [],
}
TOOLS = ["read", "write", "exec"]


@pytest.fixture
def page(browser_client: Client) -> Client:
    return browser_client


@pytest.fixture
def agent(workspace):
    return factories.agent(workspace)


@pytest.fixture
def target(workspace, agent):
    return find_target(workspace.pk, "agent", agent.pk)


@pytest.fixture
def url(agent) -> str:
    return f"/policies/agent/{agent.pk}/"


def member(workspace, role: str) -> Client:
    client = Client()
    client.force_login(add_member(workspace, role))
    return client


def text(answer) -> str:
    return answer.content.decode()


def form(target, act: str, **more) -> dict[str, object]:
    stored = stored_policy(target)
    return {"act": act, "profile": stored.profile or "", "revision": stored.revision, **more}


def test_every_tool_shows_its_decision_and_the_reason(page, url, workspace, owner):
    ceiling = find_target(workspace.pk, "workspace")
    change_policy(principal_of_user(owner, workspace.pk), ceiling, {"denied_tools": ["group:web"]})
    shown = text(page.get(url))

    assert "Denied by the workspace ceiling: group:web." in shown
    assert "Asks first by default." in shown
    assert "Allowed by the agent: profile coding." in shown


def test_risky_tool_groups_come_first(page, url):
    shown = re.findall(r'id="group-(\w+)"', text(page.get(url)))

    assert shown[0] == "exec"
    assert shown[-1] == "builder"
    assert set(CHOICE_ORDER) == set(Category)


def test_a_change_can_be_reviewed_before_it_is_saved(page, url, target):
    answer = page.post(url, form(target, "review", **{"choice:read": "deny"}))

    assert "+ deny read" in text(answer)
    assert "Effect" in text(answer)
    assert stored_policy(target).revision == 0


def test_a_saved_change_applies_to_the_next_run(page, url, target, agent):
    answer = page.post(url, form(target, "save", **{"choice:read": "deny"}))

    assert answer.status_code == 302
    assert stored_policy(target).denied_tools == ["read"]
    assert effective_policy(agent.current)["read"].decision == "deny"


def test_allowing_a_risky_tool_must_be_confirmed(page, url, target, agent):
    words = {"choice:exec": "allow"}
    answer = page.post(url, form(target, "save", **words))
    assert "This lets exec run without approval." in text(answer)
    assert stored_policy(target).revision == 0

    assert page.post(url, form(target, "save", confirmed="on", **words)).status_code == 302
    assert stored_policy(target).approved_tools == ["exec"]
    policy = effective_policy(agent.current)
    assert policy["exec"].decision == "allow"
    assert policy["read"].decision == "allow"


def test_a_builder_can_narrow_but_not_widen(workspace, url, target):
    builder = member(workspace, "builder")
    answer = builder.post(url, form(target, "save", confirmed="on", **{"choice:exec": "allow"}))
    assert answer.status_code == 403
    assert "takes the right to admin" in text(answer)
    assert "Only an admin can make this change" in text(answer)

    assert builder.post(url, form(target, "save", **{"choice:exec": "deny"})).status_code == 302
    assert stored_policy(target).denied_tools == ["exec"]


def test_a_viewer_can_see_a_policy_but_not_change_it(workspace, url, target):
    viewer = member(workspace, "viewer")
    shown = text(viewer.get(url))

    assert "disabled" in shown
    assert "Review changes" not in shown
    assert viewer.post(url, form(target, "save", **{"choice:read": "deny"})).status_code == 403
    assert viewer.get(f"{url}?tool=read").status_code == 200
    assert stored_policy(target).revision == 0


def test_rules_with_patterns_are_edited_as_a_list(page, url, target):
    rules = {"verdict": ["deny", "ask", "ask"], "rule": ["exec(rm *)", "group:web", ""]}
    page.post(url, form(target, "save", **rules))
    stored = stored_policy(target)
    assert (stored.denied_tools, stored.ask_tools) == (["exec(rm *)"], ["group:web"])

    shown = text(page.get(url))
    assert 'value="exec(rm *)"' in shown
    page.post(url, form(target, "save", verdict=["deny"], rule=["exec(rm *)"], confirmed="on"))
    assert stored_policy(target).ask_tools == []


def test_an_invalid_rule_stays_in_the_form_with_a_message(page, url, target):
    answer = page.post(url, form(target, "save", verdict=["deny"], rule=["exce(rm *)"]))

    assert answer.status_code == 400
    assert "No tool is named exce(rm *)" in text(answer)
    assert 'value="exce(rm *)"' in text(answer)
    assert stored_policy(target).revision == 0


@pytest.mark.parametrize(
    "wrong", [{"rule": ["exec(", ""]}, {"max_tool_calls_per_turn": "many"}, {"rule": ["nope", ""]}]
)
def test_a_refused_form_keeps_everything_that_was_typed(page, url, target, wrong):
    typed = {
        "choice:read": "deny",
        "profile": "full",
        "verdict": ["deny", "ask"],
        "rule": ["exec(rm *)", ""],
        "max_tool_calls_per_turn": "7",
        **wrong,
    }
    answer = page.post(url, form(target, "review", **typed))
    shown = text(answer)

    assert answer.status_code == 400
    assert 'name="choice:read" value="deny" checked' in shown
    assert f'value="{typed["rule"][0]}"' in shown
    assert f'value="{typed["max_tool_calls_per_turn"]}"' in shown
    assert 'value="full" selected' in shown
    assert "Unsaved changes." in shown
    assert stored_policy(target).revision == 0


def test_a_concurrent_change_is_not_overwritten(page, url, target, owner, workspace):
    stale = form(target, "save", **{"choice:read": "deny"})
    change_policy(principal_of_user(owner, workspace.pk), target, {"ask_tools": ["write"]})
    answer = page.post(url, stale)

    assert answer.status_code == 409
    assert "The policy was changed meanwhile" in text(answer)
    assert stored_policy(target).ask_tools == ["write"]
    assert stored_policy(target).denied_tools == []


def test_the_history_shows_changes_and_authors_and_can_be_restored(page, url, target):
    page.post(url, form(target, "save", profile="full", **{"choice:write": "ask"}))
    page.post(url, form(target, "save", profile="minimal"))
    shown = text(page.get(url))
    assert "Profile: full → minimal" in shown
    assert "\u2212 ask write" in shown
    assert "owner@example.com" in shown

    reviewed = page.post(url, {"act": "revert", "revision": "1"})
    assert "Revert to revision 1" in text(reviewed)
    assert stored_policy(target).profile == "minimal"
    page.post(url, {"act": "save", "reverts_to": "1", "confirmed": "on"})
    stored = stored_policy(target)
    assert (stored.profile, stored.ask_tools, stored.revision) == ("full", ["write"], 3)
    assert PolicyRevision.objects.get(revision=3).reverts_to == 1


def test_a_revert_that_allows_a_risky_tool_needs_confirmation(page, url, target):
    page.post(url, form(target, "save", confirmed="on", **{"choice:exec": "allow"}))
    page.post(url, form(target, "save", **{"choice:exec": "deny"}))
    answer = page.post(url, {"act": "save", "reverts_to": "1"})

    assert "This lets exec run without approval." in text(answer)
    assert stored_policy(target).denied_tools == ["exec"]


def test_a_simulated_call_shows_its_chain_of_decisions(page, url, target):
    rules = {"verdict": ["deny"], "rule": ["exec(rm *)"]}
    page.post(url, form(target, "save", **rules))
    shown = text(page.get(url, {"tool": "exec", "input": '{"command": "rm -rf /"}'}))
    assert "Denied by the agent: exec(rm *)." in shown
    assert "exec asks first" in shown

    for odd in ("nonsense", "[" * 5_000):
        assert "JSON object" in text(page.get(url, {"tool": "exec", "input": odd}))
    assert "no tool has this name" in text(page.get(url, {"tool": "nope"})).lower()


def test_the_preview_returns_the_effect_of_the_form(page, url, target):
    asked = form(target, "", **{"choice:exec": "allow", "tool": "exec", "input": "{}"})
    answer = json.loads(text(page.post(f"{url}preview/", asked)))

    assert answer["tools"]["exec"]["decision"] == "allow"
    assert answer["lines"] == ["+ allow exec"]
    assert answer["risky"] == ["exec"]
    assert answer["call"]["explanation"]["decision"] == "allow"
    assert stored_policy(target).revision == 0
    wrong = page.post(f"{url}preview/", form(target, "", max_tool_calls_per_turn="many"))
    assert wrong.status_code == 400


def test_every_layer_has_a_page(page, workspace, agent):
    from agents.models import Environment
    from sessions_app.models import Session

    environment = Environment.objects.for_workspace(workspace.pk).first()
    session = Session.objects.create(
        workspace=workspace, agent=agent, agent_version=agent.current, title="A talk"
    )
    assert environment
    for where in ("", f"environment/{environment.pk}/", f"session/{session.pk}/"):
        answer = page.post(f"/policies/{where}", {"act": "save", "choice:read": "deny"})
        assert answer.status_code == 302, where
        assert "Denied by" in text(page.get(f"/policies/{where}")), where
    assert "A talk" in text(page.get("/policies/"))


def test_a_list_of_allowed_tools_is_shown_as_exclusive(page, url, target, owner, workspace):
    words = {"allowed_tools": ["read", "group:memory"]}
    change_policy(principal_of_user(owner, workspace.pk), target, words)
    shown = text(page.get(url))

    assert "allows only read, group:memory" in shown
    page.post(
        url,
        form(target, "save", verdict=["only", "only"], rule=["read", "group:memory"]),
    )
    assert stored_policy(target).revision == 1


RULES = st.lists(
    st.sampled_from(["read", "read(*)", "exec(*)", "exec", "write", "group:web", "exec(git *)"]),
    max_size=4,
    unique=True,
)


@given(allowed=RULES, denied=RULES, asked=RULES)
def test_an_unchanged_form_keeps_the_same_rules(allowed, denied, asked):
    words = {**EMPTY, "allowed_tools": allowed, "denied_tools": denied, "ask_tools": asked}
    choices = {tool: current_choice(tool, words) for tool in TOOLS}

    made = fields_from_choices(EMPTY, choices, extra_rules(words, TOOLS), words)
    assert {name: made[name] for name in LISTS.values()} == {
        name: words[name] for name in LISTS.values()
    }


def test_peers_are_seen_reviewed_and_confirmed(page, url, target, workspace):
    clerk = factories.agent(workspace)
    name = clerk.current.name
    ticked = {"peer:send": str(clerk.pk), "peer:list": str(clerk.pk)}
    review = text(page.post(url, form(target, "save", **ticked)))
    assert f"+ peer {name}: list, send" in review
    assert "This lets the agent reach sessions of other agents." in review
    assert stored_policy(target).revision == 0

    assert page.post(url, form(target, "save", confirmed="on", **ticked)).status_code == 302
    assert stored_policy(target).peers == [{"agent": str(clerk.pk), "may": ["list", "send"]}]
    shown = text(page.get(url))
    for right, checked in (("list", " checked"), ("read", ""), ("send", " checked")):
        assert f'name="peer:{right}" value="{clerk.pk}"{checked}>' in shown

    assert page.post(url, form(target, "save")).status_code == 302
    assert stored_policy(target).peers == []


def test_the_page_of_other_layers_shows_no_peers(page):
    assert "peer:list" not in text(page.get("/policies/"))
