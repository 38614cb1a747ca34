"""What people type into the pages of accounts, members and keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from config.faults import Invalid
from tenants.mail import checked_patterns
from tenants.models import ApiKey, Membership, User, Workspace

NEW_PASSWORD_HELP = "At least 8 characters, and not one that everybody uses."  # noqa: S105


def email_field(**extra: Any) -> forms.EmailField:
    attributes = {"autocomplete": "email", "autocapitalize": "off", "spellcheck": "false"}
    return forms.EmailField(
        label="E-mail", max_length=254, widget=forms.EmailInput(attrs=attributes), **extra
    )


def password_field(*, new: bool, label: str = "Password") -> forms.CharField:
    autocomplete = "new-password" if new else "current-password"
    return forms.CharField(
        label=label,
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": autocomplete}),
        help_text=NEW_PASSWORD_HELP if new else "",
    )


def name_field(*, required: bool = False) -> forms.CharField:
    return forms.CharField(
        label="Your name",
        max_length=80,
        required=required,
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )


class SignInForm(forms.Form):
    email = email_field()
    password = password_field(new=False)


class SignUpForm(forms.Form):
    name = name_field(required=True)
    email = email_field()
    password = password_field(new=True)


class NewPasswordForm(forms.Form):
    password = password_field(new=True, label="New password")


class ChangePasswordForm(NewPasswordForm):
    """Whoever has a password must know it to change it."""

    current = password_field(new=False, label="Current password")
    field_order = ["current", "password"]

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        if not user.has_usable_password():
            del self.fields["current"]

    def clean_current(self) -> str:
        current: str = self.cleaned_data["current"]
        if not self.user.check_password(current):
            raise ValidationError("This is not your current password.")
        return current


class ResetForm(forms.Form):
    email = email_field()


class WorkspaceForm(forms.ModelForm):
    class Meta:
        model = Workspace
        fields: ClassVar = ["name"]
        labels: ClassVar = {"name": "Name"}
        help_texts: ClassVar = {"name": "A team, a company or a project. It can be changed later."}


class MailForm(forms.Form):
    allowed = forms.CharField(
        label="Addresses and domains",
        required=False,
        max_length=10_000,
        help_text="One a line: ann@example.com, or *@example.com for everybody there.",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
    )

    def clean_allowed(self) -> list[str]:
        try:
            return checked_patterns(self.cleaned_data["allowed"].split())
        except Invalid as fault:
            raise forms.ValidationError(fault.detail) from None


class InviteForm(forms.Form):
    email = email_field()
    role = forms.ChoiceField(choices=Membership.Role, initial=Membership.Role.BUILDER)

    def __init__(self, *args: Any, may_make_owners: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].widget.attrs["autocomplete"] = "off"
        if not may_make_owners:
            choices = [one for one in Membership.Role.choices if one[0] != Membership.Role.OWNER]
            self.fields["role"] = forms.ChoiceField(
                choices=choices, initial=Membership.Role.BUILDER
            )


class KeyForm(forms.Form):
    SCOPES: ClassVar = [
        (ApiKey.Scope.READ, "Read", "Look at agents, sessions and memory."),
        (ApiKey.Scope.RUN, "Run", "Also talk to agents and start runs."),
        (ApiKey.Scope.ADMIN, "Admin", "Also change agents, policies, keys and members."),
    ]
    LIVES: ClassVar = {"30": "30 days", "90": "90 days", "365": "1 year", "": "Never"}

    name = forms.CharField(
        max_length=80, help_text="Where it will be used, such as “CI” or “Billing service”."
    )
    scope = forms.ChoiceField(choices=ApiKey.Scope, initial=ApiKey.Scope.RUN)
    life = forms.ChoiceField(
        label="Expires after", choices=list(LIVES.items()), required=False, initial="90"
    )
    #: Tells a form that is sent twice from two forms.
    once = forms.UUIDField(widget=forms.HiddenInput)

    def expires_at(self) -> datetime | None:
        life: str = self.cleaned_data["life"]
        return timezone.now() + timedelta(days=int(life)) if life else None


class ProfileForm(forms.ModelForm):
    """Name and address. A new address needs the password, as it opens the way to a reset."""

    current = password_field(new=False, label="Current password")

    class Meta:
        model = User
        fields: ClassVar = ["name", "email"]
        labels: ClassVar = {"name": "Name", "email": "E-mail"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["current"].required = False
        self.fields["current"].help_text = "Only needed to change the e-mail address."
        if not self.instance.has_usable_password():
            del self.fields["current"]

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).strip().lower()

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if "email" in self.changed_data and "current" in self.fields:
            stored = User.objects.get(pk=self.instance.pk)
            if not stored.check_password(self.cleaned_data.get("current") or ""):
                self.add_error("current", "Type your password to change the address.")
        return cleaned
