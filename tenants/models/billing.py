"""Credits, budgets, model calls and prices. Amounts are US dollars."""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from tenants.models.accounts import OwnedModel, OwnedQuerySet, Workspace


class Purse(OwnedModel):
    """A budget. The functions of `sql/billing.sql` write `spent`, `reserved` and `debt`.

    A workspace's purse holds its credits: its ceiling is the sum of all grants.
    """

    class Kind(models.TextChoices):
        WORKSPACE = "workspace"
        AGENT = "agent"
        SESSION = "session"
        MEMBER = "member"
        KEY = "key"

    class Period(models.TextChoices):
        EVER = "ever"
        DAY = "day"
        MONTH = "month"

    kind = models.CharField(max_length=9, choices=Kind)
    owner_id = models.UUIDField()
    period = models.CharField(
        max_length=5, choices=Period, default=Period.EVER, db_default=Period.EVER
    )
    #: The first day of the period that `spent` counts.
    since = models.DateField(null=True, editable=False)
    ceiling = models.DecimalField(max_digits=18, decimal_places=8, default=0, db_default=0)
    spent = models.DecimalField(
        max_digits=18, decimal_places=8, default=0, db_default=0, editable=False
    )
    reserved = models.DecimalField(
        max_digits=18, decimal_places=8, default=0, db_default=0, editable=False
    )
    #: The cost of calls beyond their reservations. It is part of `spent`.
    debt = models.DecimalField(
        max_digits=18, decimal_places=8, default=0, db_default=0, editable=False
    )
    #: When members were warned that little is left. A grant or a higher ceiling resets it.
    low_since = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "purses"
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "kind", "owner_id"], name="purse_is_the_only_one_of_its_owner"
            ),
            models.CheckConstraint(
                condition=Q(reserved__gte=0), name="purse_reserves_no_less_than_nothing"
            ),
        ]

    def __str__(self) -> str:
        return f"purse of {self.kind} {self.owner_id}"

    @property
    def balance(self) -> Decimal:
        return self.ceiling - self.spent

    @property
    def available(self) -> Decimal:
        """The amount that the next call may reserve."""
        return max(self.balance - self.reserved, Decimal(0))

    @property
    def is_low(self) -> bool:
        """Whether a workspace should add credits."""
        return self.balance <= settings.LOW_CREDITS


class CreditEntry(OwnedModel):
    """One entry of the ledger. The sum of a workspace's entries is its balance."""

    class Kind(models.TextChoices):
        GRANT = "grant"
        ADJUSTMENT = "adjustment"
        CHARGE = "charge"
        SANDBOX = "sandbox"

    kind = models.CharField(max_length=10, choices=Kind)
    amount = models.DecimalField(max_digits=18, decimal_places=8)
    note = models.CharField(max_length=200, blank=True, default="", db_default="")
    call = models.OneToOneField(
        "tenants.ModelCall", null=True, blank=True, on_delete=models.CASCADE, related_name="entry"
    )

    class Meta:
        db_table = "credit_ledger"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["workspace", "-created_at"], name="credit_by_time")]
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind__in=["charge", "sandbox"]) | Q(amount__lte=0),
                name="charge_adds_no_credits",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"


class ModelCall(OwnedModel):
    """One call of a model. The row is written before the call, so that a crash cannot hide it."""

    class State(models.TextChoices):
        RESERVED = "reserved"
        SETTLED = "settled"
        #: Usage is unknown: an estimate was charged, or after a crash the whole reservation.
        ESTIMATED = "estimated"
        FAILED = "failed"

    class Purpose(models.TextChoices):
        ANSWER = "answer"
        SUMMARY = "summary"
        FLUSH = "flush"
        GRADE = "grade"
        #: Judging notes when memory is consolidated.
        MEMORY = "memory"

    # The index by time begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    agent_id = models.UUIDField(null=True)
    session_id = models.UUIDField(null=True)
    run_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    #: The lane's epoch, which shows whether the worker that made the call lost its lease.
    epoch = models.BigIntegerField(null=True)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    purpose = models.CharField(max_length=7, choices=Purpose, default=Purpose.ANSWER)
    state = models.CharField(
        max_length=9, choices=State, default=State.RESERVED, db_default=State.RESERVED
    )
    reserved = models.DecimalField(max_digits=18, decimal_places=8)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0, db_default=0)
    input_tokens = models.BigIntegerField(default=0, db_default=0)
    output_tokens = models.BigIntegerField(default=0, db_default=0)
    cached_tokens = models.BigIntegerField(default=0, db_default=0)
    purses = ArrayField(models.UUIDField(), default=list)
    #: When the supervisor noticed that the worker that made the call is gone.
    lost_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: Whether the rollups contain it; see `sql/usage.sql`.
    folded = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        db_table = "model_calls"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="call_by_time"),
            models.Index(fields=["session_id", "-created_at"], name="call_by_session"),
            models.Index(fields=["session_id"], condition=Q(state="reserved"), name="call_open"),
            models.Index(fields=["workspace"], condition=Q(folded=False), name="call_unfolded"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    cost__gte=0, input_tokens__gte=0, output_tokens__gte=0, cached_tokens__gte=0
                ),
                name="call_costs_no_less_than_nothing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} call of {self.model}"


class UsageRollup(models.Model):
    """The usage of one day by UTC, in total or of one owner. Only `sql/usage.sql` writes it.

    It has no constraint on the workspace: folding must not wait for an erasure, which waits for it.
    A trigger deletes the rows with their workspace.
    """

    class Dimension(models.TextChoices):
        TOTAL = "total"
        MEMBER = "member"
        AGENT = "agent"
        MODEL = "model"
        KEY = "key"
        SESSION = "session"
        #: What sandboxes cost. The other dimensions sum up model calls.
        SANDBOX = "sandbox"

    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    dimension = models.CharField(max_length=7, choices=Dimension)
    day = models.DateField()
    #: The id of the owner or the name of the model; empty in total and for calls without an owner.
    key = models.CharField(max_length=241)
    calls = models.BigIntegerField()
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    #: The input tokens among them that providers read from their caches.
    cached_tokens = models.BigIntegerField(default=0, db_default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        db_table = "usage_rollups"
        ordering = ["-day", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "dimension", "day", "key"], name="usage_is_one_per_day_and_key"
            )
        ]
        indexes = [
            models.Index(
                fields=["workspace", "key", "day"],
                condition=Q(dimension="session"),
                name="usage_by_session",
            )
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.key} on {self.day}"


class SessionUsage(models.Model):
    """The usage of one session on all days, which leads to the most expensive sessions of any days.

    Only `sql/usage.sql` writes it. It has no constraint on the workspace, like `UsageRollup`.
    """

    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    #: The id of the session; empty for calls outside sessions.
    key = models.CharField(max_length=36)
    #: The session has no usage before and after these days.
    first_day = models.DateField()
    last_day = models.DateField()
    calls = models.BigIntegerField()
    cost = models.DecimalField(max_digits=18, decimal_places=8)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        db_table = "usage_sessions"
        ordering = ["-last_day", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "key"], name="usage_is_one_per_session")
        ]
        indexes = [
            models.Index(
                fields=["workspace", "-cost", "-calls", "-key"],
                include=["first_day", "last_day"],
                name="usage_session_by_cost",
            )
        ]

    def __str__(self) -> str:
        return f"usage of session {self.key}"


class SandboxMinute(OwnedModel):
    """One charged minute of a sandbox. `sandbox_charge` writes it; it is deleted after some days."""

    #: A container's id, or `call:ID` for a command, or `terminal:SESSION`.
    sandbox = models.CharField(max_length=100)
    minute = models.DateTimeField()

    class Meta:
        db_table = "sandbox_minutes"
        ordering = ["-minute"]
        indexes = [models.Index(fields=["minute"], name="sandbox_minute_by_time")]
        constraints = [
            models.UniqueConstraint(
                fields=["sandbox", "minute"], name="sandbox_minute_is_charged_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sandbox} at {self.minute:%H:%M}"


class Price(OwnedModel):
    """A workspace's price of a model per million tokens. It overrides the price list."""

    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    input_price = models.DecimalField(max_digits=12, decimal_places=6)
    output_price = models.DecimalField(max_digits=12, decimal_places=6)

    class Meta:
        db_table = "model_prices"
        ordering = ["provider", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "provider", "model"], name="price_is_said_once_per_model"
            ),
            models.CheckConstraint(
                condition=Q(input_price__gte=0, output_price__gte=0), name="price_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"
