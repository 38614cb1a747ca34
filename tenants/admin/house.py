"""Staff's view of what keeps the house: signs of life, and answers that are not given twice."""

from __future__ import annotations

from django.contrib import admin

from tenants.admin_base import ReadOnlyAdmin
from tenants.models import IdempotentAnswer, Pulse


@admin.register(IdempotentAnswer)
class IdempotentAnswerAdmin(ReadOnlyAdmin):
    list_display = ["key_digest", "workspace", "status", "content_type", "created_at"]
    list_filter = ["status", "created_at"]
    list_select_related = ["workspace"]
    search_fields = ["=key_digest", "workspace__name"]
    exclude = ["body"]


@admin.register(Pulse)
class PulseAdmin(ReadOnlyAdmin):
    list_display = ["kind", "host", "pid", "at"]
    list_filter = ["kind", "host"]
    search_fields = ["kind", "host", "=pid"]
