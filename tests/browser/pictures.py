"""Takes a picture of every page, wide and on a phone, light and dark: `python -m tests.browser.pictures`.

They land in `var/pictures`, for a person to look at.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    galleries = map(str, sorted(Path(__file__).parent.glob("*gallery.py")))
    sys.exit(pytest.main([*galleries, "-p", "no:cacheprovider", *sys.argv[1:]]))
