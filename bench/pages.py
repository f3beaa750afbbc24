# SPDX-License-Identifier: MIT
"""pages.py: writes stored results into docs: a page per CPU (docs/performance/CPU.md), and the first table of
docs/performance.md from the results of all CPUs (docs/performance/CPU.json).
"""
import fnmatch
import json
import os
import re

import plot
import report

BEGIN, END = "<!-- figures: made by bench/run.py -->", "<!-- end of the figures -->"
PAGE = """# Figures of {name}

`make bench` writes the part between the two marks; [performance.md](../performance.md) says how each figure is measured.
Each part ends with its command, date, machine and commit.

{begin}
{end}
"""


def between(page, made, path):
    """Returns the page with new figures between the two marks."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"bench: {path}: expected the two marks {BEGIN} and {END}")
    return re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: f"{BEGIN}\n\n{made}\n\n{END}", page, flags=re.S)


def of_cpu(parts, key, folder):
    """Returns the figures of docs/performance/CPU.md, and writes the drawing of growth."""
    records = [r for part in parts.values() for r in part["records"]]
    out = ["## Goals\n",
           "Reached: the share of the limit, or how many times better qkv is than the program; the median over the rounds. The limit "
           "is the peak of the arithmetic that ran or a plain read of as many bytes, measured in the same rounds, or what "
           "the row names. Of a figure that is to stay below a number, the share is this number divided by the figure.\n",
           report.judged(records, True, key) or "No goal has been measured yet."]
    for name, part in parts.items():
        for r in part["records"]:
            if "growth" not in r:
                continue
            with open(os.path.join(folder, f"{key}-growth.svg"), "w", encoding="utf-8") as f:
                f.write(plot.growth(r))
            out += [f"\n## How cost grows\n\n{r['section'][8:].capitalize()}, causal; each length runs in its own "
                    "process. Both axes are logarithmic: a line that rises two decades while n rises one is "
                    f"quadratic.\n\n![time and memory against the number of tokens]({key}-growth.svg)\n",
                    f"`make bench BENCH={name}`: {report.where(part)}", report.growth(r, True)]
    out.append("\n## Figures\n\nA row compares qkv with a program or a bound. cores: threads. qkv, its figure: the best of the rounds. share: "
               "qkv's share of the limit, by the median; where less is better, a fixed limit divided by the figure. error: the "
               "largest error against the formula in double (server: 1 - cosine). Ratio: how many times better qkv is; above 1, "
               "qkv is faster or smaller.")
    for name, part in parts.items():
        if any("who" in r for r in part["records"]):
            out += [report.figures(part["records"], True), f"\n`make bench BENCH={name}`: {report.where(part)}"]
    return "\n".join(out)


def found(parts, part, section, row):
    """Returns the first record of a part with a figure of qkv whose section and row match, or None."""
    for r in parts.get(part, {"records": []})["records"]:
        if "qkv" in r.get("who", ()) and fnmatch.fnmatchcase(r["section"], section) and fnmatch.fnmatchcase(r["row"], row):
            return r
    return None


def top_cell(parts, part, section, row, programs, ratio_row=None):
    """Returns the figure of one CPU: share of the limit, and how many times faster qkv is than each of the programs.

    Of the programs that a pattern matches the fastest counts.  ratio_row: the row with the programs, if it is another one.
    """
    r, other = found(parts, part, section, row), found(parts, part, section, ratio_row or row)
    if not r:
        return "not measured"
    compared = []
    for pattern in programs:
        of = {w: x["median"] for w, x in (other or r)["who"].items() if "median" in x and fnmatch.fnmatchcase(w, pattern)}
        if of:
            fastest = min(of, key=of.get)
            compared.append(f"{report.digits(of[fastest])} x {fastest}")
    first = report.shown_share(r) if (r.get("limit") or "").startswith(("peak", "plain")) else \
        f"{report.digits(r['who']['qkv']['best'])} {r['unit']}"
    core = report.least_core([r, other])
    return "; ".join([first, *compared]) + (" (busy machine)" if core and core < report.BUSY else "")


def first_table(every, top):
    """Returns the first table of docs/performance.md: a row per work, a column per CPU."""
    out = [report.heading(["work", *(f"[{name}](performance/{key}.md)" for key, (name, _) in every.items()), "command"])]
    for title, part, *which in top:
        cells = [top_cell(parts, part, *which) for _, parts in every.values()]
        out.append(report.line([title, *cells, f"`make bench BENCH={part}`"], True, None))
    return "\n".join(out)


def write(docs, top):
    """Writes the pages of all CPUs whose results are stored, and the first table."""
    folder, every = os.path.join(docs, "performance"), {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".json"):
            continue
        key = file[:-5]
        with open(os.path.join(folder, file), encoding="utf-8") as f:
            kept = json.load(f)
        every[key] = kept["name"], kept["parts"]
        path = os.path.join(folder, f"{key}.md")
        page = PAGE.format(name=kept["name"], begin=BEGIN, end=END)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                page = f.read()
        page = between(page, of_cpu(kept["parts"], key, folder), path)
        with open(path, "w", encoding="utf-8") as f:
            f.write(page)
    path = os.path.join(docs, "performance.md")
    with open(path, encoding="utf-8") as f:
        page = f.read()
    page = between(page, first_table(every, top), path)
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)
