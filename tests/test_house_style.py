"""Tests of the rules in CONTRIBUTING.md that no linter checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from agents.providers.registry import PROVIDERS
from config.settings.base import APPS
from core.env import ROOT
from core.exceptions import Fault
from tests.conftest import SLOW

LONGEST_FUNCTION = 60
PACKAGES = ["config", *APPS, "tests", "bench"]
PRODUCT = ["config", *APPS]
AVOIDED = re.compile(r"(^|_)(utils?|helpers?|managers?)(_|$)")
READS = re.compile(
    r'\b(?:env\.)?(?:text|number|seconds|amount|choice|flag|strings)\(\s*"([A-Z][A-Z0-9_]+)"'
)
MARKS = re.compile(r"\b(TODO|FIXME|XXX)\b")


def python_files(*packages: str) -> list[Path]:
    found = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return sorted(path for path in found if "migrations" not in path.parts)


def script_files() -> list[Path]:
    source = ROOT / "frontend" / "src"
    return sorted(path for kind in ("*.ts", "*.tsx") for path in source.rglob(kind))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def documents() -> str:
    """Return the text of all documents about the product."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return "\n".join(page.read_text() for page in pages)


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.name, node.end_lineno - node.lineno + 1


def test_no_function_is_too_long():
    long = {
        f"{name_of(path)}:{name}": lines
        for path in python_files(*PACKAGES)
        for name, lines in functions(ast.parse(path.read_text()))
        if lines > LONGEST_FUNCTION
    }

    assert long == {}


def test_every_module_starts_with_a_docstring():
    silent = [
        name_of(path)
        for path in python_files(*PACKAGES)
        if path.read_text() and not re.match(r'"""[^"\n]', path.read_text())
    ]

    assert silent == []


def test_no_module_has_a_meaningless_name():
    files = [*python_files(*PACKAGES), *script_files()]
    stems = {name_of(path): path.name.split(".")[0].replace("-", "_") for path in files}

    assert [name for name, stem in stems.items() if AVOIDED.search(stem)] == []


def test_the_code_contains_no_todo_marks():
    files = [*python_files(*PRODUCT), *script_files()]

    assert [name_of(path) for path in files if MARKS.search(path.read_text())] == []


def settings_read() -> set[str]:
    """Return the environment variables that the product reads."""
    files = [path for path in python_files(*PRODUCT) if path.name != "test.py"]
    found = {name for path in files for name in READS.findall(path.read_text())}
    for provider in PROVIDERS.values():
        found |= {*provider.key_variables, provider.base_url_variable} - {""}
    return found


def settings_documented() -> set[str]:
    """Return the environment variables in the tables of docs/configuration.md."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    return set(re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \|", text, re.MULTILINE))


def test_every_setting_is_in_the_configuration_table():
    assert {"PORT", "DATA_DIR", "SECRET_KEY", "GEMINI_BASE_URL"} <= settings_read()
    assert settings_read() - settings_documented() == set()


def test_the_example_environment_lists_every_documented_setting_with_a_comment():
    text = (ROOT / ".env.example").read_text()
    listed = re.findall(r"^# \S.*\n#([A-Z][A-Z0-9_]+)=", text, re.MULTILINE)

    assert len(listed) == len(set(listed))
    assert set(listed) - {"POSTGRES_PASSWORD"} == settings_documented()


def test_the_environment_is_read_in_one_module():
    reading = re.compile(r"os\.(getenv|environ\.get|environ\[[^\]]+\](?!\s*=[^=]))")
    elsewhere = [
        name_of(path)
        for path in python_files(*PRODUCT)
        if path != ROOT / "core" / "env.py" and reading.search(path.read_text())
    ]

    assert elsewhere == []


def commands() -> list[str]:
    found = [path for app in APPS for path in (ROOT / app).glob("management/commands/*.py")]
    return sorted(path.stem for path in found if not path.stem.startswith("_"))


def test_every_command_is_documented():
    text = documents()

    assert {"up", "issue_key"} <= set(commands())
    assert [name for name in commands() if f"manage.py {name}" not in text] == []


def exception_modules() -> list[Path]:
    return [path for app in APPS if (path := ROOT / app / "exceptions.py").exists()]


def all_faults() -> list[type[Fault]]:
    modules = [import_module(f"{path.parent.name}.exceptions") for path in exception_modules()]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    return list(dict.fromkeys(one for one in found if issubclass(one, Fault)))


def test_every_fault_has_its_own_message_and_code():
    codes = [one.code for one in all_faults() if "code" in vars(one)]

    assert [one.__name__ for one in all_faults() if "__doc__" not in vars(one)] == []
    assert [one.__name__ for one in all_faults() if not one.__doc__] == []
    assert len(codes) == len(set(codes)), "two faults have the same code"
    assert all(400 <= one.status < 600 for one in all_faults())


def test_every_fault_is_declared_in_the_exceptions_of_its_app():
    """This keeps the list of what can go wrong complete."""
    declared = re.compile(
        r"^class \w+\((?:\w+, )*(?:\w*Fault|Conflict|Forbidden|Invalid)\):", re.MULTILINE
    )
    elsewhere = [
        name_of(path)
        for path in python_files(*PRODUCT)
        if path not in exception_modules() and declared.search(path.read_text())
    ]

    assert elsewhere == []


def test_every_place_with_slow_tests_exists():
    """A renamed folder would otherwise lose its group silently."""
    tests = ROOT / "tests"

    assert [place for place in SLOW if not list(tests.glob(f"{place}*"))] == []
