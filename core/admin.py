"""Base classes of the staff pages of every app."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.functional import cached_property

from core.exceptions import Conflict

M = TypeVar("M", bound=Model)


class BoundedPaginator(Paginator):
    """Counts at most so many rows: staff narrow longer lists by filters instead of leafing to their end."""

    MOST = 10_000

    @cached_property
    def count(self) -> int:
        rows = cast("QuerySet[Any]", self.object_list)
        return rows.order_by()[: self.MOST].count()


class StaffAdmin(admin.ModelAdmin):
    """An admin that stays fast on large tables: one bounded count, and related rows are joined or
    searched for.
    """

    show_full_result_count = False
    paginator = BoundedPaginator
    #: The newest first, by the index that every table has: ids begin with the time.
    ordering = ["-pk"]
    list_per_page = 50
    #: The relations that the model's `__str__` reads.
    str_related: Sequence[str] = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Join every related row, because lists and forms show them by name."""
        related = [*self.str_related]
        for field in self.opts.fields:
            if isinstance(field, ForeignKey):
                related.append(field.name)
                shown = self.admin_site._registry.get(field.related_model)
                related += [f"{field.name}__{name}" for name in getattr(shown, "str_related", ())]
        return super().get_queryset(request).select_related(*related)

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

    #: Whether staff with the permission may delete rows.
    may_delete = False

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
        return self.may_delete and super().has_delete_permission(request, obj)

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Allow actions with `permissions=["act"]` to staff who have the change permission."""
        name = f"{self.opts.app_label}.change_{self.opts.model_name}"
        return request.user.has_perm(name)


def act_on_each(rows: Iterable[M], act: Callable[[M], object]) -> int:
    """Call `act` with each row and return how often it succeeded; a row in another state is skipped."""
    done = 0
    for row in rows:
        with suppress(Conflict):
            act(row)
            done += 1
    return done
