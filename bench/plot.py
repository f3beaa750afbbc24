# SPDX-License-Identifier: MIT
"""plot.py: draws time and memory against the number of tokens as one SVG, with Python's standard library only.

The colours of the surrounding page are unknown: text and axes have one grey with contrast on white and on black, and
so do the colours of the lines; each line is labelled at its end, so that a reader need not distinguish colours.
"""
import html
import math

WIDTH, HEIGHT = 950, 380                             # size of the drawing
LEFT, TOP, PANEL, TALL, GAP = 58, 34, 250, 300, 210  # size of a panel; GAP has space for names and for the numbers of the next panel
COLORS = ("#0a84d0", "#d9480f", "#2b9348", "#a64ac9", "#b58900", "#888888")
GREY = "#7d8590"


def number(x, unit):
    """Formats a number with its unit: 1e-3 as "1 ms", 1048576 as "1M"."""
    if unit == "n":
        return f"{x >> 20}M" if x >= 1 << 20 else f"{x >> 10}k" if x >= 1 << 10 else str(x)
    steps = ((1e-6, "µs"), (1e-3, "ms"), (1, "s"), (60, None)) if unit == "s" else \
        ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, None))
    for (size, name), (after, _) in zip(steps, steps[1:]):
        if x < after * 0.999 or name == steps[-2][1]:
            return f"{x / size:.3g} {name}"
    return str(x)


class Panel:
    """Draws one pair of logarithmic axes with its lines."""

    def __init__(self, left, title, unit, lines):
        self.left, self.title, self.unit = left, title, unit
        self.lines = {who: [(n, y) for n, y in points if y > 0] for who, points in lines.items()}
        points = [p for line in self.lines.values() for p in line]
        self.n0, self.n1 = min(n for n, _ in points), max(n for n, _ in points)
        base = self.base = 10 if unit == "s" else 2
        step = self.step = 1 if unit == "s" else 4
        self.y0 = math.floor(math.log(min(y for _, y in points), base) / step) * step
        self.y1 = math.ceil(math.log(max(y for _, y in points), base) / step) * step

    def x(self, n):
        return self.left + PANEL * math.log(n / self.n0) / math.log(self.n1 / self.n0)

    def y(self, value):
        return TOP + TALL * (1 - (math.log(value, self.base) - self.y0) / (self.y1 - self.y0))

    def axes(self):
        out = [f'<text x="{self.left}" y="{TOP - 14}" class="title">{self.title}</text>']
        for i in range(self.y0, self.y1 + 1, self.step):
            y = self.y(self.base ** i)
            out.append(f'<path d="M{self.left} {y:.1f}h{PANEL}" class="grid"/>'
                       f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">'
                       f'{number(self.base ** i, self.unit)}</text>')
        n = self.n0
        while n <= self.n1:
            out.append(f'<path d="M{self.x(n):.1f} {TOP}v{TALL}" class="grid"/>'
                       f'<text x="{self.x(n):.1f}" y="{TOP + TALL + 16}" text-anchor="middle">'
                       f'{number(n, "n")}</text>')
            n *= 8
        out.append(f'<text x="{self.left + PANEL / 2}" y="{TOP + TALL + 34}" text-anchor="middle">'
                   'tokens</text>')
        return out

    def draw(self):
        out, names = self.axes(), []
        for (who, line), color in zip(self.lines.items(), COLORS):
            at = [(self.x(n), self.y(v)) for n, v in line]
            out.append(f'<path d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in at)}" stroke="{color}" '
                       'class="line"/>')
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color}"/>' for x, y in at]
            names.append([at[-1][1], at[-1][0], who, color])
        last = -1e9
        for y, x, who, color in sorted(names):  # keep labels one line height apart
            last = max(y + 4, last + 13)
            out.append(f'<path d="M{x + 3:.1f} {y:.1f}L{self.left + PANEL + 4} {last - 4:.1f}" '
                       f'stroke="{color}" class="lead"/>'
                       f'<text x="{self.left + PANEL + 7}" y="{last:.1f}" fill="{color}">'
                       f'{html.escape(who)}</text>')
        return out


def growth(record):
    """Returns the SVG of a record of growth.py."""
    lines = record["growth"]
    panels = [Panel(LEFT, "time of one attention", "s",
                    {who: [(r["n"], r["seconds"]) for r in rows] for who, rows in lines.items()}),
              Panel(LEFT + PANEL + GAP, "memory beyond q, k, v and out", "B",
                    {who: [(r["n"], r["grown"]) for r in rows] for who, rows in lines.items()})]
    body = "\n".join(x for panel in panels for x in panel.draw())
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img">\n<title>{html.escape(record["section"])}: time and memory against '
            'the number of tokens</title>\n'
            f'<style>text{{font:11px sans-serif}}text:not([fill]){{fill:{GREY}}}.title{{font-size:13px;'
            f'font-weight:bold}}.grid{{stroke:{GREY};stroke-opacity:.3;fill:none}}'
            '.line{fill:none;stroke-width:1.8}.lead{fill:none;stroke-opacity:.5;stroke-dasharray:2 2}</style>\n'
            f'{body}\n</svg>\n')
