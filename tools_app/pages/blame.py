"""Puts what is wrong beside the field of a form that it is about."""

from __future__ import annotations

from django import forms

from config.faults import Fault, InvalidFields


def blame(form: forms.Form, fault: Fault) -> None:
    """Every wrong field is told; what belongs to none stands above the form."""
    found = fault.errors if isinstance(fault, InvalidFields) else []
    for error in found:
        field = str(error.get("field", "")).partition(".")[0]
        form.add_error(field if field in form.fields else None, str(error.get("message", "")))
    if not found:
        form.add_error("name" if fault.code == "conflict" else None, fault.detail)
