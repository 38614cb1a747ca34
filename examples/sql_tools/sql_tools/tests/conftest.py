"""The fixtures of Switchyard's tests: a real database, a workspace, people and API keys."""

from tests.conftest import *
