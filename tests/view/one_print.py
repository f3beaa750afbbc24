# SPDX-License-Identifier: MIT
# one_print.py: every weight of a row is printed with the same digits by explain, the terminal, the SVG and the page,
# and has the same bits in a page with padding.
#   one_print.py QKV FOLDER
# Exit 77: Chromium is not installed; the other prints are compared all the same.
import decimal, json, os, re, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome
from said import check

TEXT = "In the beginning God created the heaven and the earth"
MODEL = "models/verse"
ROWS = [(0, 0, 9), (1, 1, 5), (2, 1, 9), (2, 2, 7)]  # layer, head, query
qkv, folder = sys.argv[1:3]
os.makedirs(folder, exist_ok=True)


def run(*args):
    env = {**os.environ, "QKV_MODEL": MODEL, "COLUMNS": "120", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    return subprocess.run([qkv, *args], env=env, capture_output=True, text=True, check=True).stdout


def printed(weight, digits):
    """The print of a weight: rounded half up, without the 0 before the point."""
    unit = decimal.Decimal(1).scaleb(-digits)
    text = str(decimal.Decimal(weight).quantize(unit, decimal.ROUND_HALF_UP))
    return re.sub(r"^0\.", ".", text)


def column(lines, n):
    """The last number of each row of keys in the terminal drawing of the steps, without its bar."""
    at = next(i for i, line in enumerate(lines) if line.startswith("key ")) + 1
    rows = (re.findall(r"(?:masked|[.!]\d+|1\.\d+)", line) for line in lines[at:at + n])
    return [r[-1] for r in rows]


def weights(layer, head, query):
    where = "--layer", str(layer), "--token", str(query), TEXT
    exact = json.loads(run("explain", "--json", "--head", str(head), *where))
    w, key = [float(x) for x in exact["weights"]], exact["key"]
    seen = [j for j in range(len(w)) if j <= query]  # verse is a decoder
    three = [printed(w[j], 3) for j in seen]
    explain = run("explain", "--head", str(head), *where)
    view = run("view", "--view", "steps", "--heads", str(head), *where)
    for name, text in ("explain", explain), ("view", view):
        found = column(text.splitlines(), query + 1)
        check(found == three, name, layer, head, query, found, three)
        check(f"= {printed(w[key], 3)}" in text, name, "the softmax step", printed(w[key], 3))
    bars = run("view", "--view", "heads", "--heads", str(head), *where, "--terminal").split("attends to\n")[1]
    found = re.findall(r"^\S+ +(\d?\.\d+)", bars.split("\nspecial")[0], re.M)
    two = [printed(w[j], 2) for j in seen if j]  # the first token is special
    check(found[:len(two)] == two, "bars", layer, head, query, found, two)
    path = os.path.join(folder, f"{layer}{head}{query}.svg")
    run("view", "--view", "steps", "--heads", str(head), *where, "-o", path, "--force")
    svg = re.findall(r">([.\d]+)<", open(path, encoding="utf-8").read())
    check(not set(three) - set(svg), "SVG", set(three) - set(svg))
    path = os.path.join(folder, f"{layer}{head}{query}.html")
    run("view", "--view", "steps", "--heads", str(head), *where, "-o", path, "--force")
    return path, w, three, seen, key


def page(browser, path, w, three, seen, key):
    browser.open(path)
    browser.wait("!!globalThis.qkv && !!qkv.timing")
    browser.frames(3)
    row = browser.js("[qkv.state.layer, qkv.state.selected[0], qkv.state.row]")
    stored = browser.js("[...qkv.row(%d, %d, %d)]" % tuple(row))
    check(len(stored) == len(w) and max(abs(a - b) for a, b in zip(stored, w)) < 1e-6, "page", stored, w)
    texts = browser.js("[...document.querySelectorAll('.steps svg text')].map(t => t.textContent)")
    check(not set(three) - set(texts), path, set(three) - set(texts), texts)
    check(printed(w[key], 3) in browser.js("document.querySelector('#sentence').textContent"), path)
    table = browser.js("qkv.table()")
    four = [printed(w[j], 4) for j in seen]
    found = [[c for c in line if c in four] for line in table]
    check(sum(map(bool, found)) >= len(seen), path, table, four)
    browser.js("qkv.view('heads')")
    browser.wait("qkv.state.view === 'heads'")
    browser.frames(3)
    dots = browser.js("[...Array(%d).keys()].map(j => qkv.page.weights.score(%d, %d, %d, j).dot)" % (len(seen), *row))
    exact = json.loads(run("explain", "--json", "--head", str(row[1]), "--layer", str(row[0]), "--token", str(row[2]), TEXT))
    # the page has the weights as floats: its scores differ from a sum of 64 floats by their order at most
    bound = 64 * 2 ** -24 * 4
    for j, (a, b) in enumerate(zip(dots, exact["scores"])):
        check(abs(a - b) <= bound * max(20, abs(b)), "score", row, j, a, b)
    share = browser.js("document.querySelector('#sentence').textContent")
    check(" " + printed(w[key], 2) in share, path, share, printed(w[key], 2))


def vectors(browser, path, key):
    """Every number of the table of products is the print of the exact number, with as many decimals."""
    row = browser.js("[qkv.state.layer, qkv.state.selected[0], qkv.state.row]")
    exact = json.loads(run("explain", "--json", "--head", str(row[1]), "--layer", str(row[0]), "--token",
                           str(row[2]), TEXT))
    browser.js("qkv.view('neuron')")
    browser.frames(3)
    head, *rows = browser.js("qkv.table()")
    q, k, v = exact["q"], exact["k"], exact["v"]
    check(exact["key"] == key and len(rows) == len(q), exact["key"], key, len(rows))
    sums, decimals = 0, {name: [] for name in head[1:]}
    for line in rows:
        at = int(line[0])
        sums += q[at] * k[at]
        w = float(exact["weights"][key])
        for name, text, x in zip(head[1:], line[1:], (q[at], k[at], q[at] * k[at], sums, v[at], w * v[at])):
            d = len(text.partition(".")[2])
            one = re.sub(r"^(-?)\.", r"\g<1>0.", printed(x, d)).replace("-", "−")
            check(text.replace("−0." + "0" * d, "0." + "0" * d) == re.sub(r"^−(0\.?0*)$", r"\1", one), path, name, at, text, x)
            decimals[name].append(d)
    check(set(decimals["q"] + decimals["k"]) == {4} and set(decimals["v"]) == {3}, decimals)
    # the page knows 2 decimals of nearly every product
    check(sum(d >= 2 for d in decimals["q × k"]) > .9 * len(rows), decimals["q × k"])


def padded_page(browser):
    """The page has the same weights with padding, whose rows and columns are 0 and masked in every view."""
    rows = "[0, 1, 2, 3].flatMap(l => [0, 1, 2].flatMap(h => [...Array(%d).keys()].map(i => [...qkv.row(l, h, i)])))"
    found = []
    for name, extra in ("alone", []), ("padded", ["--pad", "--max-length", "7"]):
        path = os.path.join(folder, name + ".html")
        run("view", "--ids", "5,8,9,12", "--special", "-o", path, "--force", *extra)
        browser.open(path)
        browser.wait("!!globalThis.qkv && !!qkv.timing")
        browser.frames(3)
        found.append(browser.js(rows % (7 if extra else 4)))
    keys = [r for n, r in enumerate(found[1]) if n % 7 < 4]
    check([r[:4] for r in keys] == found[0] and not any(any(r[4:]) for r in keys), found)
    check(not any(any(r) for n, r in enumerate(found[1]) if n % 7 > 3), "rows of padding", found[1])
    check(browser.js("qkv.page.visible.length") == 7, "hidden padding")
    browser.js("qkv.view('steps')")
    browser.frames(3)
    masked = browser.js("[...document.querySelectorAll('.steps svg text')].filter(t => t.textContent === 'masked').length")
    check(masked >= 3, "masked keys of the steps", masked)


def effects(browser):
    """An ablation effect has one print: in the list of the command and in the page."""
    path = os.path.join(folder, "effects.html")
    run("ablate", "-o", path, "--force", TEXT)
    exact = json.loads(run("ablate", "--json", TEXT))["stacks"][0]["effect"]
    one = lambda x: ("−" if x < 0 else "") + printed(abs(x), 4 if abs(x) < .01 else 3)
    ranked = sorted((x for row in exact for x in row), key=abs, reverse=True)[:4]
    listed = re.findall(r"^ +\d+ +L\d+\.H\d+ +(\S+)", run("ablate", "-n", "4", TEXT), re.M)
    check(listed == [one(x) for x in ranked], "ablate", listed, ranked)
    browser.open(path)
    browser.wait("!!globalThis.qkv && !!qkv.timing")
    browser.frames(3)
    table = browser.js("qkv.table()")
    cells = [c for line in table for c in line]
    check(all(one(x) in cells for x in ranked), "page", table[:3], ranked)


made = [weights(*r) for r in ROWS]
program = chrome.find()
if not program:
    print("skipped: no Chromium")
    sys.exit(77)
browser = chrome.Chrome(program)
try:
    for m in made:
        page(browser, *m)
        vectors(browser, m[0], m[4])
    padded_page(browser)
    effects(browser)
    check(not browser.errors, browser.errors)
finally:
    browser.close()
print(len(made), "rows of weights have the same print everywhere")
