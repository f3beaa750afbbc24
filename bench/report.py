# SPDX-License-Identifier: MIT
"""report.py: prints the records of bench/run.py as tables, for the terminal and for the pages of docs/performance."""
import fnmatch
import statistics

import goals

BUSY = 0.95  # share of a core below which other programs ran on it
BOUNDS = ("limit", "plain read", "peak of *", "memchr", "T x S scores", "twice one process alone", "two processes")


def digits(x):
    if x == 0:
        return "0"
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}" if x >= 0.1 else f"{x:.1e}"


def percent(x):
    return f"{100 * x:.0f} %"


def error(who):
    return f"{who['error']:.1e}" if "error" in who else ""


def peers(record):
    """Returns the other programs, without the limit."""
    return [w for w in record["who"] if w not in ("qkv", record.get("limit"))]


def is_bound(name):
    """Returns whether a name is that of a limit or a bound, which is no program."""
    return any(fnmatch.fnmatchcase(name, x) for x in BOUNDS)


def least_core(records):
    """Returns the smallest share of a core that the rounds of some records had; None: none was measured."""
    return min((r["core"] for r in records if r and r.get("core")), default=None)


def share(record):
    """Returns qkv's share of the limit, the median over the rounds; None: the record has no limit."""
    return record["who"].get(record.get("limit"), {}).get("median")


def limit_name(record):
    """Returns what the share is a share of: a limit that is a number, not measured, is shown as this number."""
    name = record.get("limit") or ""
    return f"{digits(record['who'][name]['best'])} {record['unit']}".strip() if name == "limit" else name


def shown_share(record):
    return percent(share(record)) if share(record) is not None else ""


HEAD = ("", "unit", "cores", "qkv", "share", "limit", "error", "program or bound", "its figure", "its error", "ratio of bests",
        "median ratio")


def line(cells, markdown, widths):
    if markdown:
        return "| " + " | ".join(cells) + " |"
    return "  " + " ".join(f"{c:<{-w}}" if w < 0 else f"{c:>{w}}" for c, w in zip(cells, widths))


def heading(names):
    return line(names, True, None) + "\n|" + "---|" * len(names)


def figures(records, markdown):
    """Returns a table with a row per figure and program, with a blank line between sections."""
    records = [r for r in records if "who" in r]
    order = list(dict.fromkeys(r["section"] for r in records))
    out, section = [], None
    for r in sorted(records, key=lambda r: order.index(r["section"])):
        if r["section"] != section:
            section = r["section"]
            isa = f"qkv ran {r['isa']}." if r.get("isa") else ""
            cores = f", {r['threads']} cores" if r["threads"] > 1 else ""
            out.append(f"\n### {section}{cores}\n\n{isa + chr(10) * 2 if isa else ''}{heading(HEAD)}" if markdown else
                       f"\n{section}  {isa}")
        ours = r["who"].get("qkv")
        for name in peers(r) or [None]:
            w = r["who"].get(name, {})
            both = [digits(w[k]) if k in w else "" for k in ("ratio", "median")]
            cells = (r["row"], r["unit"], str(r["threads"]), digits(ours["best"]) if ours else "", shown_share(r),
                     limit_name(r), error(ours or {}), name or "", digits(w["best"]) if w else "", error(w), *both)
            out.append(line(cells, markdown, (-62, -11, 2, 9, 5, -16, 8, -26, 10, 8, 7, 7)))
    return "\n".join(out)


def missed_link(cpu, record):
    """Returns the result of a missed goal: with a link to its account, if the CPU has one."""
    heading = goals.account(cpu, record) if cpu else None
    return f"**missed**: [account](../limits.md#{heading.lower().replace(' ', '-')})" if heading else "**missed**"


def judge(records, cpu=""):
    """Returns rows (work, limit or program, reached, wanted, result) for all goals, and the number of goals missed.
    Medians over the rounds count: they do not change when the machine is slow for a while."""
    rows, missed = [], 0
    for r in records:
        for goal in goals.of(r) if "who" in r and "qkv" in r["who"] else []:
            to_limit = not isinstance(goal, tuple)
            pattern, least = (r.get("limit") or "", goal) if to_limit else goal
            for name in fnmatch.filter(r["who"], pattern):
                found = r["who"][name].get("median")
                if found is None:
                    continue
                missed += found < least
                show = percent if to_limit else digits
                shown = show(found)
                if found < least and shown == show(least):  # a goal that is missed by less than the last digit
                    shown = f"{100 * found:.1f} %" if to_limit else f"{found:.3f}"
                cores = f", {r['threads']} cores" if r["threads"] > 1 else ""
                rows.append((f"{r['section']}: {r['row']}{cores}", limit_name(r) if to_limit else name, shown, show(least),
                             "reached" if found >= least else missed_link(cpu, r)))
    return rows, missed


def judged(records, markdown, cpu=""):
    """Returns the table of goals; cpu: name of the CPU's page, where accounts of missed goals are looked up."""
    rows, missed = judge(records, cpu)
    if not rows:
        return ""
    if markdown:
        return "\n".join([heading(("work", "limit or program", "reached", "goal", "")), *(line(r, True, None) for r in rows)])
    return "\n".join([f"\ngoals: share of the limit, or ratio to a program: {missed} of {len(rows)} missed",
                      *(line((*r[:4], r[4].replace("**", "")), False, (-82, -26, 7, 7, -8)) for r in rows)])


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
        widths = [max(len(x) for x in column) for column in zip(head, *rows)]
        out += ["", heading(head) if markdown else line(head, False, widths), *(line(r, markdown, widths) for r in rows)]
    return "\n".join(out)


def text(parts):
    """Returns all figures for the terminal."""
    records = [r for part in parts.values() for r in part["records"]]
    out = [figures(records, False)]
    for r in records:
        if "growth" in r:
            out.append(f"\n{r['section']}" + growth(r, False))
    out.append(judged(records, False))
    ratios = [r["who"][w]["ratio"] for r in records if "who" in r for w in peers(r)
              if "ratio" in r["who"][w] and not is_bound(w)]
    if ratios:
        out.append(f"\n{len(ratios)} comparisons; ratio above 1: qkv is better; middle one {statistics.median(ratios):.2f}")
    return "\n".join(x for x in out if x)


def where(part):
    m = part["machine"]
    core = least_core(part["records"])
    busy = f"; **busy machine: as little as {100 * core:.0f} % of the core**" if core and core < BUSY else ""
    return (f"{m['date']}, {m['cpu']}, {m['cores']} core{'s' if m['cores'] > 1 else ''}, commit {m['commit']}{busy}"
            f"{'; quick: few rounds and shapes' if part['quick'] else ''}")
