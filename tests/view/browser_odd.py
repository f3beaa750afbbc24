# SPDX-License-Identifier: MIT
# browser_odd.py: tests pages of make_odd in a real browser: the numbers of the page equal the numbers of C, long texts
# open.
#   browser_odd.py MAKE_ODD FOLDER odd|large
# Exit 77: Chromium is not installed.
import json, os, subprocess, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome
from said import check

PAGES = {"odd": ("formula-40", "formula-220", "given", "tokens-1200"), "large": ("tokens-4096", "tokens-100000")}


def expected(path):
    with open(path + ".json", encoding="utf-8") as f:
        return json.load(f)


def open_page(c, path):
    """Returns the seconds from opening the file to the first picture."""
    start = time.monotonic()
    c.open(path + ".html")
    c.wait("!!globalThis.qkv && !!qkv.timing")
    return time.monotonic() - start


def same_numbers(c, name, d):
    """Every row of the .json equals the row of the page, within the error that the page states."""
    for l, h, i, want in d["rows"]:
        got = {int(j): w for j, w in c.js("[...qkv.row(%d, %d, %d)].flatMap((w, j) => w === 0 ? [] :"
                                          " [[j, w === w ? w : null]])" % (l, h, i))}
        want = {int(j): w for j, w in want.items()}
        for j in set(got) | (set() if d["top"] else set(want)):
            a, b = got.get(j, 0), want.get(j, 0)
            if a is None or b is None:
                check(a is b, name, l, h, i, j, "expected", b, "found", a)
            else:  # float rounding of exp and of sums lies below 1e-5
                check(abs(a - b) <= d["error"] + 1e-5, name, l, h, i, j, "expected", b, "found", a)
        if d["top"]:
            check(0 < len(got) <= d["top"], name, len(got))


def pyramids_are_maxima_and_means(c, name):
    """Coarser blocks are the maxima of the finer blocks; attention received sums to the rows."""
    c.js("void (globalThis.W = qkv.page.stack.weights)")
    fine, coarse = (c.js("[...W.pyramid(0, 1, %d, 'max')]" % n) for n in (64, 32))
    for a in range(32):
        for b in range(32):
            most = max(fine[(2 * a + x) * 64 + 2 * b + y] for x in (0, 1) for y in (0, 1))
            check(coarse[a * 32 + b] == most, name, a, b)
    rows, received = c.js("W.T"), c.js("W.received(0, 1).reduce((s, x) => s + x, 0)")
    kept = c.js("Array.from({length: W.T}, (_, i) => 1 - W.rest(0, 1, i)).reduce((s, x) => s + x, 0)")
    # weights that the budget excluded were received, too
    check(-1e-3 * rows < received - kept < .01 * rows, name, "received", received, "of", kept)


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in PAGES:
        print("usage: browser_odd.py MAKE_ODD FOLDER odd|large")
        return 2
    path = chrome.find()
    if not path:
        print("skipped: no Chromium or Chrome that runs (QKV_CHROME names one)")
        return 77
    folder, size = sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    subprocess.run([sys.argv[1], folder] + (["large"] if size == "large" else []), check=True)
    c = chrome.Chrome(path)
    failed = 0
    try:
        c.size(1440, 900)
        for name in PAGES[size]:
            at, d = os.path.join(folder, name), expected(os.path.join(folder, name))
            c.errors.clear()
            try:
                seconds = open_page(c, at)
                same_numbers(c, name, d)
                if d["kind"] == "top":
                    pyramids_are_maxima_and_means(c, name)
                c.settle(.6)
                c.shot(at + ".png")
                check(not c.errors, "console:", c.errors[:3])
                check(d["bytes"] == os.path.getsize(at + ".html") and d["bytes"] <= 25e6, name, d["bytes"])
                print("ok   %s: %s, %d bytes, first picture after %.1f s" % (name, d["kind"], d["bytes"], seconds),
                      flush=True)
            except Exception as e:
                failed += 1
                print("FAIL", name + ":", str(e)[:1500], flush=True)
    finally:
        c.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
