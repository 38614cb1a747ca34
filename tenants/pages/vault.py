"""Pages of the vault: add, replace and delete secrets, and see what uses them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.exceptions import Conflict, Invalid
from tenants import vault
from tenants.access import authorise
from tenants.authentication import authorised, principal_of
from tenants.models import Secret, User
from tools_app.mcp.servers import secrets_used


def value_field(label: str = "Value") -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=vault.LONGEST_VALUE,
        strip=False,
        widget=forms.PasswordInput(
            attrs={"autocomplete": "off", "spellcheck": "false"}, render_value=False
        ),
    )


class SecretForm(forms.Form):
    name = forms.RegexField(
        vault.NAME_PATTERN,
        label="Name",
        max_length=64,
        error_messages={"invalid": vault.NAME_RULE},
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    value = value_field()
    hosts = forms.CharField(
        label="Hosts",
        required=False,
        max_length=2_000,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Hosts it may be sent to, separated by spaces. Leave empty to allow any host.",
    )


class ReplaceForm(forms.Form):
    value = value_field("New value")


@dataclass(frozen=True, kw_only=True)
class SecretRow:
    secret: Secret
    used_by: list[str]
    form: ReplaceForm


@require_safe
def vault_page(request: HttpRequest) -> HttpResponse:
    principal, workspace_id = authorised(request, "read")
    if not principal.may("admin"):
        return render(request, "pages/vault/vault.html", {})
    used = secrets_used(workspace_id)
    rows = Secret.objects.for_workspace(workspace_id).defer("value").select_related("created_by")
    lines = [
        SecretRow(
            secret=row,
            used_by=used.get(row.name, []),
            form=ReplaceForm(auto_id=f"replace_{row.pk.hex}_%s"),
        )
        for row in rows
    ]
    missing = sorted(set(used) - {row.name for row in rows})
    context = {"lines": lines, "missing": missing, "form": SecretForm(), "may_admin": True}
    return render(request, "pages/vault/vault.html", context)


@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
def secret_new(request: HttpRequest) -> HttpResponse:
    principal, workspace_id = authorised(request, "admin")
    form = SecretForm(request.POST or None, initial={"name": request.GET.get("name", "")[:64]})
    if (
        request.method == "POST"
        and form.is_valid()
        and add_secret(form, workspace_id, principal.user)
    ):
        name = form.cleaned_data["name"]
        messages.success(request, f"{name} is saved. Refer to it as {{{{vault:{name}}}}}.")
        return redirect("vault")
    status = 400 if form.errors else 200
    return render(request, "pages/vault/new.html", {"form": form}, status=status)


def add_secret(form: SecretForm, workspace_id: UUID, user: User | None) -> bool:
    """Store the secret, or put the reason why not into the form and return False."""
    given = form.cleaned_data
    try:
        vault.add(
            workspace_id,
            given["name"],
            given["value"],
            hosts=given["hosts"].replace(",", " ").split(),
            by=user,
        )
    except Invalid as fault:
        form.add_error("hosts", fault.detail)
        return False
    except Conflict:
        form.add_error("name", "A secret with this name already exists. Replace it in the list.")
        return False
    return True


@sensitive_post_parameters("value")
@require_POST
def secret_replace(request: HttpRequest, secret_id: UUID) -> HttpResponse:
    secret = get_secret(request, secret_id)
    form = ReplaceForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"{secret.name} was not changed: the new value is empty.")
        return redirect("vault")
    vault.replace(secret, form.cleaned_data["value"])
    messages.success(request, f"{secret.name} has a new value, used from now on.")
    return redirect("vault")


@require_POST
def secret_delete(request: HttpRequest, secret_id: UUID) -> HttpResponse:
    secret = get_secret(request, secret_id)
    vault.delete(secret.workspace_id, secret.name)
    messages.success(request, f"{secret.name} is deleted.")
    return redirect("vault")


def get_secret(request: HttpRequest, secret_id: UUID) -> Secret:
    """Return the secret if the user may change it, or raise NotFound or Forbidden."""
    workspace_id = authorise(principal_of(request), "admin")
    return Secret.objects.for_workspace(workspace_id).defer("value").find(pk=secret_id)
