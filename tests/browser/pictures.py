"""Takes a picture of every page, wide and on a phone, light and dark: `python -m tests.browser.pictures`.

They land in `var/pictures`, for a person to look at.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    gallery = Path(__file__).with_name("gallery.py")
    sys.exit(pytest.main([str(gallery), "-p", "no:cacheprovider", *sys.argv[1:]]))
