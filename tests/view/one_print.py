# SPDX-License-Identifier: MIT
# one_print.py: every weight of a row is printed with the same digits by explain, the terminal, the SVG and the page, for
# a decoder, an encoder and cross-attention, and has the same bits in a page with padding.
#   one_print.py QKV FOLDER
# Exit 77: Chromium is not installed; the other prints are compared all the same.
import collections, decimal, json, os, re, struct, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome
from said import check

TEXT = "In the beginning God created the heaven and the earth"
MODEL = "models/verse"
# the model, its texts, the special tokens among the keys, whether a query attends to earlier tokens only
Case = collections.namedtuple("Case", "model texts special causal cross", defaults=(False,))
VERSE = Case(MODEL, (TEXT,), {0}, True)
FACTS = Case("models/facts", ("paris is the capital of france",), {0, 7}, False)
DATES = Case("models/dates", ("the 3rd of March 1987", "1987-03-03"), {21}, False, True)
ROWS = [(VERSE, 0, 0, 9), (VERSE, 1, 1, 5), (VERSE, 2, 1, 9), (VERSE, 2, 2, 7),  # case, layer, head, query
        (FACTS, 0, 1, 3), (FACTS, 1, 1, 6), (FACTS, 1, 3, 5), (DATES, 0, 0, 1), (DATES, 1, 1, 6), (DATES, 1, 2, 3)]
WRITTEN = {1: "9", 3: "7", 6: "3"}  # a word that is a number is a word before it is an index
qkv, folder = sys.argv[1:3]
os.makedirs(folder, exist_ok=True)


def run(*args, model=MODEL):
    env = {**os.environ, "QKV_MODEL": model, "COLUMNS": "120", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
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


def traced(case, layer, head, query):
    """The weights of a row of cross-attention, from trace."""
    path = os.path.join(folder, "cross.safetensors")
    run("trace", *case.texts, "--what", "attention", "-o", path, "--force", model=case.model)
    with open(path, "rb") as f:
        b = f.read()
    n = struct.unpack("<Q", b[:8])[0]
    t = json.loads(b[8:8 + n])["cross_attentions.%d" % layer]
    T, S = t["shape"][-2:]
    at = 8 + n + t["data_offsets"][0] + 4 * S * (head * T + query)
    return struct.unpack("<%df" % S, b[at:at + 4 * S])


class Row:
    """One row of weights: where it is, its exact numbers, and the pictures of it."""

    def __init__(self, case, layer, head, query):
        self.case, self.layer, self.head, self.query = case, layer, head, query
        token = WRITTEN[query] if case.cross else str(query)
        self.where = "--layer", str(layer), "--token", token, *case.texts
        if case.cross:
            self.w = [float(x) for x in traced(case, layer, head, query)]
            self.key = max(set(range(len(self.w))) - case.special, key=lambda j: self.w[j])
        else:
            exact = self.exact()
            self.w, self.key = [float(x) for x in exact["weights"]], exact["key"]
        self.seen = [j for j in range(len(self.w)) if not case.causal or j <= query]
        self.three = [printed(self.w[j], 3) for j in self.seen]
        self.path = os.path.join(folder, "%s%d%d%d" % (os.path.basename(case.model), layer, head, query))

    def exact(self):
        return json.loads(run("explain", "--json", "--head", str(self.head), *self.where, model=self.case.model))

    def view(self, view, *more):
        return run("view", "--view", view, "--heads", str(self.head), *self.where, *more, model=self.case.model)


def weights(row):
    texts = {"view": row.view("steps")}
    if not row.case.cross:  # explain has the encoder of two stacks
        texts["explain"] = run("explain", "--head", str(row.head), *row.where, model=row.case.model)
    for name, text in texts.items():
        found = column(text.splitlines(), len(row.seen))
        check(found == row.three, name, row.path, found, row.three)
        check(f"= {printed(row.w[row.key], 3)}" in text, name, "the softmax step", printed(row.w[row.key], 3))
    bars = row.view("heads", "--terminal").split("attends to\n")[1]
    found = re.findall(r"^\S+ +(\d?\.\d+)", bars.split("\nspecial")[0], re.M)
    two = [printed(row.w[j], 2) for j in row.seen if j not in row.case.special]
    check(found[:len(two)] == two, "bars", row.path, found, two)
    row.view("steps", "-o", row.path + ".svg", "--force")
    with open(row.path + ".svg", encoding="utf-8") as f:
        svg = re.findall(r">([.\d]+)<", f.read())
    check(not set(row.three) - set(svg), "SVG", row.path, set(row.three) - set(svg))
    row.view("steps", "-o", row.path + ".html", "--force")


def page(browser, row):
    w, seen, key, path = row.w, row.seen, row.key, row.path + ".html"
    browser.open(path)
    browser.wait("!!globalThis.qkv && !!qkv.timing")
    browser.frames(3)
    at = browser.js("[qkv.state.layer, qkv.state.selected[0], qkv.state.row]")
    check(at == [row.layer, row.head, row.query], path, at)
    stored = browser.js("[...qkv.row(%d, %d, %d)]" % tuple(at))
    # kernels may round a score of up to 64 and the sum of a row (a logarithm) by 2^-19 together
    check(len(stored) == len(w) and max(abs(a - b) for a, b in zip(stored, w)) < 2 ** -18, "page", stored, w)
    texts = browser.js("[...document.querySelectorAll('.steps svg text')].map(t => t.textContent)")
    check(not set(row.three) - set(texts), path, set(row.three) - set(texts), texts)
    check(printed(w[key], 3) in browser.js("document.querySelector('#sentence').textContent"), path)
    table = browser.js("qkv.table()")
    four = [printed(w[j], 4) for j in seen]
    found = [[c for c in line if c in four] for line in table]
    check(sum(map(bool, found)) >= len(seen), path, table, four)
    browser.js("qkv.view('heads')")
    browser.wait("qkv.state.view === 'heads'")
    browser.frames(3)
    share = browser.js("document.querySelector('#sentence').textContent")
    check(" " + printed(w[key], 2) in share, path, share, printed(w[key], 2))
    if row.case.cross:
        return
    dots = browser.js("[...Array(%d).keys()].map(j => qkv.page.weights.score(%d, %d, %d, j).dot)" % (len(seen), *at))
    # the page has the weights as floats: its scores differ from a sum of 64 floats by their order at most
    bound = 64 * 2 ** -24 * 4
    for j, (a, b) in enumerate(zip(dots, row.exact()["scores"])):
        check(abs(a - b) <= bound * max(20, abs(b)), "score", path, j, a, b)
    vectors(browser, row)


def vectors(browser, row):
    """Every number of the table of products is the print of the exact number, with as many decimals."""
    exact = row.exact()
    browser.js("qkv.view('neuron')")
    browser.frames(3)
    head, *rows = browser.js("qkv.table()")
    q, k, v = exact["q"], exact["k"], exact["v"]
    check(len(rows) == len(q), row.path, len(rows))
    sums, decimals = 0, {name: [] for name in head[1:]}
    for line in rows:
        at = int(line[0])
        sums += q[at] * k[at]
        w = float(exact["weights"][row.key])
        for name, text, x in zip(head[1:], line[1:], (q[at], k[at], q[at] * k[at], sums, v[at], w * v[at])):
            d = len(text.partition(".")[2])
            one = re.sub(r"^(-?)\.", r"\g<1>0.", printed(x, d)).replace("-", "−")
            check(text.replace("−0." + "0" * d, "0." + "0" * d) == re.sub(r"^−(0\.?0*)$", r"\1", one), row.path, name, at, text, x)
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


def hundredths(browser):
    """A cell in hundredths shows a weight that rounds to 1.00 as 100 or, if it is narrow, as 1."""
    path = os.path.join(folder, "dates.html")
    run("view", DATES.texts[0], "-o", path, "--force", model=DATES.model)
    browser.open(path)
    browser.wait("!!globalThis.qkv && !!qkv.timing")
    browser.frames(5)
    pair = "[...document.querySelectorAll('#pairs span:not(.label)')].map(s => s.textContent).filter(t => t)"
    at = browser.js("[qkv.state.layer, qkv.state.selected[0], qkv.state.row]")
    row = browser.js("[...qkv.row(%d, %d, %d)].map((w, j) => qkv.page.keys[j].special ? -1 : w)" % tuple(at))
    weights = browser.js("(p => [...Array(p.L).keys()].flatMap(l => [...Array(p.H).keys()].map(h =>"
                         " p.weights.pair(l, h, %d, %d))))(qkv.page)" % (at[2], row.index(max(row))))
    want = [str(int(100 * w + .5)) for w in weights if w >= .095]
    check("100" in want and browser.js(pair) == want, "hundredths", browser.js(pair), want)
    browser.js("document.querySelector('#pairs').parentNode.style.width = '90px'")
    for key in "ArrowDown", "ArrowUp":
        browser.key(key)
        browser.frames(5)
    narrow = [w if w != "100" else "1." for w in want]
    check(browser.js(pair) == narrow, "hundredths", browser.js(pair), narrow)
    svg = os.path.join(folder, "dates.svg")
    run("view", DATES.texts[0], "--view", "matrix", "-o", svg, "--force", model=DATES.model)
    with open(svg, encoding="utf-8") as f:
        check(">100<" in f.read(), svg)


def output(browser):
    """Without --token the view output opens on the last position of a decoder, in the page as in the terminal."""
    path = os.path.join(folder, "output.html")
    for extra in [], ["--token", "God"]:
        said = run("view", TEXT, "--view", "output", "--terminal", *extra).splitlines()
        said = " ".join(said[said.index("What comes out?") + 1:]).partition("  ")[0]
        run("view", TEXT, "--view", "output", "-o", path, "--force", *extra)
        browser.open(path)
        browser.wait("!!globalThis.qkv && !!qkv.timing")
        browser.frames(3)
        page_says = browser.js("document.querySelector('#sentence').textContent")
        check(("“God”" in page_says) == bool(extra) and page_says.split(" is ")[0] in said, extra, page_says, said)


made = [Row(*r) for r in ROWS]
for made_row in made:
    weights(made_row)
program = chrome.find()
if not program:
    print("skipped: no Chromium")
    sys.exit(77)
browser = chrome.Chrome(program)
try:
    for made_row in made:
        page(browser, made_row)
    padded_page(browser)
    effects(browser)
    hundredths(browser)
    output(browser)
    check(not browser.errors, browser.errors)
finally:
    browser.close()
print(len(made), "rows of weights have the same print everywhere")
