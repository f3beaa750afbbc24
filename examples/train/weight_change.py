#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weight_change.py BEFORE AFTER: how far training moved W_Q, W_K, W_V and W_O of each layer of a BERT model folder.

Prints |after - before| / |before| in percent (Frobenius norms).
"""
import array
import json
import math
import os
import sys

NAMES = {"W_Q": "attention.self.query", "W_K": "attention.self.key", "W_V": "attention.self.value",
         "W_O": "attention.output.dense"}


def tensors(folder):
    """Returns a function from the end of a tensor's name to its numbers, or to None if there is no such tensor."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        head, start = json.loads(f.read(size)), 8 + size

    def read(end):
        name = next((n for n in head if n.endswith(end)), None)
        if name is None:
            return None
        if head[name]["dtype"] != "F32":
            sys.exit(f"{folder}: {name}: expected F32, found {head[name]['dtype']}")
        first, last = head[name]["data_offsets"]
        numbers = array.array("f")
        with open(os.path.join(folder, "model.safetensors"), "rb") as f:
            f.seek(start + first)
            numbers.frombytes(f.read(last - first))
        return numbers

    return read


def main():
    before, after = map(tensors, sys.argv[1:3] if len(sys.argv) == 3 else sys.exit(__doc__))
    print("layer" + "".join(f"{n:>9}" for n in NAMES))
    layer = 0
    while before(f"layer.{layer}.{NAMES['W_Q']}.weight"):
        line = f"{layer:5}"
        for name in NAMES.values():
            a, b = (read(f"layer.{layer}.{name}.weight") for read in (before, after))
            moved, size = math.fsum((y - x) ** 2 for x, y in zip(a, b)), math.fsum(x * x for x in a)
            line += f"{100 * math.sqrt(moved / size):8.2f}%"
        print(line)
        layer += 1


if __name__ == "__main__":
    main()
