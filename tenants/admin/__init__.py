"""Staff's pages of this app. Django looks for them here."""

from __future__ import annotations

from django.contrib import admin

from tenants.admin import house, money, people, post

__all__ = ["house", "money", "people", "post"]

admin.site.site_header = admin.site.site_title = "Switchyard staff"
