"""Template tags for icons, form fields, confirmations, initials and times."""

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
    """Return the SVG content of every icon in the front end's build, by name."""
    path = Path(str(settings.DJANGO_VITE["default"]["manifest_path"])).with_name("icons.json")
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        raise ImproperlyConfigured("The front end is not built. Run: make pages") from None


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """Render a Lucide icon. It is hidden from screen readers, so text beside it must name it."""
    if name not in drawings():
        raise ImproperlyConfigured(f"Add {name!r} to frontend/icons.json and build the front end.")
    return format_html(
        '<svg class="icon {}" viewBox="0 0 24 24" aria-hidden="true" focusable="false">{}</svg>',
        extra,
        mark_safe(drawings()[name]),  # noqa: S308 - written by our own build, never by a person
    )


@register.simple_tag
def icon_button(name: str, label: str, action: str, at: int | None = None) -> SafeString:
    """Render a small button that the page's script handles by its `data-action`."""
    return format_html(
        '<button type="button" class="btn btn-bare btn-square btn-xs needs-script" '
        'aria-label="{}" title="{}" data-action="{}"{}>{}</button>',
        label,
        label,
        action,
        "" if at is None else format_html(' data-at="{}"', at),
        icon(name),
    )


@register.inclusion_tag("parts/field.html")
def field(
    bound: BoundField, extra: str = "", placeholder: str = "", first: bool = False
) -> dict[str, Any]:
    """Render a form field: label, input, help and errors. `first` gives it the focus."""
    widget = bound.field.widget
    css_class = "input"
    if isinstance(widget, Select):
        css_class = "select"
    elif isinstance(widget, Textarea):
        css_class = "textarea"
    elif isinstance(widget, CheckboxInput):
        css_class = "checkbox"
    attributes: dict[str, str | bool] = {"class": css_class}
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
    """Render a button that shows the block's text and asks for confirmation before it posts."""
    part = Engine.get_default().get_template("parts/confirm.html")
    variables = {
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
    return part.render(context.new(variables))


@register.filter
def initials(name: str) -> str:
    """Return two letters for a person's or workspace's name."""
    words = [word for word in name.replace("@", " ").replace(".", " ").split() if word[0].isalnum()]
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else "".join(words)[:2]
    return letters.upper()


@register.simple_tag
def ago(moment: datetime | None, never: str = "Never") -> str:
    """Render a relative time with the exact time on hover. The island `times` keeps it current."""
    if moment is None:
        return never
    return format_html(
        '<time data-ago datetime="{}" title="{} UTC">{}</time>',
        moment.isoformat(timespec="seconds"),
        moment.astimezone(UTC).strftime("%-d %B %Y, %H:%M:%S"),
        relative(moment, timezone.now()),
    )


@register.simple_tag
def moment(at: datetime | None, never: str = "Never", *, seconds: bool = False) -> str:
    """Render an exact time. The island `times` converts it to the viewer's time zone."""
    if at is None:
        return never
    utc = at.astimezone(UTC)
    return format_html(
        '<time data-exact{} datetime="{}" title="{} UTC">{} UTC</time>',
        mark_safe('="seconds"') if seconds else "",
        at.isoformat(timespec="seconds"),
        utc.strftime("%-d %B %Y, %H:%M:%S"),
        utc.strftime("%-d %b %Y, %H:%M:%S" if seconds else "%-d %b %Y, %H:%M"),
    )


@register.simple_tag
def clock(at: datetime) -> str:
    """Render a time of day. The island `times` converts it to the viewer's time zone."""
    utc = at.astimezone(UTC)
    today = utc.date() == timezone.now().astimezone(UTC).date()
    return format_html(
        '<time data-clock datetime="{}" title="{} UTC">{} UTC</time>',
        at.isoformat(timespec="seconds"),
        utc.strftime("%-d %B %Y, %H:%M:%S"),
        utc.strftime("%H:%M" if today else "%-d %b, %H:%M"),
    )


def relative(moment: datetime, now: datetime) -> str:
    """Return a short relative time: `just now`, `5 min ago`, `in 30 d`, or else the date.

    `frontend/src/lib/ago.ts` must format it in the same way.
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
