"""Base classes of the staff pages of every app."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import ForeignKey, Model
from django.forms import ModelForm
from django.http import HttpRequest


class StaffAdmin(admin.ModelAdmin):
    """An admin that stays fast on large tables: one count, and related rows are searched for."""

    show_full_result_count = False
    list_per_page = 50

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        """Search for every related row, because a drop-down would load the whole table."""
        return [
            field.name
            for field in self.model._meta.get_fields()
            if isinstance(field, ForeignKey) and field.editable and self._is_registered(field)
        ]

    def _is_registered(self, field: ForeignKey) -> bool:
        return field.related_model in self.admin_site._registry

    def save_model(self, request: HttpRequest, obj: Model, form: ModelForm, change: bool) -> None:
        if not change and hasattr(obj, "created_by_id"):
            obj.created_by_id = request.user.pk
        super().save_model(request, obj, form, change)


class ReadOnlyAdmin(StaffAdmin):
    """An admin for rows that only the product writes. Staff can read them."""

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return every column that is not excluded, including those that are not editable."""
        excluded = self.get_exclude(request, obj) or ()
        return self.fields or [
            field.name for field in self.opts.fields if field.name not in excluded
        ]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Allow actions with `permissions=["act"]` to staff who have the change permission."""
        name = f"{self.opts.app_label}.change_{self.opts.model_name}"
        return request.user.has_perm(name)
