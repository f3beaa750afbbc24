#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""aircraft.py OUT: writes made-up notes of aircraft maintenance, each with the system that it is about.

Half of the words are of the trade: "empennage", "borescoped", "AMM".  A tokenizer that was trained on other texts
splits them badly, and no single word decides: pumps, filters, sensors and cracks occur in every system.  Writes
OUT/aircraft/train.tsv and test.tsv (note, tab, label), the same bytes on every machine; no note of one is in the other.
"""
import os
import sys
from dates import Random

COUNTS = {"train": 240, "test": 90}
SYSTEMS = {
    "engine": ("HP compressor", "combustor liner", "N1 fan blade", "igniter plug", "turbine nacelle", "FADEC channel"),
    "hydraulics": ("green system reservoir", "EDP case drain", "brake accumulator", "actuator manifold", "PTU", "servo valve"),
    "airframe": ("empennage skin", "wing rib 12", "fuselage frame", "stringer 7L", "aileron hinge", "radome"),
}
FINDINGS = ("found chafed iaw AMM", "borescoped, nick within limits", "sensor reading intermittent", "seal weeping",
            "cracked beyond SRM limits", "filter clogged", "pump noisy on run-up", "connector corroded",
            "fastener missing", "leak check failed")
ACTIONS = ("replaced and ops checked good", "deferred per MEL", "cleaned, no further defect", "re-torqued",
           "blend repaired", "tech log entry raised", "swapped with serviceable unit", "awaiting parts")
FORMS = ("{part} {finding}, {action}", "{finding} at {part}; {action}", "on walkround: {part} {finding}. {action}")


def main():
    out = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    folder = os.path.join(out, "aircraft")
    os.makedirs(folder, exist_ok=True)
    random, seen = Random(1903), set()
    one = lambda items: items[random.below(len(items))]
    for name, count in COUNTS.items():
        with open(os.path.join(folder, name + ".tsv"), "w", encoding="ascii", newline="\n") as f:
            while count:
                label = one(tuple(SYSTEMS))
                note = one(FORMS).format(part=one(SYSTEMS[label]), finding=one(FINDINGS), action=one(ACTIONS))
                if note not in seen:
                    seen.add(note)
                    f.write(f"{note}\t{label}\n")
                    count -= 1


if __name__ == "__main__":
    main()
