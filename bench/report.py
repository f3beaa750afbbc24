# SPDX-License-Identifier: MIT
"""report.py: prints the records of bench/run.py as tables, for the terminal and for docs/performance/figures.md."""
import os
import re
import statistics

import plot

BEGIN, END = "<!-- figures: made by bench/run.py --doc -->", "<!-- end of the figures -->"


def digits(x):
    if x == 0:
        return "0"
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}" if x >= 0.1 else f"{x:.1e}"


def ratios(record, who):
    """Returns how many times better qkv is than `who`: (ratio of the best times, median ratio of the rounds)."""
    a, b = record["who"]["qkv"], record["who"][who]
    if record["lower_is_better"]:
        a, b = b, a
    # in one round both ran on the same machine state; the medians only if the numbers of rounds differ
    pairs = list(zip(a["rounds"], b["rounds"])) if len(a["rounds"]) == len(b["rounds"]) else \
        [(a["median"], b["median"])]
    divide = lambda x, y: x / y if y else float("inf")
    return divide(a["best"], b["best"]), statistics.median(divide(x, y) for x, y in pairs)


def error(record, who):
    e = record.get("error", {}).get(who)
    return "" if e is None else f"{e:.1e}"


def share(record):
    peak = record.get("peak")
    return f"{100 * peak['share']:.0f} %" if peak and peak["median"] else ""


def wanted(record, want):
    """Returns the share of the peak that the goal requires, given the rival's figure: above 100 % no kernel of this
    arithmetic reaches it."""
    peak = record.get("peak")
    if not peak or not peak["median"] or record["lower_is_better"] or want["of"] not in record["who"]:
        return ""
    return f"{100 * want['least'] * record['who'][want['of']]['median'] / peak['median']:.0f} %"


def ran(record):
    """Returns the kernel of qkv's row: "avx512bf16, bf16 pairs"."""
    peak = record.get("peak")
    return ", ".join(filter(None, (record.get("isa"), peak and peak["of"])))


HEAD = ("", "unit", "cores", "qkv", "of peak", "error", "rival", "its figure", "its error", "ratio of bests",
        "median ratio")


def table(records, markdown):
    """Returns lines of text, one per figure, with a blank line between sections."""
    records = [r for r in records if "who" in r]
    order = list(dict.fromkeys(r["section"] for r in records))
    out, section = [], None
    for r in sorted(records, key=lambda r: order.index(r["section"])):
        if r["section"] != section:
            section = r["section"]
            what = ran(r)
            out.append(f"\n### {section}\n" if markdown else f"\n{section}{f'  ({what})' if what else ''}")
            if markdown:
                out.append((f"qkv ran {what}.\n\n" if what else "") +
                           "| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
        rivals = [w for w in r["who"] if w != "qkv"] or [None]
        for w in rivals:
            ours = digits(r["who"]["qkv"]["best"]) if "qkv" in r["who"] else ""
            both = ratios(r, w) if w and ours else None
            cells = (r["row"], r["unit"], str(r["threads"]), ours, share(r), error(r, "qkv"), w or "",
                     digits(r["who"][w]["best"]) if w else "", error(r, w),
                     digits(both[0]) if both else "", digits(both[1]) if both else "")
            if markdown:
                out.append("| " + " | ".join(cells) + " |")
            else:
                out.append("  %-62s %-11s %2s %9s %5s %8s  %-26s %10s %8s %7s %7s" % cells)
    return "\n".join(out)


def goals(records, markdown):
    """Returns the goals and whether they are reached, judged by the median over the rounds of the ratio within one
    round, which does not change when the machine is slow for a while."""
    out = []
    if markdown:
        head = ("work", "compared with", "goal", "stretch goal", "ratio of bests", "median ratio", "of peak",
                "goal, of peak", "result")
        out.append("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    missed = 0
    wishes = [(r, w) for r in records
              for w in (r["goal"] if isinstance(r.get("goal"), list) else [r.get("goal")]) if w]
    for r, want in wishes:
        if not want.get("least"):
            continue
        name = f"{r['section']}: {r['row']}"
        if want["of"] not in r["who"] or "qkv" not in r["who"]:
            cells = (name, want["of"], f"{want['least']:.3g}", str(want.get("aim") or ""), "", "", "", "",
                     "not measured")
        else:
            best, median = ratios(r, want["of"])
            least, aim = want["least"], want.get("aim") or float("inf")
            missed += median < least
            word = "stretch goal reached" if min(best, median) >= aim else \
                "reached" if min(best, median) >= least else \
                "reached by the median" if median >= least else \
                "**not reached**, only by the bests" if best >= least else "**not reached**"
            cells = (name, want["of"], f"{want['least']:.3g}", str(want.get("aim") or ""), digits(best),
                     digits(median), share(r), wanted(r, want), word)
        out.append("| " + " | ".join(cells) + " |" if markdown else
                   "  %-82s %-24s %5s %5s %7s %7s %5s %5s  %s" % (cells[:8] + (cells[8].replace("**", ""),)))
    if not out or (markdown and len(out) == 1):
        return ""
    if not markdown:
        out.insert(0, "\ngoal, stretch goal, ratio of bests, median ratio, of peak, goal of peak" + (f": {missed} not reached" if missed else ": all reached"))
    return "\n".join(out)


def growth(record, markdown):
    """Returns time and memory against n as a table: one row per length, one column per line of the plot."""
    lines = record["growth"]
    lengths = sorted({r["n"] for rows in lines.values() for r in rows})
    at = {who: {r["n"]: r for r in rows} for who, rows in lines.items()}
    out = []
    for title, of in (("time, ms", lambda r: digits(1e3 * r["seconds"])),
                      ("growth of the process's peak, MiB", lambda r: digits(r["grown"] / 2**20))):
        head = [f"n ({title})", *lines]
        rows = [[f"{n:,}", *[of(at[w][n]) if n in at[w] else "" for w in lines]] for n in lengths]
        if markdown:
            out.append("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
            out += ["| " + " | ".join(r) + " |" for r in rows]
        else:
            widths = [max(len(x) for x in column) for column in zip(head, *rows)]
            out.append("")
            out += ["  " + "  ".join(x.rjust(w) for x, w in zip(r, widths)) for r in [head, *rows]]
    return "\n".join(out)


def text(parts):
    """Prints all figures for the terminal."""
    records = [r for part in parts.values() for r in part["records"]]
    out = [table(records, False)]
    for r in records:
        if "growth" in r:
            out.append(f"\n{r['section']}" + growth(r, False))
    out.append(goals(records, False))
    all_ratios = [ratios(r, w)[0] for r in records if "who" in r and "qkv" in r["who"]
              for w in r["who"] if w != "qkv"]
    if all_ratios:
        out.append(f"\n{len(all_ratios)} comparisons; ratio above 1: qkv is better; "
                   f"middle one {statistics.median(all_ratios):.2f}")
    return "\n".join(x for x in out if x)


def where(part):
    m = part["machine"]
    core = min([r["core"] for r in part["records"] if r.get("core")] or [1])
    busy = f"; **busy machine: as little as {100 * core:.0f} % of the core**" if core < 0.95 else ""
    return (f"{m['date']}, {m['cpu']}, {m['cores']} core{'s' if m['cores'] > 1 else ''}, commit {m['commit']}{busy}"
            f"{'; quick: few rounds and shapes' if part['quick'] else ''}")


def markdown(parts, plots):
    """Returns the figures of docs/performance/figures.md.  plots: the folder of the drawings."""
    records = [r for part in parts.values() for r in part["records"]]
    out = ["## Goals, and the figures\n",
           "Each row has a goal of the project as a ratio to another program. Ratio: qkv's figure divided by the other's. "
           "Of peak: qkv's share of the peak of the arithmetic that ran, measured in the same rounds. Goal, of peak: the "
           "share that the goal would need; above 100 % this machine cannot reach the goal in that arithmetic.\n",
           goals(records, True) or "No goal has been measured yet."]
    grown = [(name, part, r) for name, part in parts.items() for r in part["records"] if "growth" in r]
    for name, part, r in grown:
        drawing = os.path.join(plots, "growth.svg")
        with open(drawing, "w", encoding="utf-8") as f:
            f.write(plot.growth(r))
        out += [f"\n## How cost grows\n\n{r['section'][8:].capitalize()}, causal; each length runs in its own "
                "process. Both axes are logarithmic: a line that rises two decades while n rises one is "
                "quadratic.\n\n![time and memory against the number of tokens](growth.svg)\n",
                f"`make bench BENCH={name}`: {where(part)}", growth(r, True)]
    out.append("\n## Figures")
    for name, part in parts.items():
        if any("who" in r for r in part["records"]):
            out += [table(part["records"], True), f"\n`make bench BENCH={name}`: {where(part)}"]
    return "\n".join(out)


def write(path, parts):
    """Writes the figures between the two marks of the page."""
    with open(path, encoding="utf-8") as f:
        page = f.read()
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"bench: {path}: expected the two marks {BEGIN} and {END}")
    made = markdown(parts, os.path.dirname(path))
    page = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: f"{BEGIN}\n\n{made}\n\n{END}", page,
                  flags=re.S)
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)
