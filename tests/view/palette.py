# SPDX-License-Identifier: MIT
# palette.py: checks the colours of the page, computed from its style sheet.
#
# Contrast: WCAG 2.2. Distance: OKLab (Ottosson 2020), for normal, protan, deutan and tritan vision (Machado,
# Oliveira, Fernandes 2009, severity 1).
import re

SIGHT = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[.152286, 1.052583, -.204868], [.114503, .786281, .099216], [-.003882, -.048116, 1.051998]],
    "deutan": [[.367322, .860646, -.227968], [.280085, .672501, .047413], [-.011820, .042940, .968881]],
    "tritan": [[1.255528, -.076749, -.178779], [-.078411, .930809, .147602], [.004733, .691367, .303900]],
}


def linear(colour):
    out = []
    for k in (1, 3, 5):
        c = int(colour[k:k + 2], 16) / 255
        out.append(c / 12.92 if c <= .04045 else ((c + .055) / 1.055) ** 2.4)
    return out


def luminance(colour):
    r, g, b = linear(colour)
    return .2126 * r + .7152 * g + .0722 * b


def contrast(a, b):
    x, y = sorted((luminance(a), luminance(b)))
    return (y + .05) / (x + .05)


def oklab(rgb):
    r, g, b = (min(1, max(0, c)) for c in rgb)
    l = (.4122214708 * r + .5363325363 * g + .0514459929 * b) ** (1 / 3)
    m = (.2119034982 * r + .6806995451 * g + .1073969566 * b) ** (1 / 3)
    s = (.0883024619 * r + .2817188376 * g + .6299787005 * b) ** (1 / 3)
    return (.2104542553 * l + .7936177850 * m - .0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + .4505937099 * s,
            .0259040371 * l + .7827717662 * m - .8086757660 * s)


def seen(colour, sight):
    rgb = linear(colour)
    return oklab([sum(row[k] * rgb[k] for k in range(3)) for row in SIGHT[sight]])


def least(colours):
    """Smallest OKLab distance x 100 between any two, for any sight."""
    out = 1e9
    for sight in SIGHT:
        points = [seen(c, sight) for c in colours]
        for i, a in enumerate(points):
            for b in points[:i]:
                out = min(out, 100 * sum((x - y) ** 2 for x, y in zip(a, b)) ** .5)
    return out


def themes(page):
    style = page[page.index("<style>"):page.index("</style>")]
    light, dark = {}, {}
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
        names = dict(re.findall(r"--([a-z0-9]+):\s*([^;]+)", body))
        if selector.endswith(":root") and "ramp" in names:
            light = names
        if re.search(r'data-theme="?dark', selector) and "ramp" in names:  # a minifier drops the quotes
            dark = names
    return light, dark


def check(page, check):
    for name, t in zip(("light", "dark"), themes(page)):
        heads, ramp = t["heads"].split(), t["ramp"].split()
        check(len(heads) == 16 and len(set(heads)) == 16 and len(ramp) == 9, name, "palette is not whole")
        for c, low in (("text", 7), ("text2", 4.5), ("text3", 4.5), ("hot", 4.5)):
            check(contrast(t[c], t["paper"]) >= low, name, c, contrast(t[c], t["paper"]))
        check(contrast(t["text"], t["mark"]) >= 7, name, "mark", contrast(t["text"], t["mark"]))
        for c in heads:
            check(contrast(c, t["paper"]) >= (3 if name == "light" else 4.5) - .005, name, c, contrast(c, t["paper"]))
        for n, low in ((4, 12.5), (8, 5.7), (12, 4.5), (16, 4.5)):
            check(least(heads[:n]) >= low - .05, name, "heads 0 to", n - 1, "are", least(heads[:n]), "apart")
        steps = [oklab(linear(c))[0] for c in ramp]
        rise = [b - a for a, b in zip(steps, steps[1:])]
        check(all(r * rise[0] > 0 for r in rise), name, "ramp is not in order", steps)
        check(max(map(abs, rise)) - min(map(abs, rise)) < .02, name, "ramp steps differ", rise)
        for c in ramp:  # a number on a cell is black or white
            check(max(contrast(c, "#000000"), contrast(c, "#ffffff")) >= 4.5, name, c)
