"""Passwords: set, change, and reset by mail."""

from __future__ import annotations

from django.contrib import auth, messages
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.views import PasswordResetConfirmView
from django.core.mail import send_mail
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from config.faults import Invalid, TooManyAttempts, Unauthenticated
from tenants.accounts import set_password
from tenants.authentication import principal_of
from tenants.clients import client_address
from tenants.mail_note import mail_note
from tenants.models import User
from tenants.pages.forms import ChangePasswordForm, NewPasswordForm, ResetForm
from tenants.throttle import check_sign_in, record_failure


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Set the first password, or change it knowing the old one."""
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    form = ChangePasswordForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        try:
            set_password(user=user, password=form.cleaned_data["password"])
        except Invalid as fault:
            form.add_error("password", fault.detail)
        else:
            auth.update_session_auth_hash(request, user)
            messages.success(request, "The password is set. Other browsers were signed out.")
            return redirect("account")
    return render(request, "pages/password.html", {"form": form})


@require_http_methods(["GET", "HEAD", "POST"])
def password_reset(request: HttpRequest) -> HttpResponse:
    """The answer is the same whether or not the address has an account."""
    form = ResetForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        email, client = form.cleaned_data["email"], client_address(request)
        try:
            check_sign_in(f"reset of {email}", client)
        except TooManyAttempts:
            form.add_error(None, "Too many messages were asked for. Wait a quarter of an hour.")
            status = 429
        else:
            record_failure(f"reset of {email}", client)
            mail_reset(request, email)
            return redirect("password_reset_sent")
    return render(request, "pages/password_reset.html", {"form": form}, status=status)


def mail_reset(request: HttpRequest, email: str) -> None:
    """Mail the link to whoever has this address. It dies with the password it replaces."""
    user = User.objects.filter(email__iexact=email, is_active=True).first()
    if user is None:
        return
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    path = reverse("password_reset_confirm", args=[uid, token])
    words = render_to_string("mail/reset.txt", {"link": request.build_absolute_uri(path)})
    send_mail("Set a new password for Switchyard", words, None, [user.email], fail_silently=True)


@require_safe
def password_reset_sent(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/password_reset_sent.html", {"mail_note": mail_note()})


class NewPasswordOf(NewPasswordForm):
    """The form as Django's reset view calls it."""

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
            set_password(user=self.user, password=self.cleaned_data["password"])
        return self.user


@method_decorator(never_cache, name="dispatch")
class PasswordResetConfirm(PasswordResetConfirmView):
    """Django moves the token from the address into the session, so that no referrer carries it."""

    form_class = NewPasswordOf  # type: ignore[assignment]
    template_name = "pages/password_reset_confirm.html"
    success_url = reverse_lazy("home")
    post_reset_login = True
    post_reset_login_backend = "django.contrib.auth.backends.ModelBackend"
