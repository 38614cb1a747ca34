"""Icons, fields, marks and times, as every page writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from math import ceil, floor
from pathlib import Path
from typing import Any

from django import template
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.forms import BoundField, CheckboxInput, Select, Textarea
from django.template import Context, Engine
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (86_400 * 60, 86_400, "d"))


@cache
def drawings() -> dict[str, str]:
    """Every icon the front end was built with, by name."""
    path = Path(str(settings.DJANGO_VITE["default"]["manifest_path"])).with_name("icons.json")
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        raise ImproperlyConfigured(
            "The front end is not built. Run npm run build in frontend/."
        ) from None


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """One Lucide icon, silent to screen readers: the words beside it are its name."""
    if name not in drawings():
        raise ImproperlyConfigured(f"Add {name!r} to frontend/icons.json and build the front end.")
    return format_html(
        '<svg class="icon {}" viewBox="0 0 24 24" aria-hidden="true" focusable="false">{}</svg>',
        extra,
        mark_safe(drawings()[name]),  # noqa: S308 - written by our own build, never by a person
    )


@register.inclusion_tag("parts/field.html")
def field(
    bound: BoundField, extra: str = "", placeholder: str = "", first: bool = False
) -> dict[str, Any]:
    """A label, its input, the help and what is wrong with it. Into the first one, one writes at once."""
    widget = bound.field.widget
    look = "input"
    if isinstance(widget, Select):
        look = "select"
    elif isinstance(widget, Textarea):
        look = "textarea"
    elif isinstance(widget, CheckboxInput):
        look = "checkbox"
    attributes: dict[str, str | bool] = {"class": look}
    if placeholder:
        attributes["placeholder"] = placeholder
    if first:
        attributes["autofocus"] = True
    return {
        "bound": bound,
        "control": bound.as_widget(attrs=attributes),
        "extra": extra,
        "is_password": getattr(widget, "input_type", "") == "password",
    }


@register.simple_block_tag(takes_context=True)
def confirm(
    context: Context,
    content: str,
    url: str,
    label: str,
    button: str,
    *,
    about: str = "",
    symbol: str = "",
    look: str = "btn-sm btn-quiet",
    opens: str = "is-under",
    extra: str = "",
) -> str:
    """A button that asks once more, in the words of the block, before it does what cannot be undone."""
    part = Engine.get_default().get_template("parts/confirm.html")
    told = {
        "words": content,
        "url": url,
        "label": label,
        "button": button,
        "about": about,
        "symbol": symbol,
        "look": look,
        "opens": opens,
        "extra": extra,
        "csrf_token": context.get("csrf_token"),
    }
    return part.render(context.new(told))


@register.filter
def initials(name: str) -> str:
    """Two letters that stand for a person or a workspace."""
    words = [word for word in name.replace("@", " ").replace(".", " ").split() if word[0].isalnum()]
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else "".join(words)[:2]
    return letters.upper()


@register.simple_tag
def ago(moment: datetime | None, never: str = "Never") -> str:
    """How long ago or how soon, with the exact time on hover. The island `times` counts on."""
    if moment is None:
        return never
    return format_html(
        '<time data-ago datetime="{}" title="{} UTC">{}</time>',
        moment.isoformat(timespec="seconds"),
        moment.astimezone(UTC).strftime("%-d %B %Y, %H:%M:%S"),
        relative(moment, timezone.now()),
    )


@register.simple_tag
def moment(at: datetime | None, never: str = "Never") -> str:
    """An exact time. The island `times` writes it in the viewer's own time zone."""
    if at is None:
        return never
    there = at.astimezone(UTC)
    return format_html(
        '<time data-exact datetime="{}" title="{} UTC">{} UTC</time>',
        at.isoformat(timespec="seconds"),
        there.strftime("%-d %B %Y, %H:%M:%S"),
        there.strftime("%-d %b %Y, %H:%M"),
    )


def relative(moment: datetime, now: datetime) -> str:
    """A short distance in time: `just now`, `5 min ago`, `in 30 d`, else the date.

    `frontend/src/lib/ago.ts` says the same.
    """
    seconds = (now - moment).total_seconds()
    distance, whole = abs(seconds), (floor if seconds > 0 else ceil)
    if distance < 10:
        return "just now"
    for limit, size, unit in STEPS:
        if distance < limit:
            count = f"{whole(distance / size)} {unit}"
            return f"{count} ago" if seconds > 0 else f"in {count}"
    return moment.strftime("%-d %b %Y")
