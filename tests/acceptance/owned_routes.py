"""Every route of the product, and whose things it opens.

A new route needs one line here, or `test_foreign_objects.py` fails:
- `OWNED`, when its path names an object: how to make one in a workspace;
- `IN_WORKSPACE`, when it lists or makes things of the acting workspace;
- `PUBLIC`, when anybody may come: why;
- `SOCKETS`, for a WebSocket: as in `OWNED`.
"""

from __future__ import annotations

from collections.abc import Callable

from django.apps import apps

from agents.models import AgentVersion
from memory.models import MemoryVersion
from sessions_app.models import ResourceAttachment, Run, Session
from tenants.models import Workspace
from tests.factories import make

Arguments = dict[str, object]
Make = Callable[[Workspace], Arguments]


def ids(**labels: str) -> Make:
    """Arguments of a route, each the id of a new row of the named model."""
    return lambda workspace: {
        name: make(apps.get_model(label), workspace).pk for name, label in labels.items()
    }


def version(workspace: Workspace) -> Arguments:
    made = AgentVersion.objects.get(pk=make(AgentVersion, workspace).pk)
    return {"agent_id": made.agent_id, "number": made.number}


def queued(workspace: Workspace) -> Arguments:
    session = make(Session, workspace)
    run = Run.objects.create(workspace=workspace, session_id=session.pk)
    return {"session_id": session.pk, "run_id": run.pk}


def resource(workspace: Workspace) -> Arguments:
    made = ResourceAttachment.objects.get(pk=make(ResourceAttachment, workspace).pk)
    return {"session_id": made.session_id, "resource_id": made.pk}


def memory_version(workspace: Workspace) -> Arguments:
    made = MemoryVersion.objects.get(pk=make(MemoryVersion, workspace).pk)
    return {"entry_id": made.entry_id, "number": made.number}


A_DOCUMENT = ids(entry_id="memory.MemoryEntry")
A_SESSION = ids(session_id="sessions_app.Session")

AN_AGENT = ids(agent_id="agents.Agent")
AN_ENVIRONMENT = ids(environment_id="agents.Environment")
POLICY_DOORS = ("policy/", "policy/history/", "policy/revert/")

OWNED: dict[str, Make] = {
    **{f"/api/v1/agents/<agent_id>/{door}": AN_AGENT for door in POLICY_DOORS},
    **{f"/api/v1/environments/<environment_id>/{door}": AN_ENVIRONMENT for door in POLICY_DOORS},
    **{f"/api/v1/sessions/<session_id>/{door}": A_SESSION for door in POLICY_DOORS},
    "/api/v1/agents/<agent_id>/policy/explain/": AN_AGENT,
    "/api/v1/sessions/<session_id>/policy/explain/": A_SESSION,
    "/api/v1/agents/<agent_id>/tools/": AN_AGENT,
    "/api/v1/tools/custom/<pk>/": ids(pk="tools_app.CustomTool"),
    "/api/v1/keys/<pk>/": ids(pk="tenants.ApiKey"),
    "/api/v1/members/<pk>/": ids(pk="tenants.Membership"),
    "/api/v1/invitations/<pk>/": ids(pk="tenants.Invitation"),
    "/settings/members/<membership_id>/role/": ids(membership_id="tenants.Membership"),
    "/settings/members/<membership_id>/remove/": ids(membership_id="tenants.Membership"),
    "/settings/invitations/<invitation_id>/withdraw/": ids(invitation_id="tenants.Invitation"),
    "/settings/keys/<key_id>/revoke/": ids(key_id="tenants.ApiKey"),
    "/api/v1/agents/<pk>/": ids(pk="agents.Agent"),
    "/api/v1/agents/<agent_id>/versions/": ids(agent_id="agents.Agent"),
    "/api/v1/agents/<agent_id>/versions/<number>/": version,
    "/api/v1/environments/<pk>/": ids(pk="agents.Environment"),
    "/api/v1/memory/<pk>/": ids(pk="memory.MemoryEntry"),
    "/api/v1/memory/<entry_id>/versions/": A_DOCUMENT,
    "/api/v1/memory/<entry_id>/versions/<number>/": memory_version,
    "/api/v1/memory/<entry_id>/versions/<number>/restore/": memory_version,
    "/api/v1/memory/<entry_id>/restore/": A_DOCUMENT,
    "/api/v1/memory/<entry_id>/redact/": A_DOCUMENT,
    "/api/v1/sessions/<pk>/": ids(pk="sessions_app.Session"),
    "/api/v1/sessions/<session_id>/events/": A_SESSION,
    "/api/v1/sessions/<session_id>/messages/": A_SESSION,
    "/api/v1/sessions/<session_id>/stream/": A_SESSION,
    "/api/v1/sessions/<session_id>/wake/": A_SESSION,
    "/api/v1/sessions/<session_id>/interrupt/": A_SESSION,
    "/api/v1/sessions/<session_id>/fork/": A_SESSION,
    "/api/v1/sessions/<session_id>/export/": A_SESSION,
    "/api/v1/sessions/<session_id>/context/": A_SESSION,
    "/api/v1/sessions/<session_id>/queue/": A_SESSION,
    "/api/v1/sessions/<session_id>/resources/": A_SESSION,
    "/chat/<session_id>/": A_SESSION,
    "/chat/<session_id>/stop/": A_SESSION,
    "/chat/<session_id>/answer/": A_SESSION,
    "/chat/<session_id>/retry/": A_SESSION,
    "/chat/<session_id>/withdraw/": A_SESSION,
    "/api/v1/sessions/<session_id>/queue/<run_id>/": queued,
    "/api/v1/sessions/<session_id>/resources/<resource_id>/": resource,
    "/api/v1/runs/<pk>/": ids(pk="sessions_app.Run"),
    "/api/v1/runs/<pk>/cancel/": ids(pk="sessions_app.Run"),
    "/api/v1/runs/<pk>/retry/": ids(pk="sessions_app.Run"),
    "/api/v1/tools/executions/<pk>/": ids(pk="sessions_app.ToolExecution"),
}

IN_WORKSPACE: dict[str, str] = {
    "/api/v1/keys/": "keys of the acting workspace",
    "/api/v1/members/": "members of the acting workspace",
    "/api/v1/invitations/": "invitations to the acting workspace",
    "/api/v1/workspace/": "the acting workspace itself",
    "/api/v1/workspace/policy/": "the acting workspace's ceiling",
    "/api/v1/workspace/policy/history/": "the acting workspace's ceiling",
    "/api/v1/workspace/policy/revert/": "the acting workspace's ceiling",
    "/api/v1/tools/": "tools that the acting workspace's agents may be given",
    "/api/v1/tools/custom/": "the acting workspace's own tools",
    "/api/v1/me/": "the caller",
    "/api/v1/agents/": "agents of the acting workspace",
    "/api/v1/environments/": "environments of the acting workspace",
    "/api/v1/memory/": "documents of the acting workspace",
    "/api/v1/memory/search/": "searches the acting workspace",
    "/api/v1/memory/export/": "the query names an agent, which must be of the acting workspace",
    "/api/v1/memory/import/": "the query names an agent, which must be of the acting workspace",
    "/api/v1/sessions/": "sessions of the acting workspace",
    "/api/v1/sessions/import/": "makes a session in the acting workspace",
    "/api/v1/runtime/": "the body names an agent, which must be of the acting workspace",
    "/api/v1/runs/": "runs of the acting workspace",
    "/api/v1/tools/executions/": "tool calls of the acting workspace",
    "/api/v1/models/": "the models that this installation knows",
    "/api/v1/providers/": "providers, with what the acting workspace has for them",
    "/api/v1/providers/<name>/": "the acting workspace's key; the path names a provider",
    "/api/v1/providers/<name>/test/": "the acting workspace's key; the path names a provider",
    "/": "the acting workspace's first page",
    "/chat/": "agents and sessions of the acting workspace",
    "/sessions/": "sessions of the acting workspace",
    "/password/": "the person's own password",
    "/workspaces/new/": "makes a workspace of the person's own",
    "/workspaces/switch/": "the form names a workspace, which must be one of the person's",
    "/settings/workspace/": "the acting workspace itself",
    "/settings/members/": "members of the acting workspace",
    "/settings/members/invite/": "invites to the acting workspace",
    "/settings/keys/": "keys of the acting workspace",
    "/settings/keys/new/": "issues a key of the acting workspace",
    "/settings/account/": "the person's own account",
    "/settings/providers/": "providers, with what the acting workspace has for them",
    "/settings/providers/<name>/": "the acting workspace's key; the path names a provider",
    "/settings/providers/<name>/test/": "the acting workspace's key; the path names a provider",
    "/settings/providers/<name>/remove/": "the acting workspace's key; the path names a provider",
}

PUBLIC: dict[str, str] = {
    "/admin/": "for staff; tests/test_admin.py looks at it",
    "/metrics": "for operators; tests/orchestrator/test_metrics.py looks at it",
    "/favicon.ico": "leads to a picture",
    "/api/schema/": "describes the API, holds nobody's data",
    "/api/docs/": "describes the API, holds nobody's data",
    "/api/v1/health/": "says how the stack is, holds nobody's data",
    "/sign-in/": "how one comes in",
    "/sign-in/<token>/": "how one comes in; the token is the secret",
    "/sign-out/": "ends the caller's own session",
    "/sign-up/": "how one begins",
    "/invitations/<token>/": "for whoever holds the link; the token is the secret",
    "/settings/": "leads to a page that asks who comes",
    "/password/reset/": "for people who cannot sign in",
    "/password/reset/sent/": "for people who cannot sign in",
    "/password/reset/<uidb64>/<token>/": "for people who cannot sign in; the token is the secret",
}

SOCKETS: dict[str, Make] = {
    "/ws/sessions/<session_id>/": A_SESSION,
}
