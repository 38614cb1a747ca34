"""The shapes of the doors to money. Amounts are US dollars, as text."""

from __future__ import annotations

from rest_framework import serializers

from tenants.api.fields import OwnSerializer, TextField
from tenants.models import CreditEntry, Purse


class Dollars(serializers.DecimalField):
    def __init__(self, **words: object) -> None:
        super().__init__(max_digits=18, decimal_places=8, normalize_output=False, **words)  # type: ignore[arg-type]


class CreditEntrySerializer(serializers.ModelSerializer):
    class Meta:
        model = CreditEntry
        fields = ["id", "kind", "amount", "note", "call", "created_by", "created_at"]


class CreditsSerializer(serializers.Serializer):
    currency = serializers.SerializerMethodField()
    balance = Dollars(source="balance.balance")
    available = Dollars(source="balance.available")
    reserved = Dollars(source="balance.reserved")
    granted = Dollars(source="balance.granted")
    spent = Dollars(source="balance.spent")
    debt = Dollars(source="balance.debt")
    entries = CreditEntrySerializer(many=True)

    def get_currency(self, _: object) -> str:
        return "USD"


class CreditInput(serializers.Serializer):
    amount = Dollars()
    kind = serializers.ChoiceField(choices=["grant", "adjustment"], default="grant")
    note = TextField(max_length=200, required=False, allow_blank=True, default="")


class BudgetSerializer(OwnSerializer):
    limit = Dollars(source="ceiling")

    class Meta:
        model = Purse
        fields = [
            "id",
            "kind",
            "owner_id",
            "limit",
            "period",
            "spent",
            "reserved",
            "debt",
            "created_by",
            "created_at",
        ]


class BudgetInput(serializers.Serializer):
    kind = serializers.ChoiceField(choices=["agent", "session", "member", "key"])
    owner_id = serializers.UUIDField()
    limit = Dollars(source="ceiling", min_value=0)
    period = serializers.ChoiceField(choices=Purse.Period.choices, default=Purse.Period.EVER)


class UsageLineSerializer(serializers.Serializer):
    key = serializers.CharField()
    name = serializers.CharField()
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = Dollars()


class UsageTotalsSerializer(serializers.Serializer):
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = Dollars()
    sandbox_cost = Dollars()


class UsageReportSerializer(serializers.Serializer):
    by = serializers.CharField()
    first = serializers.DateField()
    last = serializers.DateField()
    totals = UsageTotalsSerializer()
    results = UsageLineSerializer(many=True)
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
