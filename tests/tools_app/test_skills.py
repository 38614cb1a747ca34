"""Tests of skills: one line in the prompt, the text on demand, only for their agents."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.models import Agent
from sessions_app.models import SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.access import principal_of_user
from tenants.models import Workspace
from tests.conftest import add_member, key_client
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import say
from tools_app.models import Skill
from tools_app.policy.effective import load_session_binding
from tools_app.skills import create_skill, prompt_lines

SKILLS = "/api/v1/skills/"
DEPLOY = {"name": "deploy", "description": "How to deploy.", "body": "# Deploy\n1. Ask Ann."}


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return create_agent(workspace_id=workspace.pk, fields={"name": "Clerk", "provider": "demo"})


def lines_of(agent: Agent) -> str:
    """Return the lines about skills in the prompt of a new session."""
    session, _ = get_or_create_session(agent=agent)
    bound = load_session_binding(session.pk)
    assert bound
    return prompt_lines(bound.skills)


def test_a_new_workspace_has_an_example_skill(workspace, agent):
    assert [skill.name for skill in Skill.objects.for_workspace(workspace.pk)] == ["meeting-notes"]
    assert "- meeting-notes: How to turn" in lines_of(agent)


def test_a_skill_can_be_created_changed_and_deleted(api, owner, agent):
    made = api.post(SKILLS, DEPLOY, format="json")
    assert made.status_code == 201
    body = made.json()
    assert (body["agents"], body["enabled"], body["created_by"]) == ([], True, str(owner.pk))
    path = f"{SKILLS}{body['id']}/"

    changed = api.patch(path, {"agents": [str(agent.pk)]}, format="json").json()
    assert (changed["agents"], changed["body"]) == ([str(agent.pk)], DEPLOY["body"])
    assert api.post(SKILLS, DEPLOY, format="json").status_code == 409
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Deploy"},
        {"name": "a b"},
        {"description": "two\nlines"},
        {"description": ""},
        {"body": ""},
        {"body": "x" * 100_001},
        {"agents": ["01890000-0000-7000-8000-000000000000"]},
    ],
)
def test_an_invalid_skill_is_refused(api, fields):
    answer = api.post(SKILLS, DEPLOY | fields, format="json")

    assert answer.status_code == 400
    assert next(iter(fields)) in answer.text


def test_a_skill_is_in_the_prompt_of_its_agents_only(workspace, agent, foreign_workspace):
    other = create_agent(workspace_id=workspace.pk, fields={"name": "Other", "provider": "demo"})
    create_skill(workspace_id=workspace.pk, fields=DEPLOY | {"agents": [agent.pk]})
    create_skill(workspace_id=workspace.pk, fields=DEPLOY | {"name": "put-away", "enabled": False})

    assert "- deploy: How to deploy." in lines_of(agent)
    assert "put-away" not in lines_of(agent)
    assert "deploy" not in lines_of(other)
    foreign = create_agent(
        workspace_id=foreign_workspace.pk, fields={"name": "Foreign", "provider": "demo"}
    )
    assert "deploy" not in lines_of(foreign)


def test_a_workspace_without_skills_adds_nothing_to_the_prompt(workspace, agent):
    Skill.objects.all().delete()

    assert lines_of(agent) == ""


def test_a_run_key_can_read_skills_but_not_create_them(workspace):
    program = key_client(workspace, scope="run")

    assert program.get(SKILLS).status_code == 200
    assert program.post(SKILLS, DEPLOY, format="json").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_an_agent_can_load_a_skill_that_its_prompt_lists(workspace, owner, agent, api, monkeypatch):
    monkeypatch.setenv("DEMO_DELAY_SECONDS", "0")
    create_skill(workspace_id=workspace.pk, fields=DEPLOY)
    session, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
    principal = principal_of_user(owner, workspace.pk)

    say(session, principal, 'Use tool skill_load with {"name": "deploy"}')
    serve(session.pk)
    call = ToolExecution.objects.get()
    assert (call.state, call.read_only, call.output) == ("completed", True, DEPLOY["body"])
    newest = session.events.filter(type=SessionEvent.Type.AGENT_MESSAGE).latest("seq")
    assert "Ask Ann" in newest.payload["text"]

    say(session, principal, 'Use tool skill_load with {"name": "nothing"}')
    serve(session.pk)
    assert "Available skills: deploy, meeting-notes" in ToolExecution.objects.latest("id").error
    context = api.get(f"/api/v1/sessions/{session.pk}/context/").json()
    listed = next(part for part in context["parts"] if part["name"] == "skills")["content"]
    assert "- deploy: How to deploy." in listed


def test_the_page_creates_edits_and_deletes_skills(browser_client, workspace, agent):
    form = DEPLOY | {"agents": [str(agent.pk)], "enabled": "on"}
    page = browser_client.post("/settings/skills/new/", form, follow=True).text
    assert "deploy was created" in page
    skill = Skill.objects.get(name="deploy")
    assert skill.agents == [agent.pk]

    path = f"/settings/skills/{skill.pk}/"
    assert "Ask Ann" in browser_client.get(path).text
    refused = browser_client.post(path, form | {"name": "meeting-notes"})
    assert refused.status_code == 400
    assert "is already named" in refused.text
    browser_client.post(path, form | {"agents": [], "body": "New."})
    skill.refresh_from_db()
    assert (skill.agents, skill.body) == ([], "New.")
    browser_client.post(f"{path}delete/")
    assert not Skill.objects.filter(name="deploy").exists()


def test_viewers_see_the_list_and_no_buttons(client, workspace):
    client.force_login(add_member(workspace, "viewer"))

    page = client.get("/settings/skills/").text
    assert "meeting-notes" in page
    assert "New skill" not in page
    assert client.get("/settings/skills/new/").status_code == 403
