"""Vectors of a wire server, in which texts with the same words are near each other."""

from __future__ import annotations

import re
from hashlib import sha256


def vector_of(text: str, dimensions: int) -> list[float]:
    """Count the words in one bucket per dimension."""
    counts = [0.01] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        counts[int(sha256(word.encode()).hexdigest(), 16) % dimensions] += 1.0
    return counts
