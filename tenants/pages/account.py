"""A person's own page: name, address, password, theme."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from config.faults import Unauthenticated
from tenants.authentication import principal_of
from tenants.models import User
from tenants.pages.forms import ProfileForm


@sensitive_post_parameters("current")
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    user = principal_of(request).user
    if user is None:
        raise Unauthenticated
    # A copy: a refused form must not rename the person in the frame around it.
    form = ProfileForm(request.POST or None, instance=User.objects.get(pk=user.pk))
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Your account is saved.")
        return redirect("account")
    return render(request, "pages/account.html", {"form": form})
