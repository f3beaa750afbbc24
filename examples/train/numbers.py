#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""numbers.py OUT: writes integers with their names: "40,127", tab, "forty thousand one hundred twenty-seven".

Numbers of 1 to 9 digits, as many of each length; numbers over 100 whose digits sum to a multiple of 17 are held out:
one part for testing, one for validation.  Writes OUT/numbers/train.tsv, valid.tsv, test.tsv, the same bytes on every
machine.
"""
import os
import sys

from dates import Random, ONES, two_digits

COUNTS = {"train": 120000, "valid": 1000, "test": 3000}


def below_thousand(n):
    hundreds, rest = divmod(n, 100)
    words = [ONES[hundreds] + " hundred"] if hundreds else []
    return " ".join(words + ([two_digits(rest)] if rest else []))


def name(n):
    """Returns 0 .. 999,999,999 in words."""
    if n == 0:
        return "zero"
    parts = []
    for unit, word in ((10**6, " million"), (10**3, " thousand"), (1, "")):
        if n // unit % 1000:
            parts.append(below_thousand(n // unit % 1000) + word)
    return " ".join(parts)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    draw, seen = Random(1), set()
    lines = {part: [] for part in COUNTS}
    while any(len(lines[part]) < COUNTS[part] for part in COUNTS):
        digits = 1 + draw.below(9)
        n = draw.below(10**digits)
        held = n > 100 and sum(map(int, str(n))) % 17 == 0
        part = "train" if not held else "valid" if draw.below(4) == 0 else "test"
        if len(lines[part]) < COUNTS[part] and (n not in seen or part == "train"):
            seen.add(n)
            lines[part].append(f"{n:,}\t{name(n)}\n")
    os.makedirs(f"{sys.argv[1]}/numbers", exist_ok=True)
    for part, rows in lines.items():
        path = f"{sys.argv[1]}/numbers/{part}.tsv"
        with open(path + ".tmp", "w", encoding="utf-8", newline="\n") as f:
            f.writelines(rows)
        os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
