"""Pages of accounts: sign in and up, invitations, passwords and the profile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.views import PasswordResetConfirmView
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.template.loader import render_to_string
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.encoding import force_bytes
from django.utils.http import url_has_allowed_host_and_scheme, urlsafe_base64_encode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.exceptions import Conflict, Fault, Invalid, Unauthenticated
from core.throttling import client_address
from orchestrator.workspaces import sign_up as create_account
from tenants import accounts
from tenants.authentication import choose_workspace, principal_of
from tenants.exceptions import SignUpClosed, TooManyAttempts
from tenants.models import User
from tenants.notifications.mail import link_to, mail_note
from tenants.workspaces import accept_invitation, find_invitation

#: The same message for a wrong address and a wrong password, so that addresses cannot be probed.
WRONG = "The e-mail address or the password is wrong."
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
#: The cookie by which an account knows a browser that has signed in before.
DEVICE_COOKIE = "device"
#: What the pages say to people without an account, by the setting SIGN_UP.
NO_SIGN_UP = {
    "invitation": "New accounts need an invitation. Ask a member of a workspace for one.",
    "closed": "This installation does not accept new accounts.",
}
NEW_PASSWORD_HELP = "At least 8 characters, and not a common password."  # noqa: S105


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


class SignInForm(forms.Form):
    email = email_field()
    password = password_field(new=False)


class SignUpForm(forms.Form):
    name = forms.CharField(
        label="Your name", max_length=80, widget=forms.TextInput(attrs={"autocomplete": "name"})
    )
    email = email_field()
    password = password_field(new=True)


class NewPasswordForm(forms.Form):
    password = password_field(new=True, label="New password")


class ChangePasswordForm(NewPasswordForm):
    """Asks for the current password, unless the user has none yet."""

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


class ProfileForm(forms.ModelForm):
    """Changes the name and e-mail address.

    A new address needs the password, because it can be used to reset the password.
    """

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
                self.add_error("current", "Enter your password to change the address.")
        return cleaned


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return onward(request)
    form = SignInForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            user = check_credentials(request, **form.cleaned_data)
        except TooManyAttempts as fault:
            form.add_error(None, fault.detail)
            status = fault.status
        else:
            if user:
                auth.login(request, user)
                return remember_device(onward(request), user)
            form.add_error(None, WRONG)
    context = {"form": form, "next": request.GET.get("next", ""), "no_sign_up": why_no_sign_up()}
    return render(request, "pages/sign_in.html", context, status=status)


def check_credentials(request: HttpRequest, *, email: str, password: str) -> User | None:
    """Return the user with this address and password, and count failures."""
    client = client_address(request)
    device = accounts.known_device(request.COOKIES.get(DEVICE_COOKIE, ""), email)
    accounts.check_sign_in(email, client, device)
    user = auth.authenticate(request, username=email, password=password)
    if not isinstance(user, User):
        accounts.record_failure(email, device or client)
        return None
    accounts.clear_failures(email, device or client)
    return user


def remember_device(response: HttpResponse, user: User) -> HttpResponse:
    """Let this browser sign in again even while others guess the password of its user."""
    response.set_cookie(
        DEVICE_COOKIE,
        accounts.device_token(user.email),
        max_age=accounts.DEVICE_LIFE,
        path=reverse("sign_in"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def why_no_sign_up(*, invited: bool = False) -> str:
    """Return why a visitor cannot create an account here; empty if they can."""
    return "" if accounts.is_sign_up_open(invited=invited) else NO_SIGN_UP[settings.SIGN_UP]


def onward(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the requested page if it is on this site, and to the home page otherwise."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return HttpResponseRedirect(target if is_ours else resolve_url("home"))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    auth.logout(request)
    return redirect("sign_in")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in with a link. Only POST uses it up, as mail scanners and previews open links too."""
    if request.method != "POST":
        person = accounts.peek_sign_in_link(token)
        return render(request, "pages/sign_in_link.html", {"person": person})
    user = accounts.use_sign_in_link(token)
    auth.login(request, user, backend=MODEL_BACKEND)
    if user.has_usable_password():
        return remember_device(redirect("home"), user)
    messages.info(request, "You are signed in. Set a password to come back without a link.")
    return redirect("password")


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return onward(request)
    form = SignUpForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            with count_tries(request):
                user = create_account(**form.cleaned_data)
        except (Conflict, Invalid, SignUpClosed, TooManyAttempts) as fault:
            form.add_error(field_of(fault), fault.detail)
            status = fault.status
        else:
            auth.login(request, user, backend=MODEL_BACKEND)
            return remember_device(onward(request), user)
    context = {"form": form, "next": request.GET.get("next", ""), "no_sign_up": why_no_sign_up()}
    return render(request, "pages/sign_up.html", context, status=status)


@contextmanager
def count_tries(request: HttpRequest) -> Iterator[None]:
    """Count failed sign-ups, as they reveal which addresses have an account."""
    client = client_address(request)
    accounts.check_tries(f"sign-up from {client}", client)
    try:
        yield
    except Conflict:
        accounts.record_failure(f"sign-up from {client}", client)
        raise


def field_of(fault: Fault) -> str | None:
    """Return the form field that a fault is about."""
    match fault:
        case Conflict():
            return "email"
        case Invalid():
            return "password"
        case _:
            return None


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Set the first password, or change the current one."""
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    form = ChangePasswordForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        try:
            accounts.set_password(user=user, password=form.cleaned_data["password"])
        except Invalid as fault:
            form.add_error("password", fault.detail)
        else:
            auth.update_session_auth_hash(request, user)
            messages.success(request, "Password saved. Other browsers were signed out.")
            return redirect("account")
    return render(request, "pages/password.html", {"form": form})


@require_http_methods(["GET", "HEAD", "POST"])
def password_reset(request: HttpRequest) -> HttpResponse:
    """Mail a reset link. The response is the same whether or not the address has an account."""
    form = ResetForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        email, client = form.cleaned_data["email"], client_address(request)
        try:
            accounts.check_tries(f"reset of {email}", client)
        except TooManyAttempts:
            form.add_error(None, "Too many requests for a new password. Wait 15 minutes.")
            status = 429
        else:
            accounts.record_failure(f"reset of {email}", client)
            mail_reset(email)
            return redirect("password_reset_sent")
    return render(request, "pages/password_reset.html", {"form": form}, status=status)


def mail_reset(email: str) -> None:
    """Mail a reset link to the user with this address. It stops working with the next change."""
    user = User.objects.filter(email__iexact=email, is_active=True).first()
    if user is None:
        return
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    path = reverse("password_reset_confirm", args=[uid, token])
    body = render_to_string("mail/reset.txt", {"link": link_to(path)})
    send_mail("Set a new password for Switchyard", body, None, [user.email], fail_silently=True)


@require_safe
def password_reset_sent(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/password_reset_sent.html", {"mail_note": mail_note()})


class ResetPasswordForm(NewPasswordForm):
    """The form with the signature that Django's reset view expects."""

    def __init__(self, user: User | None, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.user = user

    def clean_password(self) -> str:
        typed: str = self.cleaned_data["password"]
        if self.user:
            auth.password_validation.validate_password(typed, self.user)
        return typed

    def save(self) -> User | None:
        if self.user:
            accounts.set_password(user=self.user, password=self.cleaned_data["password"])
        return self.user


@method_decorator(never_cache, name="dispatch")
class PasswordResetConfirm(PasswordResetConfirmView):
    """Sets the new password. Django moves the token into the session, out of referrers."""

    form_class = ResetPasswordForm  # type: ignore[assignment]
    template_name = "pages/password_reset_confirm.html"
    success_url = reverse_lazy("home")
    post_reset_login = True
    post_reset_login_backend = MODEL_BACKEND


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Accept an invitation. A visitor without an account creates one on the same page."""
    offer = find_invitation(token)
    user = principal_of(request).user
    form = SignUpForm(request.POST or None, initial={"email": offer.email})
    status = 200
    if request.method == "POST":
        if user is None and form.is_valid():
            try:
                user = create_invited_user(request, form)
            except (Conflict, Invalid, SignUpClosed, TooManyAttempts) as fault:
                form.add_error(field_of(fault), fault.detail)
                status = fault.status
        if user:
            return join_workspace(request, token, user)
    context = {"offer": offer, "form": form, "no_sign_up": why_no_sign_up(invited=True)}
    return render(request, "pages/invitation.html", context, status=status)


def create_invited_user(request: HttpRequest, form: SignUpForm) -> User:
    """Create an account without a workspace, as the user joins the one of the invitation."""
    with count_tries(request):
        user = accounts.register(**form.cleaned_data, invited=True)
    auth.login(request, user, backend=MODEL_BACKEND)
    return user


def join_workspace(request: HttpRequest, token: str, user: User) -> HttpResponse:
    membership = accept_invitation(token, user)
    choose_workspace(request, membership.workspace_id)
    return redirect("home")


@sensitive_post_parameters("current")
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    # A copy, because a refused form must not rename the user in the page frame.
    form = ProfileForm(request.POST or None, instance=User.objects.get(pk=user.pk))
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Account saved.")
        return redirect("account")
    return render(request, "pages/account.html", {"form": form})
