"""What people type into the memory pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms

from memory.models.entry import LONGEST_PATH

#: Longer than any document may be, so that the writer says what is wrong, and not the form.
LONGEST_TEXT = 400_000


class Whole(forms.CharField):
    """A text as it was typed: browsers send line ends as two characters, and nothing is trimmed."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(strip=False, required=False, max_length=LONGEST_TEXT, **extra)

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n").replace("\r", "\n")


def owners(agents: Iterable[tuple[UUID, str]]) -> list[tuple[str, Any]]:
    """Whose a document can be, as a person chooses it."""
    return [
        ("workspace", "Workspace: every agent sees it"),
        ("user", "You: agents see it in your own sessions"),
        ("An agent", [(f"agent:{pk}", name) for pk, name in agents]),
    ]


class NewDocument(forms.Form):
    path = forms.CharField(
        max_length=LONGEST_PATH,
        help_text="Folders come from slashes, as in learnings/deploying.md.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    owner = forms.ChoiceField(label="Whose it is")
    content = Whole(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "true"}),
        help_text="Markdown, at most 100,000 bytes.",
    )

    def __init__(self, *given: Any, agents: Iterable[tuple[UUID, str]], **extra: Any) -> None:
        super().__init__(*given, **extra)
        self.fields["owner"].choices = owners(agents)  # type: ignore[attr-defined]


class DocumentForm(forms.Form):
    """A change. The hash says which text it was made on."""

    path = forms.CharField(max_length=LONGEST_PATH)
    content = Whole()
    expected_hash = forms.CharField(max_length=64)


class ImportForm(forms.Form):
    owner = forms.ChoiceField(label="Whose memory")
    file = forms.FileField(
        label="Zip of Markdown files", widget=forms.ClearableFileInput(attrs={"accept": ".zip"})
    )
    overwrite = forms.BooleanField(
        required=False, label="Replace documents that have changed since the export"
    )

    def __init__(self, *given: Any, agents: Iterable[tuple[UUID, str]], **extra: Any) -> None:
        super().__init__(*given, **extra)
        self.fields["owner"].choices = owners(agents)  # type: ignore[attr-defined]
