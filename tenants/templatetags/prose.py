"""Markdown that agents wrote, as pages show it."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from tenants import markup

register = template.Library()


@register.filter
def prose(text: object) -> SafeString:
    """In its form. The element around it has the class `said`."""
    return markup.render(str(text))


@register.filter
def plainly(text: object) -> str:
    """As words on a line, without the signs."""
    return markup.plain(str(text))
