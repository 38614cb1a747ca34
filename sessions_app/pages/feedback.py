"""The page where admins read what people think of answers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions_app.feedback import feedback_rows
from sessions_app.models import Feedback
from tenants.access import authorise
from tenants.authentication import principal_of

#: Rows of the page, newest first. REST lists all of them.
MOST_ROWS = 200
FILTERS = {"": "All", "good": "Good", "bad": "Bad"}
RATINGS = {"good": Feedback.Rating.GOOD, "bad": Feedback.Rating.BAD}


@never_cache
@require_safe
def feedback(request: HttpRequest) -> HttpResponse:
    """List the newest ratings with their reasons, each with a link to its chat."""
    rows = feedback_rows(authorise(principal_of(request), "admin"))
    chosen = request.GET.get("rating", "")
    if chosen in RATINGS:
        rows = rows.filter(rating=RATINGS[chosen])
    context = {"rows": rows[:MOST_ROWS], "filters": FILTERS, "chosen": chosen}
    return render(request, "pages/chat/feedback.html", context)
