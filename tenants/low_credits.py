"""Tells a workspace once that few credits are left: inbox, mail and webhook."""

from __future__ import annotations

from django.db import transaction

from tenants.credits import take_low_purses
from tenants.notices import tell_admins
from tenants.spending import dollars
from tenants.webhooks import announce


@transaction.atomic
def tell_low_credits() -> int:
    """For the supervisor. How many workspaces were told."""
    purses = take_low_purses()
    for purse in purses:
        left = purse.ceiling - purse.spent
        announce(
            purse.workspace_id, "credits.low", {"balance": str(left), "granted": str(purse.ceiling)}
        )
        tell_admins(
            purse.workspace_id,
            title="Few credits are left" if left > 0 else "No credits are left",
            text=f"{purse.workspace.name} has {dollars(left)} left. At nothing, agents stop; "
            "an owner can add credits.",
            link="/usage/",
        )
    return len(purses)
