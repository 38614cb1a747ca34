"""Every route of the product, and whose things it opens.

A new route needs one line here, or `test_foreign_objects.py` fails:
- `OWNED`, when its path names an object: how to make one in a workspace;
- `IN_WORKSPACE`, when it lists or makes things of the acting workspace;
- `PUBLIC`, when anybody may come: why;
- `SOCKETS`, for a WebSocket: as in `OWNED`; `SOCKETS_IN_WORKSPACE`, as in `IN_WORKSPACE`.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from django.apps import apps

from agents.models import AgentVersion, CanvasRevision, DraftChange
from memory.models import MemoryVersion
from orchestrator.models import Step, Workflow
from orchestrator.taskagent.artifacts import COLLECT, collect
from orchestrator.taskagent.place import TaskPlace
from sessions_app.models import ContextSnapshot, ResourceAttachment, Run, SavedView, Session
from sessions_app.uploads import store_file
from tenants.models import WebhookDelivery, Workspace
from tests.factories import make
from tools_app.files import write_file
from tools_app.folder import SessionFolder

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


def canvas_revision(workspace: Workspace) -> Arguments:
    made = CanvasRevision.objects.get(pk=make(CanvasRevision, workspace).pk)
    return {"agent_id": made.agent_id, "number": made.number}


def draft_change(workspace: Workspace) -> Arguments:
    made = DraftChange.objects.get(pk=make(DraftChange, workspace).pk)
    return {"agent_id": made.agent_id, "change_id": made.pk}


def queued(workspace: Workspace) -> Arguments:
    session = make(Session, workspace)
    run = Run.objects.create(workspace=workspace, session_id=session.pk)
    return {"session_id": session.pk, "run_id": run.pk}


def resource(workspace: Workspace) -> Arguments:
    made = ResourceAttachment.objects.get(pk=make(ResourceAttachment, workspace).pk)
    return {"session_id": made.session_id, "resource_id": made.pk}


def a_file(workspace: Workspace) -> Arguments:
    session = Session.objects.get(pk=make(Session, workspace).pk)
    store_file(session, "notes.md", [b"ours"])
    return {"session_id": session.pk, "path": "notes.md"}


def an_artifact(workspace: Workspace) -> Arguments:
    workflow = Workflow.objects.get(pk=make(Workflow, workspace).pk)
    folder = SessionFolder(workspace_id=workspace.pk, session_id=workflow.pk)
    write_file(folder, "report.txt", b"ours")
    here = TaskPlace(workspace_id=workspace.pk, workflow_id=workflow.pk, token="t")
    Step.objects.create(
        workflow=workflow,
        position=99,
        name=COLLECT,
        status=Step.Status.COMPLETE,
        result=json.dumps(collect(here, {})),
    )
    return {"pk": workflow.pk, "path": "report.txt"}


def snapshot(workspace: Workspace) -> Arguments:
    made = ContextSnapshot.objects.get(pk=make(ContextSnapshot, workspace).pk)
    return {"session_id": made.session_id, "snapshot_id": made.pk}


def memory_version(workspace: Workspace) -> Arguments:
    made = MemoryVersion.objects.get(pk=make(MemoryVersion, workspace).pk)
    return {"entry_id": made.entry_id, "number": made.number}


def webhook_delivery(workspace: Workspace) -> Arguments:
    made = WebhookDelivery.objects.get(pk=make(WebhookDelivery, workspace).pk)
    return {"webhook_id": made.webhook_id, "pk": made.pk}


def shared_view(workspace: Workspace) -> Arguments:
    made = make(SavedView, workspace)
    SavedView.objects.filter(pk=made.pk).update(is_shared=True)
    return {"view_id": made.pk}


def own_workspace(workspace: Workspace) -> Arguments:
    return {"workspace_id": workspace.pk}


AN_ITEM = ids(item_id="tenants.InboxItem")
A_WEBHOOK = ids(webhook_id="tenants.Webhook")
A_DOCUMENT = ids(entry_id="memory.MemoryEntry")
A_SESSION = ids(session_id="sessions_app.Session")

AN_APPROVAL = ids(pk="sessions_app.Approval")
A_WORKFLOW = ids(pk="orchestrator.Workflow")
A_TERMINAL = ids(terminal_id="orchestrator.Terminal")
WORKFLOW_DOORS = (
    "",
    "events/",
    "stream/",
    "approve/",
    "reject/",
    "pause/",
    "resume/",
    "terminate/",
    "restart/",
)
AN_AGENT = ids(agent_id="agents.Agent")
AN_ENVIRONMENT = ids(environment_id="agents.Environment")
CHAT_DOORS = ("", "stop/", "answer/", "retry/", "withdraw/")
SESSION_API = ("wake/", "interrupt/", "fork/", "export/", "context/", "tree/")
A_SERVER = ids(server_id="tools_app.McpServer")
MCP_DOORS = ("", "refresh/", "switch/", "delete/")
WEBHOOK_DOORS = ("", "switch/", "ping/", "rotate/", "remove/")
A_SCHEDULE = ids(schedule_id="sessions_app.Schedule")
SCHEDULE_DOORS = ("", "pause/", "resume/", "run/", "delete/")
DOCUMENT_DOORS = ("", "mark/", "delete/", "restore/", "redact/")
DRAFT_DOORS = ("", "publish/", "preview/", "changes/")
BUILD_DOORS = ("", "side/", "save/", "undo/", "publish/", "discard/", "preview/")
POLICY_PLACES = {
    "agent": "agents.Agent",
    "environment": "agents.Environment",
    "session": "sessions_app.Session",
}
SESSION_TABS = ("", "timeline/", "context/", "tree/", "files/", "events/", "replay/")
SESSION_DOORS = (*SESSION_TABS, "fork/", "preview/", "children/")
POLICY_DOORS = ("policy/", "policy/history/", "policy/revert/")

OWNED: dict[str, Make] = {
    **{
        f"/policies/{layer}/<subject_id>/{door}": ids(subject_id=label)
        for layer, label in POLICY_PLACES.items()
        for door in ("", "preview/")
    },
    **{f"/memory/<entry_id>/{door}": A_DOCUMENT for door in DOCUMENT_DOORS},
    **{f"/api/v1/agents/<agent_id>/{door}": AN_AGENT for door in POLICY_DOORS},
    **{f"/api/v1/environments/<environment_id>/{door}": AN_ENVIRONMENT for door in POLICY_DOORS},
    **{f"/api/v1/sessions/<session_id>/{door}": A_SESSION for door in POLICY_DOORS},
    **{f"/api/v1/workflows/<pk>/{door}": A_WORKFLOW for door in WORKFLOW_DOORS},
    "/api/v1/terminals/<pk>/": ids(pk="orchestrator.Terminal"),
    "/api/v1/terminals/<pk>/share/": ids(pk="orchestrator.Terminal"),
    "/terminals/<terminal_id>/": A_TERMINAL,
    "/terminals/<terminal_id>/close/": A_TERMINAL,
    "/api/v1/workflows/<pk>/artifacts/": A_WORKFLOW,
    "/api/v1/workflows/<pk>/artifacts/<path>": an_artifact,
    "/api/v1/agents/<agent_id>/policy/explain/": AN_AGENT,
    **{
        f"/api/v1/triggers/<pk>/{door}": ids(pk="orchestrator.WorkflowTrigger")
        for door in ("", "pause/", "resume/", "rotate/", "firings/")
    },
    **{
        f"/workflows/triggers/<trigger_id>/{door}": ids(trigger_id="orchestrator.WorkflowTrigger")
        for door in ("pause/", "resume/", "rotate/", "remove/")
    },
    "/api/v1/agents/<agent_id>/canvas/run/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/runs/": AN_AGENT,
    "/api/v1/sessions/<session_id>/policy/explain/": A_SESSION,
    "/api/v1/agents/<agent_id>/tools/": AN_AGENT,
    "/api/v1/tools/custom/<pk>/": ids(pk="tools_app.CustomTool"),
    "/api/v1/tools/mcp-servers/<pk>/": ids(pk="tools_app.McpServer"),
    "/api/v1/tools/mcp-servers/<pk>/refresh/": ids(pk="tools_app.McpServer"),
    "/api/v1/tools/mcp-servers/<pk>/test/": ids(pk="tools_app.McpServer"),
    "/settings/skills/<skill_id>/": ids(skill_id="tools_app.Skill"),
    "/settings/skills/<skill_id>/delete/": ids(skill_id="tools_app.Skill"),
    "/api/v1/skills/<pk>/": ids(pk="tools_app.Skill"),
    "/api/v1/vault/<pk>/": ids(pk="tenants.Secret"),
    "/settings/vault/<secret_id>/replace/": ids(secret_id="tenants.Secret"),
    "/settings/vault/<secret_id>/delete/": ids(secret_id="tenants.Secret"),
    "/api/v1/inbox/<pk>/": ids(pk="tenants.InboxItem"),
    "/api/v1/webhooks/<pk>/": ids(pk="tenants.Webhook"),
    "/api/v1/webhooks/<pk>/ping/": ids(pk="tenants.Webhook"),
    "/api/v1/webhooks/<pk>/rotate/": ids(pk="tenants.Webhook"),
    "/api/v1/webhooks/<webhook_id>/deliveries/": A_WEBHOOK,
    "/api/v1/webhooks/<webhook_id>/deliveries/<pk>/": webhook_delivery,
    "/api/v1/webhooks/<webhook_id>/deliveries/<pk>/replay/": webhook_delivery,
    "/inbox/<item_id>/": AN_ITEM,
    "/inbox/<item_id>/unread/": AN_ITEM,
    "/settings/webhooks/deliveries/<delivery_id>/replay/": ids(
        delivery_id="tenants.WebhookDelivery"
    ),
    "/api/v1/keys/<pk>/": ids(pk="tenants.ApiKey"),
    **{f"/chat/<session_id>/{door}": A_SESSION for door in CHAT_DOORS},
    **{f"/api/v1/sessions/<session_id>/{door}": A_SESSION for door in SESSION_API},
    **{f"/settings/mcp/<server_id>/{door}": A_SERVER for door in MCP_DOORS},
    **{f"/settings/webhooks/<webhook_id>/{door}": A_WEBHOOK for door in WEBHOOK_DOORS},
    **{
        f"/api/v1/schedules/<pk>/{door}": ids(pk="sessions_app.Schedule")
        for door in ("", "pause/", "resume/", "run/", "firings/")
    },
    **{f"/schedules/<schedule_id>/{door}": A_SCHEDULE for door in SCHEDULE_DOORS},
    "/settings/budgets/<budget_id>/": ids(budget_id="tenants.Purse"),
    "/settings/budgets/<budget_id>/remove/": ids(budget_id="tenants.Purse"),
    "/settings/budgets/prices/<price_id>/remove/": ids(price_id="tenants.Price"),
    "/settings/environments/<environment_id>/": AN_ENVIRONMENT,
    "/settings/environments/<environment_id>/delete/": AN_ENVIRONMENT,
    "/settings/tools/<tool_id>/": ids(tool_id="tools_app.CustomTool"),
    "/settings/tools/<tool_id>/delete/": ids(tool_id="tools_app.CustomTool"),
    "/api/v1/budgets/<pk>/": ids(pk="tenants.Purse"),
    "/api/v1/credits/entries/<pk>/": ids(pk="tenants.CreditEntry"),
    "/api/v1/prices/<pk>/": ids(pk="tenants.Price"),
    "/api/v1/members/<pk>/": ids(pk="tenants.Membership"),
    "/api/v1/invitations/<pk>/": ids(pk="tenants.Invitation"),
    "/settings/members/<membership_id>/role/": ids(membership_id="tenants.Membership"),
    "/settings/members/<membership_id>/remove/": ids(membership_id="tenants.Membership"),
    "/settings/invitations/<invitation_id>/withdraw/": ids(invitation_id="tenants.Invitation"),
    "/settings/keys/<key_id>/revoke/": ids(key_id="tenants.ApiKey"),
    "/api/v1/agents/<pk>/": ids(pk="agents.Agent"),
    "/api/v1/agents/<agent_id>/versions/": ids(agent_id="agents.Agent"),
    "/api/v1/agents/<agent_id>/versions/<number>/": version,
    "/api/v1/agents/<agent_id>/canvas/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/publish/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/revisions/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/revisions/<number>/": canvas_revision,
    **{f"/api/v1/agents/<agent_id>/draft/{door}": AN_AGENT for door in DRAFT_DOORS},
    "/api/v1/agents/<agent_id>/draft/changes/<change_id>/undo/": draft_change,
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
    "/api/v1/sessions/<session_id>/tree/": A_SESSION,
    "/api/v1/sessions/<session_id>/compact/": A_SESSION,
    "/chat/<session_id>/context/": A_SESSION,
    "/chat/<session_id>/compact/": A_SESSION,
    "/chat/<session_id>/undo/": A_SESSION,
    "/api/v1/sessions/<session_id>/snapshots/": A_SESSION,
    "/api/v1/sessions/<session_id>/snapshots/<snapshot_id>/undo/": snapshot,
    "/api/v1/sessions/<session_id>/queue/": A_SESSION,
    "/api/v1/sessions/<session_id>/resources/": A_SESSION,
    "/api/v1/sessions/<session_id>/files/": A_SESSION,
    "/api/v1/sessions/<session_id>/files/<path>": a_file,
    "/workflows/<workflow_id>/": ids(workflow_id="orchestrator.Workflow"),
    "/workflows/<workflow_id>/<act>/": lambda workspace: {
        **ids(workflow_id="orchestrator.Workflow")(workspace),
        "act": "pause",
    },
    "/sessions/views/<view_id>/delete/": shared_view,
    **{f"/sessions/<session_id>/{door}": A_SESSION for door in SESSION_DOORS},
    **{f"/agents/<agent_id>/build/{door}": AN_AGENT for door in BUILD_DOORS},
    "/chat/<session_id>/": A_SESSION,
    "/chat/<session_id>/stop/": A_SESSION,
    "/chat/<session_id>/answer/": A_SESSION,
    "/chat/<session_id>/retry/": A_SESSION,
    "/chat/<session_id>/withdraw/": A_SESSION,
    "/api/v1/sessions/<session_id>/queue/<run_id>/": queued,
    "/api/v1/sessions/<session_id>/resources/<resource_id>/": resource,
    "/api/v1/sessions/<session_id>/resources/<resource_id>/refresh/": resource,
    "/api/v1/runs/<pk>/": ids(pk="sessions_app.Run"),
    "/api/v1/runs/<pk>/cancel/": ids(pk="sessions_app.Run"),
    "/api/v1/runs/<pk>/retry/": ids(pk="sessions_app.Run"),
    "/api/v1/tools/executions/<pk>/": ids(pk="sessions_app.ToolExecution"),
    "/api/v1/tools/executions/<pk>/retry/": ids(pk="sessions_app.ToolExecution"),
    "/api/v1/tools/executions/<pk>/verify/": ids(pk="sessions_app.ToolExecution"),
    "/api/v1/approvals/<pk>/": AN_APPROVAL,
    "/approvals/<approval_id>/answer/": ids(approval_id="sessions_app.Approval"),
}

IN_WORKSPACE: dict[str, str] = {
    "/api/v1/keys/": "keys of the acting workspace",
    "/api/v1/schedules/": "schedules of the acting workspace",
    "/api/v1/budgets/": "budgets of the acting workspace",
    "/api/v1/credits/": "credits of the acting workspace",
    "/api/v1/credits/entries/": "the ledger of the acting workspace",
    "/api/v1/prices/": "prices of the acting workspace",
    "/api/v1/analytics/tools/": "how tools fare in the acting workspace",
    "/api/v1/usage/": "usage of the acting workspace",
    "/api/v1/tools/mcp-servers/": "MCP servers of the acting workspace",
    "/settings/mcp/": "MCP servers of the acting workspace",
    "/settings/mcp/new/": "adds a server to the acting workspace",
    "/settings/skills/": "skills of the acting workspace",
    "/settings/skills/new/": "writes a skill of the acting workspace",
    "/api/v1/skills/": "skills of the acting workspace",
    "/api/v1/vault/": "secrets of the acting workspace",
    "/settings/vault/": "secrets of the acting workspace",
    "/settings/vault/new/": "keeps a secret of the acting workspace",
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
    "/api/v1/builder/": "the body names an agent, which must be of the acting workspace",
    "/api/v1/runs/": "runs of the acting workspace",
    "/api/v1/tools/executions/": "tool calls of the acting workspace",
    "/api/v1/approvals/": "approvals of the acting workspace",
    "/approvals/": "approvals of the acting workspace",
    "/api/v1/triggers/": "triggers of the acting workspace",
    "/workflows/triggers/new/": "makes a trigger in the acting workspace",
    "/api/orchestrator/session": "makes a session in the acting workspace",
    "/api/orchestrator/session/": "makes a session in the acting workspace",
    "/api/v1/workflows/": "workflows of the acting workspace",
    "/api/v1/workflows/definitions/": "the workflows that this installation knows",
    "/api/v1/terminals/": "terminals of the acting workspace",
    "/terminals/open/": "the form names a session, which must be of the acting workspace",
    "/settings/terminals/": "terminals of the acting workspace",
    "/api/v1/models/": "the models that this installation knows",
    "/api/v1/providers/": "providers, with what the acting workspace has for them",
    "/api/v1/providers/<name>/": "the acting workspace's key; the path names a provider",
    "/api/v1/providers/<name>/test/": "the acting workspace's key; the path names a provider",
    "/api/v1/inbox/": "what the caller was told in the acting workspace",
    "/api/v1/inbox/read-all/": "what the caller was told in the acting workspace",
    "/api/v1/webhooks/": "webhooks of the acting workspace",
    "/inbox/": "what the person was told in the acting workspace",
    "/inbox/read-all/": "what the person was told in the acting workspace",
    "/settings/webhooks/": "webhooks of the acting workspace",
    "/settings/webhooks/new/": "adds a webhook to the acting workspace",
    "/settings/workspace/mail/": "the acting workspace itself",
    "/": "the acting workspace's first page",
    "/agents/": "agents of the acting workspace",
    "/agents/new/": "makes an agent of the acting workspace",
    "/chat/": "agents and sessions of the acting workspace",
    "/usage/": "usage of the acting workspace",
    "/schedules/": "schedules of the acting workspace",
    "/schedules/new/": "the form names an agent or a session, which must be of the acting workspace",
    "/schedules/preview/": "says when a schedule would be due, holds nobody's data",
    "/settings/budgets/": "credits and budgets of the acting workspace",
    "/settings/budgets/ledger/": "the ledger of the acting workspace",
    "/settings/budgets/credits/": "credits of the acting workspace",
    "/settings/budgets/set/": "the form names an owner, who must be of the acting workspace",
    "/settings/budgets/prices/": "prices of the acting workspace",
    "/settings/environments/": "environments of the acting workspace",
    "/settings/environments/new/": "makes an environment in the acting workspace",
    "/settings/environments/check/": "tries this machine, holds nobody's data",
    "/settings/tools/": "the acting workspace's own tools",
    "/settings/tools/new/": "defines a tool of the acting workspace",
    "/sessions/views/": "names a list of the acting workspace",
    "/sessions/": "sessions of the acting workspace",
    "/memory/": "documents of the acting workspace",
    "/memory/new/": "makes a document in the acting workspace",
    "/memory/export/": "the query names an owner, who must be of the acting workspace",
    "/memory/import/": "the form names an owner, who must be of the acting workspace",
    "/policies/": "the acting workspace's ceiling",
    "/policies/preview/": "the acting workspace's ceiling",
    "/workflows/": "workflows of the acting workspace",
    "/workflows/new/": "starts a workflow in the acting workspace",
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
    "/api/orchestrator": "says how the stack is; tasks start in the acting workspace",
    "/api/orchestrator/": "says how the stack is; tasks start in the acting workspace",
    "/api/v1/health/": "says how the stack is, holds nobody's data",
    "/hooks/<token>/": "other systems call it; tests/orchestrator/test_hooks.py looks at it",
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
    "/ws/inbox/<workspace_id>/": own_workspace,
    "/ws/sessions/<session_id>/": A_SESSION,
    "/ws/agents/<agent_id>/canvas/": AN_AGENT,
    "/ws/terminals/<terminal_id>/": A_TERMINAL,
    "/ws/workflows/<workflow_id>/": ids(workflow_id="orchestrator.Workflow"),
}
#: Sockets that name no object: what each shows of the acting workspace.
SOCKETS_IN_WORKSPACE: dict[str, str] = {
    "/ws/approvals/": "approvals of the acting workspace",
}
