"""Template filters for texts that agents write."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from core import markdown
from core.text import reveal as reveal_text

register = template.Library()


@register.filter
def prose(text: object) -> SafeString:
    """Render Markdown as safe HTML, to be placed in an element with the class `prose`."""
    return markdown.render(str(text))


@register.filter
def plainly(text: object) -> str:
    """Return the text of Markdown on one line, without its markup."""
    return markdown.plain(str(text))


@register.filter
def reveal(text: object) -> str:
    """Make invisible and direction-changing characters visible."""
    return reveal_text(str(text))
