"""Does what a form asks for, or puts what is wrong beside the field of the form that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django import forms

from config.faults import Conflict, Fault, Invalid, InvalidFields

T = TypeVar("T")


def carry_out(form: forms.Form, act: Callable[[], T]) -> T | None:
    """What came of the act; None when the form has to be filled in first, or filled in anew."""
    if not form.is_valid():
        return None
    try:
        return act()
    except (Invalid, Conflict) as fault:
        blame(form, fault)
        return None


def blame(form: forms.Form, fault: Fault) -> None:
    """Every wrong field is told; what belongs to none stands above the form."""
    found = fault.errors if isinstance(fault, InvalidFields) else []
    for error in found:
        name, words = str(error.get("field", "")).partition(".")[0], str(error.get("message", ""))
        if name in form.fields:
            form.add_error(name, words)
        else:
            form.add_error(None, f"{name.capitalize()}: {words}" if name else words)
    if not found:
        about_name = fault.code == "conflict" and "name" in form.fields
        form.add_error("name" if about_name else None, fault.detail)
