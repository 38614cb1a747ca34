"""The pages of MCP servers, of custom tools, which a client outside runs, and of skills."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from core.exceptions import NotFound
from core.validation import submit_form
from tenants.access import Verb, authorise
from tenants.authentication import principal_of
from tenants.models import OwnedModel
from tools_app import workspace_tools
from tools_app.mcp import servers
from tools_app.mcp.servers import refresh
from tools_app.models import CustomTool, McpServer, Skill
from tools_app.schemas import LARGEST
from tools_app.skills import LONGEST_BODY, SKILL_NAME_PATTERN, change_skill, create_skill

R = TypeVar("R", bound=OwnedModel)
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


def find_row(request: HttpRequest, model: type[R], pk: UUID, verb: Verb = "build") -> R:
    """Return a row of the person's workspace. Raise NotFound if there is none."""
    rows: Any = model._default_manager
    workspace_id = authorise(principal_of(request), verb)
    row: R | None = rows.for_workspace(workspace_id).filter(pk=pk).first()
    if row is None:
        raise NotFound
    return row


def submit_new(
    request: HttpRequest, form: forms.Form, create: Callable[..., R], verb: Verb = "build"
) -> R | None:
    """Create a row with the fields of the form, or return None: the form then shows why not."""
    principal = principal_of(request)
    workspace_id = authorise(principal, verb)
    return submit_form(
        form,
        lambda: create(
            workspace_id=workspace_id, fields=form.cleaned_data, created_by=principal.user
        ),
    )


def form_page(
    request: HttpRequest, template: str, form: forms.Form, **context: Any
) -> HttpResponse:
    status = 400 if form.errors else 200
    return render(request, template, {"form": form, **context}, status=status)


# ── MCP servers ──────────────────────────────────────────────────────────────

Status = McpServer.Status
REMEDIES = {
    Status.DOWN: "Check that it is running and reachable from here. Switchyard tries again, and its tools stay listed.",
    Status.REFUSED: "Check its headers, and the secrets that they name in the vault.",
    Status.FAILED: "Check its address. MCP servers often answer under /mcp.",
}
#: Not in the template, which would read the braces as its own.
EXAMPLE_HEADER = "Authorization: Bearer {{vault:TOKEN}}"


class ServerForm(forms.Form):
    name = forms.RegexField(
        servers.SERVER_NAME_PATTERN,
        label="Name",
        max_length=40,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Lowercase letters, digits, - and _. Its tools are called mcp:name:tool.",
        error_messages={
            "invalid": "Use lowercase letters, digits, - and _, and begin with a letter."
        },
    )
    url = forms.CharField(
        label="Address", required=False, max_length=500, widget=forms.URLInput(attrs=PLAIN)
    )
    headers = forms.CharField(
        label="Headers",
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 2}),
        help_text="One per line. Name a secret of the vault as {{vault:NAME}}.",
    )
    command = forms.CharField(
        label="Or a command",
        required=False,
        max_length=2_000,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="For a server over stdio, instead of an address. It runs in the sandbox.",
    )
    permission = forms.ChoiceField(
        label="Its tools",
        choices=[
            ("always_ask", "Ask a person before each call"),
            ("always_allow", "Run without asking, unless a policy says otherwise"),
        ],
    )
    timeout_seconds = forms.IntegerField(
        label="Time out after (seconds)", min_value=1, max_value=servers.LONGEST_SECONDS, initial=60
    )
    repeatable_tools = forms.CharField(
        label="May run twice after a crash",
        required=False,
        max_length=10_000,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Tools that are safe to repeat: names or globs, separated by spaces.",
    )

    def clean_headers(self) -> dict[str, str]:
        found = {}
        for line in self.cleaned_data["headers"].splitlines():
            if not line.strip():
                continue
            name, colon, value = line.partition(":")
            if not colon or not value.strip():
                raise forms.ValidationError(f"Write “Name: value”, not “{line.strip()[:60]}”.")
            found[name.strip()] = value.strip()
        return found

    def clean_repeatable_tools(self) -> list[str]:
        return list(self.cleaned_data["repeatable_tools"].split())

    def clean(self) -> dict[str, Any]:
        transport = "stdio" if self.cleaned_data.get("command") else "http"
        return {**self.cleaned_data, "transport": transport}


def server_panel(server: McpServer) -> dict[str, Any]:
    """Return a server as the page shows it."""
    if not server.enabled:
        return {"server": server, "state": "Switched off"}
    status = Status(server.status)
    lamps = {Status.NEW: "", Status.OK: "is-done"}
    return {
        "server": server,
        "state": status.label,
        "lamp": lamps.get(status, "is-failed"),
        "remedy": REMEDIES.get(status, ""),
    }


@require_safe
def mcp_servers(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    rows = McpServer.objects.for_workspace(authorise(principal, "read"))
    context = {
        "panels": [server_panel(row) for row in rows],
        "may_admin": principal.may("admin"),
        "may_build": principal.may("build"),
        "form": ServerForm(),
        "example_header": EXAMPLE_HEADER,
    }
    return render(request, "pages/mcp/servers.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def server_new(request: HttpRequest) -> HttpResponse:
    """Add a server, then ask it for its tools."""
    form = ServerForm(request.POST or None)
    made = submit_new(request, form, servers.add_server, "admin")
    if made is None:
        return form_page(request, "pages/mcp/new.html", form, example_header=EXAMPLE_HEADER)
    add_result_message(request, refresh(made), "was added")
    return redirect("mcp")


@require_http_methods(["GET", "HEAD", "POST"])
def server_edit(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = find_row(request, McpServer, server_id, "admin")
    current = {
        **{name: getattr(server, name) for name in ServerForm.base_fields},
        "headers": "\n".join(f"{name}: {value}" for name, value in server.headers.items()),
        "repeatable_tools": " ".join(server.repeatable_tools),
    }
    form = ServerForm(request.POST or None, initial=current)
    changed = submit_form(form, lambda: servers.change_server(server, form.cleaned_data))
    if changed is None:
        context = {"server": server, "example_header": EXAMPLE_HEADER}
        return form_page(request, "pages/mcp/edit.html", form, **context)
    add_result_message(request, refresh(changed), "was saved")
    return redirect("mcp")


@require_POST
def server_refresh(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = find_row(request, McpServer, server_id)
    add_result_message(request, refresh(server), "was refreshed")
    return redirect("mcp")


@require_POST
def server_switch(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = find_row(request, McpServer, server_id, "admin")
    changed = servers.change_server(server, {"enabled": request.POST.get("on") == "1"})
    state = "on" if changed.enabled else "off. Agents can no longer use its tools"
    messages.success(request, f"{server.name} was switched {state}.")
    return redirect("mcp")


@require_POST
def server_delete(request: HttpRequest, server_id: UUID) -> HttpResponse:
    server = find_row(request, McpServer, server_id, "admin")
    server.delete()
    messages.success(request, f"{server.name} and its tools were deleted.")
    return redirect("mcp")


def add_result_message(request: HttpRequest, server: McpServer, done: str) -> None:
    """Tell what was done, and how the server answered."""
    if server.status == Status.OK:
        count = len(server.tools)
        tools = f"{count} tool{'' if count == 1 else 's'}"
        messages.success(request, f"{server.name} {done} and offers {tools}.")
    else:
        messages.error(request, f"{server.name} {done}, but it does not work: {server.error}")


# ── Custom tools ─────────────────────────────────────────────────────────────

EXAMPLE_SCHEMA = """{
  "type": "object",
  "properties": {
    "order": {"type": "string", "description": "The number of the order."}
  },
  "required": ["order"]
}"""


class CustomToolForm(forms.Form):
    name = forms.RegexField(
        workspace_tools.TOOL_NAME_PATTERN,
        label="Name",
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Lowercase letters, digits and _, as in look_up_order.",
        error_messages={"invalid": "Use lowercase letters, digits and _, and begin with a letter."},
    )
    description = forms.CharField(
        label="Description",
        max_length=4_000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What the tool does and when to use it. The model reads this.",
    )
    input_schema = forms.CharField(
        label="Arguments",
        initial=EXAMPLE_SCHEMA,
        max_length=LARGEST * 2,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 10}),
        help_text="A JSON Schema of an object. Calls that do not fit it never reach your program.",
    )
    permission = forms.ChoiceField(
        label="When an agent calls it",
        choices=[
            ("always_ask", "Ask a person before each call"),
            ("always_allow", "Send it without asking, unless a policy says otherwise"),
        ],
    )
    timeout_seconds = forms.IntegerField(
        label="Wait for the result (seconds)",
        min_value=1,
        max_value=workspace_tools.LONGEST_WAIT,
        initial=300,
    )

    def clean_input_schema(self) -> dict[str, Any]:
        try:
            schema = json.loads(self.cleaned_data["input_schema"])
        except json.JSONDecodeError as error:
            raise forms.ValidationError(
                f"This is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
            ) from None
        except RecursionError:
            raise forms.ValidationError("The schema is nested too deeply.") from None
        if not isinstance(schema, dict):
            raise forms.ValidationError('A schema is an object: {"type": "object", …}.')
        return schema


@require_safe
def custom_tools(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    rows = CustomTool.objects.for_workspace(authorise(principal, "read"))
    context = {"tools": rows, "may_build": principal.may("build")}
    return render(request, "pages/custom_tools/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def custom_tool_new(request: HttpRequest) -> HttpResponse:
    form = CustomToolForm(request.POST or None)
    made = submit_new(request, form, workspace_tools.create_custom_tool)
    if made is None:
        return form_page(request, "pages/custom_tools/edit.html", form)
    messages.success(request, f"{made.name} was created. Agents can use it from their next run.")
    return redirect("custom_tools")


@require_http_methods(["GET", "HEAD", "POST"])
def custom_tool_edit(request: HttpRequest, tool_id: UUID) -> HttpResponse:
    tool = find_row(request, CustomTool, tool_id)
    current = {name: getattr(tool, name) for name in CustomToolForm.base_fields}
    current["input_schema"] = json.dumps(tool.input_schema, indent=2, ensure_ascii=False)
    form = CustomToolForm(request.POST or None, initial=current)
    if not submit_form(
        form, lambda: workspace_tools.change_custom_tool(tool, form.cleaned_data, replace=True)
    ):
        return form_page(request, "pages/custom_tools/edit.html", form, tool=tool)
    messages.success(request, f"{tool.name} was saved. Pending calls keep waiting.")
    return redirect("custom_tools")


@require_POST
def custom_tool_delete(request: HttpRequest, tool_id: UUID) -> HttpResponse:
    tool = find_row(request, CustomTool, tool_id)
    tool.delete()
    messages.success(request, f"{tool.name} was deleted. Pending calls can still be answered.")
    return redirect("custom_tools")


# ── Skills ───────────────────────────────────────────────────────────────────


class SkillForm(forms.Form):
    name = forms.RegexField(
        SKILL_NAME_PATTERN,
        label="Name",
        max_length=60,
        help_text="Lowercase letters, digits and -, as in meeting-notes.",
        error_messages={"invalid": "Use lowercase letters, digits and -, and begin with a letter."},
        widget=forms.TextInput(attrs=PLAIN),
    )
    description = forms.CharField(
        label="Description",
        max_length=300,
        help_text="One line that says when to use it. Agents see it in every prompt.",
    )
    body = forms.CharField(
        label="Text",
        max_length=LONGEST_BODY,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "spellcheck": "true"}),
        help_text="Markdown. Agents load it when they need it.",
    )
    agents = forms.MultipleChoiceField(
        label="For agents",
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "checkbox checkbox-sm"}),
        help_text="Select none to give it to every agent of the workspace.",
    )
    enabled = forms.BooleanField(label="Available to agents", required=False, initial=True)

    def __init__(self, workspace_id: UUID, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        # An archived agent stays a choice where it is selected; saving would deselect it otherwise.
        shown = Q(archived_at=None) | Q(pk__in=self.initial.get("agents", []))
        rows = Agent.objects.for_workspace(workspace_id).known().filter(shown)
        named = rows.order_by("current__name").values_list("pk", "current__name")
        self.fields["agents"].choices = [  # type: ignore[attr-defined]
            (str(pk), name or f"agent {pk}") for pk, name in named
        ]


@require_safe
def skills(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    rows = Skill.objects.for_workspace(authorise(principal, "read")).defer("body")
    context = {"skills": list(rows), "may_build": principal.may("build")}
    return render(request, "pages/skills/skills.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def skill_new(request: HttpRequest) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "build")
    form = SkillForm(workspace_id, request.POST or None)
    made = submit_new(request, form, create_skill)
    if made is None:
        return form_page(request, "pages/skills/edit.html", form)
    messages.success(request, f"{made.name} was created. Agents can load it from now on.")
    return redirect("skills")


@require_http_methods(["GET", "HEAD", "POST"])
def skill_edit(request: HttpRequest, skill_id: UUID) -> HttpResponse:
    skill = find_row(request, Skill, skill_id)
    current: dict[str, Any] = {name: getattr(skill, name) for name in SkillForm.base_fields}
    current["agents"] = [str(one) for one in skill.agents]
    form = SkillForm(skill.workspace_id, request.POST or None, initial=current)
    changed = submit_form(form, lambda: change_skill(skill, form.cleaned_data))
    if changed is None:
        return form_page(request, "pages/skills/edit.html", form, skill=skill)
    messages.success(request, f"{changed.name} was saved.")
    return redirect("skills")


@require_POST
def skill_delete(request: HttpRequest, skill_id: UUID) -> HttpResponse:
    skill = find_row(request, Skill, skill_id)
    skill.delete()
    messages.success(request, f"{skill.name} was deleted.")
    return redirect("skills")
