"""Takes a picture of every page, wide and on a phone, light and dark.

Run `python -m tests.browser.pictures`; the pictures are written to `var/pictures`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    galleries = map(str, sorted(Path(__file__).parent.glob("*gallery.py")))
    sys.exit(pytest.main([*galleries, "-p", "no:cacheprovider", *sys.argv[1:]]))
