"""The forms of the page of credits and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from django import forms

from agents.models import Agent
from agents.providers.registry import PROVIDERS
from sessions_app.pages.choosing import sessions_to_choose
from tenants.credits import MOST
from tenants.models import ApiKey, Membership, Purse

Group = tuple[str, Sequence[tuple[str, str]]]
PERIODS = [
    (Purse.Period.EVER, "In all, ever"),
    (Purse.Period.DAY, "Each day"),
    (Purse.Period.MONTH, "Each month"),
]


class Dollars(forms.DecimalField):
    def __init__(self, *, label: str, least: Decimal | int | None = 0, places: int = 2) -> None:
        # Not a number input: it would be spoken and spun in steps that nobody means.
        super().__init__(
            label=label,
            max_digits=18,
            decimal_places=max(places, 6),
            min_value=least,
            max_value=MOST,
            widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
        )


class CreditForm(forms.Form):
    """Adds to the ledger. `once` makes a second click harmless."""

    amount = Dollars(label="Dollars", least=None)
    kind = forms.ChoiceField(
        label="As",
        choices=[
            ("grant", "A grant, which adds"),
            ("adjustment", "An adjustment, which may take"),
        ],
    )
    note = forms.CharField(label="Note", max_length=200, required=False)
    once = forms.UUIDField(widget=forms.HiddenInput)


class BudgetForm(forms.Form):
    """Whose budget, how much and for how long."""

    owner = forms.ChoiceField(label="For")
    ceiling = Dollars(label="Dollars")
    period = forms.ChoiceField(label="Counts", choices=PERIODS)

    def __init__(self, *args: object, choices: Sequence[Group], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.fields["owner"].choices = choices  # type: ignore[attr-defined]

    def clean_owner(self) -> tuple[str, UUID]:
        kind, _, owner = self.cleaned_data["owner"].partition(":")
        return kind, UUID(owner)


class LimitForm(forms.Form):
    """Raises or lowers one budget."""

    ceiling = Dollars(label="Dollars")
    period = forms.ChoiceField(label="Counts", choices=PERIODS)


class PriceForm(forms.Form):
    """What a model costs this workspace."""

    provider = forms.ChoiceField(
        label="Provider", choices=[(name, info.label) for name, info in PROVIDERS.items()]
    )
    model = forms.CharField(
        label="Model",
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    input_price = Dollars(label="A million tokens in")
    output_price = Dollars(label="A million tokens out")


def owner_choices(workspace_id: UUID, chosen: str = "") -> list[Group]:
    """Everything that can have a budget. A session beyond the newest is there when chosen."""
    agents = Agent.objects.for_workspace(workspace_id).active().known().select_related("current")
    people = Membership.objects.for_workspace(workspace_id).select_related("user")
    groups = [
        ("Agents", [(f"agent:{one.pk}", str(one)) for one in agents.order_by("created_at")]),
        ("Members", [(f"member:{one.user_id}", one.user.display_name) for one in people]),
        (
            "API keys",
            [
                (f"key:{key.pk}", key.name)
                for key in ApiKey.objects.for_workspace(workspace_id).valid().order_by("name")
            ],
        ),
        (
            "Sessions",
            [
                (f"session:{one.pk}", one.title or "New chat")
                for one in sessions_to_choose(workspace_id, chosen)
            ],
        ),
    ]
    return [("", [("", "Choose…")]), *(group for group in groups if group[1])]
