#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""font_widths.py FOLDER... > src/view/canvas/text_widths.def: computes how wide characters are in the widest of the
fonts DejaVu, Liberation and Noto, which are a browser's usual fallbacks on Linux.

The folders contain the .ttf files of the Debian packages fonts-dejavu-core, fonts-dejavu-extra, fonts-liberation and
fonts-noto-core.  Each row of the output is a range of characters with the widest advance of the range in four styles:
sans-serif, sans-serif bold, serif, serif bold (of each style also the italic), in 1/1000 of the font size.
Neighbouring characters share a row if their widths differ by at most the tolerance, so that a width is never too small.
"""
import os
import struct
import sys

TOLERANCE = {0x00: 0, 0x100: 150, 0x180: 400, 0x370: 150, 0x460: 500, 0x590: 1200, 0x2000: 150, 0x2060: 900,
             0x2190: 300, 0x2200: 900}  # from this character on, in 1/1000 of the font size
LAST = 0xFFFF
MAIN = ("DejaVu", "Liberation", "NotoSans-", "NotoSerif-")  # other fonts have the characters that these lack
SERIF = ("Serif", "Naskh", "Nastaliq", "Kufi", "Rashi")


def style(name):
    """Returns the index of a font's style, or None for a font that is never a fallback for text."""
    if not name.endswith(".ttf") or any(w in name for w in ("Mono", "Narrow", "Condensed", "Light", "Math", "Display")):
        return None
    return 2 * any(w in name for w in SERIF) + ("Bold" in name)


def tables(data):
    count = struct.unpack(">H", data[4:6])[0]
    rows = (struct.unpack(">4sIII", data[12 + 16 * i:28 + 16 * i]) for i in range(count))
    return {tag.decode(): data[at:at + size] for tag, _, at, size in rows}


def characters(cmap):
    """Yields (character, glyph) of the Unicode subtables, formats 4 and 12."""
    for i in range(struct.unpack(">H", cmap[2:4])[0]):
        platform, _, at = struct.unpack(">HHI", cmap[4 + 8 * i:12 + 8 * i])
        form = struct.unpack(">H", cmap[at:at + 2])[0]
        if platform not in (0, 3):
            continue
        if form == 12:
            for k in range(struct.unpack(">I", cmap[at + 12:at + 16])[0]):
                first, last, glyph = struct.unpack(">III", cmap[at + 16 + 12 * k:at + 28 + 12 * k])
                for c in range(first, last + 1):
                    yield c, glyph + c - first
        elif form == 4:
            n = struct.unpack(">H", cmap[at + 6:at + 8])[0] // 2
            part = lambda k: struct.unpack(">%dH" % n, cmap[at + 14 + k:at + 14 + k + 2 * n])
            ends, starts, deltas, offsets = part(0), part(2 * n + 2), part(4 * n + 2), part(6 * n + 2)
            for k in range(n):
                for c in range(starts[k], min(ends[k], 0xFFFE) + 1):
                    glyph = c
                    if offsets[k]:
                        where = at + 14 + 6 * n + 2 + 2 * k + offsets[k] + 2 * (c - starts[k])
                        glyph = struct.unpack(">H", cmap[where:where + 2])[0]
                        if not glyph:
                            continue
                    yield c, (glyph + deltas[k]) & 0xFFFF


def read(path, widest, which):
    with open(path, "rb") as f:
        t = tables(f.read())
    unit = struct.unpack(">H", t["head"][18:20])[0]
    count = struct.unpack(">H", t["hhea"][34:36])[0]
    for c, glyph in characters(t["cmap"]):
        if 0x20 <= c <= LAST:
            k = min(glyph, count - 1)
            width = -(-struct.unpack(">H", t["hmtx"][4 * k:4 * k + 2])[0] * 1000 // unit)
            row = widest.setdefault(c, [0] * 4)
            row[which] = max(row[which], width)


def fill(row):
    """A style whose fonts lack a character shows it in another style's font, made bold if needed."""
    most = max(row)
    return [w or max(row[k ^ 2], row[k & 2], row[0], 0) or most for k, w in enumerate(row)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    widest, others = {}, {}
    for folder in sys.argv[1:]:
        for top, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                if style(name) is not None:
                    read(os.path.join(top, name), widest if name.startswith(MAIN) else others, style(name))
    for c, row in others.items():
        if 0x590 <= c < 0x2000:
            widest.setdefault(c, row)
    rows = []
    for c in sorted(widest):
        row, tolerance = fill(widest[c]), max(t for t in TOLERANCE.items() if t[0] <= c)[1]
        if rows and (rows[-1][1] == c - 1 or (c >= 0x590 and c - rows[-1][1] < 24)):
            low = [min(a, b) for a, b in zip(rows[-1][3], row)]
            high = [max(a, b) for a, b in zip(rows[-1][2], row)]
            if all(b - a <= tolerance for a, b in zip(low, high)):
                rows[-1] = (rows[-1][0], c, high, low)
                continue
        rows.append((c, c, row, row))
    print("// SPDX-License-Identifier: MIT\n// text_widths.def: W(first, last character, sans-serif, bold, "
          "serif, bold): the widest advance\n// in DejaVu, Liberation and Noto, in 1/1000 of the font size. "
          "Written by tools/font_widths.py.")
    line = ""
    for first, last, row, _ in rows:
        entry = "W(0x%x, 0x%x, %s)" % (first, last, ", ".join(map(str, row)))
        if len(line) + len(entry) > 98:
            print(line)
            line = ""
        line += (" " if line else "") + entry
    print(line)


if __name__ == "__main__":
    main()
