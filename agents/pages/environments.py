"""Pages of environments: where commands run, what they may reach and use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents import environments as service
from agents.limits import SandboxLimits
from agents.models import Environment
from agents.models.environment import DEFAULT_NAME
from agents.mounts import PLACES
from core.exceptions import Conflict
from core.validation import submit_form
from tenants.access import authorise
from tenants.authentication import authorised, principal_of
from tools_app.sandbox.provisioning import Ability, abilities

PLAIN = {"autocomplete": "off", "spellcheck": "false"}
KINDS = [(name, title, about) for name, (title, about) in service.KINDS.items()]
NETWORKS = [
    ("none", "None", "Commands have no network."),
    ("allowlist", "Allowed hosts", "Only the hosts below, through a proxy."),
    ("full", "Every public host", "Through a proxy; never this machine or a private network."),
]
#: Empty rows to fill in, after the existing ones.
BLANK_MOUNTS = 2
MOUNT_FIELDS = ("kind", "source_ref", "mount_path", "access")
LIMITS = tuple(SandboxLimits.model_fields)


def limit(name: str, label: str) -> forms.IntegerField:
    known = SandboxLimits.model_fields[name]
    bounds = {type(one).__name__: one for one in known.metadata}
    return forms.IntegerField(
        label=label,
        initial=known.default,
        min_value=bounds["Ge"].ge,
        max_value=bounds["Le"].le,
    )


class EnvironmentForm(forms.Form):
    KINDS, NETWORKS = KINDS, NETWORKS

    name = forms.CharField(label="Name", max_length=80, widget=forms.TextInput(attrs=PLAIN))
    kind = forms.ChoiceField(choices=[(value, title) for value, title, _ in KINDS])
    image = forms.CharField(
        label="Image",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Leave empty for the default image.",
    )
    network = forms.ChoiceField(choices=[(value, title) for value, title, _ in NETWORKS])
    allowed_hosts = forms.CharField(
        label="Hosts",
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 3}),
        help_text="One per line. *.example.com allows all subdomains.",
    )
    cpu_seconds = limit("cpu_seconds", "CPU time (seconds)")
    memory_mb = limit("memory_mb", "Memory (MiB)")
    pids = limit("pids", "Processes")
    wall_seconds = limit("wall_seconds", "Elapsed time (seconds)")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.initial.get("name") == DEFAULT_NAME:
            self.fields["name"].widget.attrs["readonly"] = ""
            self.fields["name"].help_text = "The default environment cannot be renamed."

    def clean_allowed_hosts(self) -> list[str]:
        return self.cleaned_data["allowed_hosts"].split()

    def mounts(self) -> list[dict[str, str]]:
        """Return the rows as sent, or else as stored, plus some to fill in."""
        if self.is_bound and hasattr(self.data, "getlist"):
            columns = [self.data.getlist(f"mount_{name}") for name in MOUNT_FIELDS]
            rows = [
                dict(zip(MOUNT_FIELDS, row, strict=False)) for row in zip(*columns, strict=False)
            ]
        else:
            rows = [dict(row) for row in self.initial.get("mounts", [])]
        kept = [row for row in rows if row.get("source_ref") or row.get("mount_path")]
        return [*kept, *({"access": "read_only"} for _ in range(BLANK_MOUNTS))]

    def kinds_of_mounts(self) -> list[tuple[str, str]]:
        return [(kind, mount_label(kind)) for kind in PLACES]

    def fields_of_environment(self) -> dict[str, Any]:
        given = dict(self.cleaned_data)
        given["limits"] = {name: given.pop(name) for name in LIMITS}
        return {**given, "mounts": [row for row in self.mounts() if row.get("mount_path")]}


def mount_label(kind: str) -> str:
    """Return the label of a kind of mount."""
    return kind.replace("_", " ").capitalize()


def initial_of(environment: Environment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "kind": environment.kind,
        "image": environment.image,
        "network": environment.network,
        "allowed_hosts": "\n".join(environment.allowed_hosts),
        "mounts": environment.mounts,
        **{name: environment.limits.get(name) or default(name) for name in LIMITS},
    }


def default(name: str) -> int:
    return SandboxLimits.model_fields[name].default


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One environment as the list shows it."""

    environment: Environment

    @property
    def is_default(self) -> bool:
        return self.environment.name == DEFAULT_NAME

    @property
    def reaches(self) -> str:
        hosts = self.environment.allowed_hosts
        if self.environment.network == "allowlist":
            more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
            return f"reaches {', '.join(hosts[:3])}{more}"
        return "reaches every public host" if self.environment.network == "full" else "no network"

    @property
    def bounds(self) -> str:
        kept = self.environment.limits
        found = {name: kept.get(name) or default(name) for name in LIMITS}
        return (
            f"{found['wall_seconds']} s elapsed · {found['cpu_seconds']} s of CPU · "
            f"{found['memory_mb']} MiB · {found['pids']} processes"
        )

    @property
    def mounts(self) -> list[tuple[str, str]]:
        """Return the path and a description of each mount."""
        described = []
        for mount in self.environment.mounts:
            access = "read and write" if mount.get("access") == "read_write" else "read only"
            parts = (mount_label(mount["kind"]), mount.get("source_ref", ""), access)
            described.append((mount["mount_path"], " · ".join(filter(None, parts))))
        return described


@require_safe
def environments(request: HttpRequest) -> HttpResponse:
    return page(request)


def page(request: HttpRequest, tried: list[Ability] | None = None) -> HttpResponse:
    principal, workspace_id = authorised(request, "read")
    rows = Environment.objects.for_workspace(workspace_id)
    context = {
        "panels": [Panel(environment=one) for one in rows],
        "may_build": principal.may("build"),
        "tried": tried,
    }
    return render(request, "pages/environments/list.html", context)


@require_POST
def environments_check(request: HttpRequest) -> HttpResponse:
    """Run a command in each kind of sandbox, and show the results."""
    authorise(principal_of(request), "admin")
    return page(request, tried=abilities())


@require_http_methods(["GET", "HEAD", "POST"])
def environment_new(request: HttpRequest) -> HttpResponse:
    principal, workspace_id = authorised(request, "build")
    form = EnvironmentForm(request.POST or None, initial={"kind": "local", "network": "none"})
    made = submit_form(
        form,
        lambda: service.create_environment(
            workspace_id=workspace_id,
            fields=form.fields_of_environment(),
            created_by=principal.user,
        ),
    )
    if made is None:
        return form_page(request, form)
    messages.success(request, f"{made.name} was created. Choose it in an agent or a session.")
    return redirect("environments")


@require_http_methods(["GET", "HEAD", "POST"])
def environment_edit(request: HttpRequest, environment_id: UUID) -> HttpResponse:
    environment = get_environment(request, environment_id)
    form = EnvironmentForm(request.POST or None, initial=initial_of(environment))
    if not submit_form(
        form,
        lambda: service.change_environment(environment, form.fields_of_environment(), replace=True),
    ):
        return form_page(request, form, environment)
    messages.success(request, "Saved. Running commands keep the settings they began with.")
    return redirect("environments")


def form_page(
    request: HttpRequest, form: EnvironmentForm, environment: Environment | None = None
) -> HttpResponse:
    context = {"form": form, "environment": environment}
    status = 400 if form.errors else 200
    return render(request, "pages/environments/edit.html", context, status=status)


@require_POST
def environment_delete(request: HttpRequest, environment_id: UUID) -> HttpResponse:
    environment = get_environment(request, environment_id)
    try:
        service.delete_environment(environment)
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        messages.success(request, f"{environment.name} was deleted.")
    return redirect("environments")


def get_environment(request: HttpRequest, environment_id: UUID) -> Environment:
    return service.find_environment(authorise(principal_of(request), "build"), environment_id)
