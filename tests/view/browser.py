# SPDX-License-Identifier: MIT
# browser.py: tests the page in a real browser, from disk, without network.
#   browser.py MAKE_PAGES FOLDER [QKV]
# Pages are made in FOLDER; QKV_SHOTS=1 saves screenshots there. A console error or a request fails the test.
# QKV_CASES names some cases; QKV_PART one part of them: heads, maps or pairs, which share the pages that
# QKV_PART=pages makes. Exit 77: Chromium is not installed.
# QKV: also compares sentences on MiniLM, if models/ has it.
import glob, json, os, re, subprocess, sys, time, xml.etree.ElementTree as xml
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome
import palette
from browser_maps import Maps, make_book
from browser_pairs import Pairs
from said import Failed, check

MODEL = "models/all-MiniLM-L6-v2"
PAIR = ["time flies like an arrow", "fruit flies like a banana"]
ANIMAL = ["The animal didn't cross the street because it was too tired"]


def near_sentence(a, b):
    """Equal words, and numbers within a hundredth: C has the weights, the page of a long text their codes."""
    number = re.compile(r"(?<![\w.])\d*\.\d+")
    x, y = ([float(n) for n in number.findall(s)] for s in (a, b))
    return number.sub("#", a) == number.sub("#", b) and all(abs(p - q) < .0101 for p, q in zip(x, y))


def unit(text):
    """One unit of the last decimal of a printed weight: .01 of ".64". The page prints only the decimals that it knows."""
    return 10. ** -len(text.partition(".")[2])


class Test(Pairs, Maps):
    def __init__(self, browser, folder, command):
        self.c, self.folder, self.command = browser, folder, command
        self.decoded = {}  # the rows of pages

    # ---- helpers
    def path(self, name):
        return os.path.join(self.folder, name)

    def open(self, name, hash=""):
        self.c.open(self.path(name + ".html"), hash)
        self.c.wait("!!globalThis.qkv && !!qkv.timing")
        self.c.frames(3)

    def text(self, selector):
        return self.c.js("document.querySelector(%s)?.textContent ?? null" % json.dumps(selector))

    def state(self):
        return self.c.js("(({selected, target, ...s}) => ({...s, selected: [...selected], target}))(qkv.state)")

    def box(self, selector):
        return self.c.js("(r => ({x: r.x, y: r.y, w: r.width, h: r.height}))(document.querySelector(%s)"
                         ".getBoundingClientRect())" % json.dumps(selector))

    def middle(self, selector):
        b = self.box(selector)
        return b["x"] + b["w"] / 2, b["y"] + b["h"] / 2

    def shot(self, name):
        if not os.environ.get("QKV_SHOTS"):
            return
        self.c.settle(.6)  # statistics and the table follow the picture
        self.c.shot(self.path(name + ".png"))

    def expected(self, name):
        with open(self.path(name + ".json"), encoding="utf-8") as f:
            return json.load(f)

    def rows(self, name):
        """Returns the rows of the page that the .json lists."""
        want = [r[:3] for r in self.expected(name)["rows"]]
        return self.c.js("%s.map(r => Array.from(qkv.row(...r), x => x === x ? x : null))" % json.dumps(want))

    # ---- the cases: a sentence each
    def pages_open_with_the_sentence_and_the_numbers_of_c(self):
        for name in ("pair", "one", "two", "causal", "many", "long", "coarse", "hostile", "broken"):
            self.open(name)
            d = self.expected(name)
            exact = name not in ("many", "long", "coarse")  # a page of a short text has floats
            said = self.text("#sentence")
            check(said == d["sentence"] if exact else near_sentence(said, d["sentence"]), name, said, "expected", d["sentence"])
            check(self.c.js("document.querySelector('#stage').getAttribute('aria-label')") == self.text("#sentence"))
            if name == "hostile":
                continue
            self.decoded[name] = self.rows(name)
            for (l, h, i, want), got in zip(d["rows"], self.decoded[name]):
                for w, g in zip(want, got):
                    if w is None or g is None:
                        check(w is g, name, l, h, i, "expected", w, "found", g)
                    else:  # float rounding of exp and of sums lies below 1e-5
                        check(abs(w - g) <= d["error"] + 1e-5, name, l, h, i, "expected", w, "found", g)

    def the_pages_own_inflate_gives_the_same_numbers(self):
        for name in ("pair", "long", "coarse"):
            if name not in self.decoded:
                self.open(name)
                self.decoded[name] = self.rows(name)
            script = self.c.call("Page.addScriptToEvaluateOnNewDocument",
                                 source="globalThis.DecompressionStream = undefined; Uint8Array.fromBase64 = undefined")
            self.open(name)
            check(self.c.js("typeof DecompressionStream") == "undefined")
            check(self.rows(name) == self.decoded[name], name, "differs")
            self.c.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])

    def a_row_and_its_hidden_part_sum_to_one(self):
        for name in ("pair", "long", "coarse", "many"):
            self.open(name)
            for row in (3, 9):
                self.c.js("location.hash = '#l=1&h=0.1.2&t=%d'" % row)
                self.c.frames(3)
                table = self.c.js("qkv.table()")
                check(table[-1][0] == "sum", table[-1])
                for column in range(1, len(table[0])):
                    total = sum(float(r[column]) for r in table[1:-1])
                    check(abs(total - 1) <= .004 + unit(table[-1][column]) / 2 * len(table), name, row, column, total)
                    check(abs(float(table[-1][column]) - 1) <= .004)
        self.open("pair")
        shares = self.c.js("[...document.querySelectorAll('.filter span:last-child')].map(s => parseInt(s.textContent))")
        hidden = int(re.search(r"(\d+)%", self.text(".note span")).group(1))
        check(abs(shares[0] - sum(shares[1:])) <= 2 and abs(shares[0] + hidden - 100) <= 1, shares, hidden)

    def keys_do_what_the_page_says(self):
        self.open("pair", "#l=1&h=1.8.9")
        c, s = self.c, self.state
        layer = s()["layer"]
        c.key("ArrowRight" if layer < 2 else "ArrowLeft")
        check(s()["layer"] != layer)
        c.key("5", "Digit5")
        check(s()["selected"] == [5])
        c.key("&", "Digit7", shift=True)
        check(s()["selected"] == [5, 7])
        c.key("-", "Minus")
        check(s()["selected"] == [10])
        c.key("a", "KeyA")
        check(s()["selected"] == list(range(12)))
        c.key("i", "KeyI")
        check(s()["selected"] == [] and self.text("#sentence") == "Choose a head.")
        c.key("1", "Digit1")
        c.key("ArrowDown")
        check(s()["row"] == 1 and self.text("#question").startswith("What does “"), s())
        c.key("ArrowDown")
        check(s()["row"] == 2)
        c.key("ArrowUp")
        check(s()["row"] == 1)
        c.key("Escape")
        check(s()["row"] == -1 and self.text("#question") == "Which words attend to which?")
        c.key("s", "KeyS")
        check(s()["special"] and "[CLS]" in self.text("#tokens"))
        c.key("s", "KeyS")
        check("[CLS]" not in self.text("#tokens"))
        for want in ("AA", "AB", "BA", "BB", "all"):
            c.key("f", "KeyF")
            check(s()["filter"] == want)
        links = c.js("qkv.timing.links")
        c.key(".", "Period")
        c.key(".", "Period")
        check(s()["factor"] > .7 and c.js("qkv.timing.links") <= links)
        c.key(",", "Comma")
        c.key("r", "KeyR")
        check("##" in self.text("#tokens"))
        c.key("r", "KeyR")
        check("##" not in self.text("#tokens"))
        c.key("t", "KeyT")
        c.settle(.3)
        check(self.box("#links")["h"] > 60)
        c.key("t", "KeyT")
        c.key("?", "Slash", shift=True)
        check(c.js("document.querySelector('dialog[open] h2').textContent") == "Keys")
        self.shot("keys")
        c.key("Escape")
        c.js("document.querySelector('dialog[open]')?.close()")
        c.key("/", "Slash")
        for letter in "banana":
            c.key(letter)
        c.key("Enter")
        check("banana" in self.text("#question"), self.text("#question"))
        c.key("Escape")
        c.key("e", "KeyE")
        check(c.js("document.querySelector('dialog[open] h2').textContent") == "Save picture")
        c.js("document.querySelector('dialog[open]').close()")
        dark = c.js("document.documentElement.dataset.theme")
        c.key("d", "KeyD")
        check(c.js("document.documentElement.dataset.theme") != dark)
        c.key("d", "KeyD")
        c.js("localStorage.clear()")

    def pointing_looks_and_clicking_pins(self):
        self.open("pair", "#l=1&h=1.8.9")
        c = self.c
        x, y = self.middle("#tokens .q:nth-child(5)")
        c.mouse(x, y)
        c.frames(3)
        target = self.state()["target"]
        check(target["row"] >= 0 and self.text("#question").startswith("What does “"), target)
        check(self.text("#table caption").endswith("all weights"))
        self.shot("hover")
        c.click(x, y)
        c.mouse(5, 5)
        c.frames(3)
        check(self.state()["row"] == target["row"])
        x, y = self.middle("#tokens .k:nth-child(4)")
        c.click(x, y)
        check(self.state()["key"] >= 0 and ".H" in self.text("#sentence"), self.text("#sentence"))
        c.mouse(5, 5)
        c.key("Escape")
        check(self.state()["row"] == -1 and self.state()["key"] == -1)
        c.mouse(*self.middle("#tokens .k:nth-child(4)"))
        c.frames(3)
        check(self.text("#question").startswith("Which tokens attend to “"))
        c.mouse(5, 5)
        c.click(*self.middle("#overview .row:nth-of-type(1) button:nth-of-type(4)"))
        check(len(self.state()["selected"]) == 1)
        c.click(*self.middle(".chip:nth-child(2)"))
        check(1 in self.state()["selected"])
        c.click(*self.middle(".filter:nth-of-type(3)"))
        check(self.state()["filter"] != "all")

    def the_address_restores_the_picture(self):
        self.open("pair", "#l=2&h=3.5&t=4&k=9&f=AB&s=1&x=.9&r=1&v=1&m=1")
        s = self.state()
        check((s["layer"], s["selected"], s["row"], s["key"], s["filter"]) == (2, [3, 5], 4, 9, "AB"), s)
        check(s["special"] and s["raw"] and s["table"] and s["mean"] and abs(s["factor"] - .9) < 1e-6, s)
        self.c.key("ArrowLeft")
        check("l=1" in self.c.js("location.hash"))
        for bad in ("#l=99&h=-1.77.x&t=1e9&k=--&f=ZZ&x=NaN", "#l=%3Cscript%3E&h=" + "9." * 5000, "#" + "&" * 3000):
            self.open("pair", bad)
            s = self.state()
            check(0 <= s["layer"] < 3 and all(0 <= h < 12 for h in s["selected"]) and s["row"] == -1, s)

    def every_width_and_theme_is_shown_whole(self):
        for name in ("pair", "long", "many", "one", "hostile") if os.environ.get("QKV_SLOW") else ("pair", "hostile"):
            for width, height in ((1440, 900), (1100, 800), (760, 1000), (360, 800)):
                for theme in ("light", "dark"):
                    self.c.size(width, height)
                    self.c.media(prefers_color_scheme=theme)
                    self.open(name)
                    check(self.c.js("document.documentElement.dataset.theme") == theme)
                    wide = self.c.js("document.scrollingElement.scrollWidth")
                    check(wide <= width, name, "is", wide, "wide at", width)
                    if width <= 760:
                        small = self.c.js("[...document.querySelectorAll('.chip, .switch, .filter, #overview [data-rove]')]"
                                          ".filter(b => b.getBoundingClientRect().height < 43.9).length")
                        check(small == 0, small, "touch targets are too small")
                    if name in ("pair", "long"):  # a picture to look at; the others are measured
                        self.shot("%s-%d-%s" % (name, width, theme))
        self.c.size(1440, 900)
        self.c.media(prefers_color_scheme="light")

    def colours_keep_their_distance(self):
        with open(self.path("pair.html"), encoding="utf-8") as f:
            palette.check(f.read(), check)

    def a_damaged_block_gives_a_message_and_no_picture(self):
        with open(self.path("long.html"), encoding="utf-8") as f:
            page = f.read()
        at = page.index('id="packed">') + 12
        end = page.index("<", at)
        middle = (at + end) // 2
        flipped = page[:middle] + ("A" if page[middle] != "A" else "B") + page[middle + 1:]
        about = page.index('id="about">') + 300
        for text, says in ((page[:middle], "This file is cut short: expected "), (flipped, "This file is damaged"),
                           (page[:at] + "!" * 4 + page[at + 4:], "This file is damaged"),
                           (page[:at] + page[end:], "found 0."), (page[:about], "cut short or damaged")):
            with open(self.path("damaged.html"), "w", encoding="utf-8") as f:
                f.write(text)
            self.c.open(self.path("damaged.html"))
            self.c.wait("!!document.querySelector('.broken')")
            check(says in self.text("#loading"), self.text("#loading"))
            check(self.c.js("!document.querySelector('#stage') && !document.querySelector('#words')"))
        self.shot("damaged")

    def hostile_tokens_are_text(self):
        self.open("hostile")
        c = self.c
        check(c.js("globalThis.bad === undefined && document.querySelectorAll('script').length === 4"
                   " && !document.querySelector('img')"))
        shown = c.js("[...document.querySelectorAll('#tokens .q bdi')].map(b => b.textContent)")
        for want in ("</script><script>window.bad=1</script>", "<img src=x onerror=window.bad=1>", "a<0x00>b",
                     "<0xFF><0xFE>", "<U+202E>txet", "⏎<0x09>", "سلام", "日本", "👩", "&lt;b&gt;"):
            check(any(want in s for s in shown), want, "not in", shown)
        for key in ("ArrowDown", "ArrowDown", "t", "s"):
            c.key(key)
        c.settle(.3)
        check(c.js("document.querySelectorAll('script').length === 4 && !document.querySelector('img')"))
        svg = xml.fromstring(c.js("qkv.svg()"))
        check(not [e for e in svg.iter() if e.tag.endswith("script") or e.tag.endswith("image")])

    def rows_without_numbers_say_so(self):
        self.open("broken", "#l=0&h=0.1&t=3")
        check("row contains NaN or Inf" in self.text("#kept"))
        self.open("broken", "#l=0&h=0&t=3")
        check("attends to no key: all its weights are 0" in self.text("#sentence"), self.text("#sentence"))
        self.open("broken", "#l=0&h=1&t=4")
        check("are not numbers" in self.text("#sentence") and "!" in self.text("#table tbody"), self.text("#sentence"))
        self.shot("broken")

    def a_long_text_is_a_window_and_folds(self):
        self.open("thousand", "#w=heads&l=0&h=0.2&t=500&s=1")
        c = self.c
        c.wait("document.querySelectorAll('#tokens .fold').length > 3")
        c.frames(3)
        check(c.js("document.querySelectorAll('#tokens .q').length") == 60)
        keys = c.js("document.querySelectorAll('#tokens .k').length")
        folds = c.js("[...document.querySelectorAll('#tokens .fold')].map(f => f.textContent)")
        folds = [re.match(r"… ([\d,]+) tokens?, ([\d.]+)$", f).groups() for f in folds]
        check(keys + sum(int(n.replace(",", "")) for n, _ in folds) == 1000, keys, folds)
        check(keys + len(folds) <= 66, keys, len(folds))
        check(self.text("#tokens .q.marked") is not None and self.text("#tokens .k.most") is not None)
        bars = c.js("(r => qkv.page.where.keys.reduce((s, j) => s + (r[0][j] + r[1][j]) / 2, 0))([0, 2].map(h => qkv.row(0, h, 500)))")
        total = bars + sum(float(w) for _, w in folds)
        check(abs(total - 1) <= .0005 * len(folds) + 1e-3, bars, total)
        c.key("PageDown")
        c.wait("qkv.page.where.rows[0] > 500")
        self.shot("thousand")

    def stacks_have_rows_and_keys_of_their_own(self):
        self.open("stacks")
        c = self.c
        check(" (encoder.L" in self.text("#sentence") or " of the encoder, " in self.text("#sentence"))
        c.key("y", "KeyY")
        check(self.state()["stack"] == 1 and c.js("qkv.page.T === 5 && qkv.page.S === 5 && qkv.page.causal"))
        c.click(*self.middle(".stacks .filter:last-child"))
        check(self.state()["stack"] == 2 and c.js("qkv.page.T === 5 && qkv.page.S === 6"))
        check(c.js("qkv.row(0, 3, 1).length") == 6 and abs(c.js("qkv.row(0, 3, 1)[2]") - .7) < .005)
        c.key("3", "Digit3")
        c.wait("[...document.querySelectorAll('#aligned tr')].some(r => r.textContent === 'cat→ chat.70')")
        check("of the cross-attention" in self.text("#sentence") and "chat" in self.text("#tokens"), self.text("#sentence"))
        c.settle(.3)
        list_ = c.js("[...document.querySelectorAll('#aligned tr')].map(r => r.textContent)")
        check(list_ == ["the→ le.70", "black→ noir.70", "cat→ chat.70", "sleep→ dort.70", "s→ dort.70"], list_)
        c.key("0", "Digit0")  # .1 is less than twice the uniform weight: no alignment
        c.wait("[...document.querySelectorAll('#aligned tr')].every(r => r.textContent.includes('–'))")
        c.click(*self.middle("#tokens .q:nth-child(3)"))
        c.mouse(5, 5)
        check(self.state()["row"] == 2 and c.js("qkv.table().length") == 8, c.js("qkv.table()"))  # 5 keys, </s>, sum
        c.key("R", "KeyR", shift=True)
        check(c.js("qkv.page.T === 4 && qkv.page.tokens[3].text") == "sleeps" and self.state()["row"] == 2)
        self.shot("stacks")
        check("a=2" in c.js("location.hash") and "u=1" in c.js("location.hash"))

    def every_text_of_the_page_has_a_name_of_its_own(self):
        names = []
        for path in glob.glob("src/view/web/**/*.js", recursive=True):
            with open(path, encoding="utf-8") as f:
                for table in re.findall(r"(?:const TEXT = |addTexts\()\{\n(.*?)\n\}", f.read(), re.S):
                    names += re.findall(r"(?:^\s+|\", |\}, )(\w+): [\"{]", re.sub(r"\\\"", "'", table), re.M)
        twice = sorted({n for n in names if names.count(n) > 1})
        check(len(names) > 100 and not twice, len(names), twice)

    def what_a_model_wrote_is_marked(self):
        self.open("causal", "#l=0&h=1&t=25&s=1")
        check(self.c.js("document.querySelectorAll('#tokens .q.made').length") == 10)
        check("generated" in self.text("#tokens") and self.c.js("!!document.querySelector('#tokens hr')"))
        check(self.c.js("qkv.table().find(r => r[0] === '4 masked')?.[1]") == ".0000", self.c.js("qkv.table()"))

    def words_are_their_tokens_summed(self):
        self.open("pair", "#l=1&h=2&t=5")
        c = self.c
        c.key("R", "KeyR", shift=True)
        check(self.state()["words"] and c.js("qkv.page.T") < 15)
        differ = c.js("""(() => {
            const { groups } = qkv.page.stack.merged;
            let most = 0;
            for (let w = 0; w < qkv.page.T; w++) {
                const [a, b] = groups.rows[w], row = qkv.row(1, 2, w);
                groups.keys.forEach(([from, end], v) => {
                    let sum = 0;
                    for (let i = a; i < b; i++) for (let j = from; j < end; j++) sum += qkv.page.stacks[0].weights.row(1, 2, i)[j] / (b - a);
                    most = Math.max(most, Math.abs(sum - row[v]), Math.abs(sum - qkv.page.weights.pair(1, 2, w, v)));
                });
            }
            return most;
        })()""")
        check(differ < 1e-6, differ)
        word = c.js("qkv.page.tokens[qkv.state.row].raw")
        check(c.js("qkv.page.stack.tokens[5].raw") in word, word)
        c.key("R", "KeyR", shift=True)
        check(not self.state()["words"] and c.js("qkv.page.T") == 15)

    def means_and_rollout_are_what_they_say(self):
        self.open("pair", "#l=2&h=0.1.2&t=4&s=1&m=1")
        c = self.c
        rows = c.js("[0, 1, 2].map(l => Array.from({ length: 12 }, (_, h) => Array.from({ length: 15 }, (_, i) => [...qkv.row(l, h, i)])))")
        column = lambda: sorted(float(r[1]) for r in c.js("qkv.table()")[1:-1])
        near = lambda a, b: all(abs(x - y) <= 1e-4 for x, y in zip(a, b)) and len(a) == len(b)
        check(near(column(), sorted(sum(rows[2][h][4][j] for h in range(3)) / 3 for j in range(15))), column())
        check("mean of heads 0, 1, 2" in self.text("#sentence"), self.text("#sentence"))
        c.key("z", "KeyZ")
        c.wait("document.querySelector('#sentence').textContent.includes('rollout of layers 0 to 2')")
        rolled = [[float(i == j) for j in range(15)] for i in range(15)]
        for l in range(3):
            half = [[.5 * (i == j) + sum(rows[l][h][i][j] for h in range(12)) / 24 for j in range(15)] for i in range(15)]
            rolled = [[sum(half[i][k] * rolled[k][j] for k in range(15)) for j in range(15)] for i in range(15)]
        c.frames(3)
        check(near(column(), sorted(rolled[4])), column(), sorted(rolled[4]))
        self.open("long")
        check(self.c.js("[...document.querySelectorAll('.segments button')].map(b => b.getAttribute('aria-disabled'))") == ["false", "false", "true"])

    def the_strongest_links_are_walked(self):
        self.open("long", "#l=0&h=0.2")
        self.c.key("j", "KeyJ")
        self.c.wait("qkv.state.row >= 0")
        s = self.state()
        best = self.c.js("Math.max(...[0, 2].map(h => qkv.row(0, h, qkv.state.row)[qkv.state.key]))")
        check(best > .5 and s["row"] != s["key"], best)
        self.c.key("j", "KeyJ")
        t = self.state()
        check((t["row"], t["key"]) != (s["row"], s["key"]))
        check(self.c.js("Math.max(...[0, 2].map(h => qkv.row(0, h, qkv.state.row)[qkv.state.key]))") <= best + 1e-6)

    def saved_pictures_carry_their_words(self):
        for name, hash in (("pair", ""), ("pair", "#l=1&h=0.1&t=4"), ("long", "#l=1&h=1")):
            self.open(name, hash)
            root = xml.fromstring(self.c.js("qkv.svg()"))
            ns = "{http://www.w3.org/2000/svg}"
            check(root.find(ns + "desc").text == self.text("#sentence"))
            check(root.find(ns + "title").text == self.text("#question"))
            check(len(root.findall(".//" + ns + "path")) > 3 and len(root.findall(".//" + ns + "text")) > 10)
            with open(self.path("saved.svg"), "w", encoding="utf-8") as f:
                f.write(self.c.js("qkv.svg()"))
        self.c.open(self.path("saved.svg"))
        self.c.shot(self.path("saved-svg.png"))

    def names_and_places_are_there_for_all_readers(self):
        self.open("pair", "#l=1&h=1.8.9")
        c = self.c
        check(c.js("[...document.querySelectorAll('button')].every(b => (b.getAttribute('aria-label') ?? b.textContent).trim())"))
        check(c.js("[...document.querySelectorAll('canvas')].every(x => x.getAttribute('aria-hidden') === 'true')"))
        check(c.js("[...document.querySelectorAll('input')].every(i => i.getAttribute('aria-label'))"))
        check(c.js("document.querySelectorAll('#overview [tabindex=\"0\"]').length") == 1)
        check(c.js("document.querySelectorAll('#chips [tabindex=\"0\"]').length") == 1)
        check(c.js("document.querySelectorAll('h1').length === 1 && document.documentElement.lang === 'en'"))
        check(c.js("document.querySelectorAll('main, header, footer').length") == 3)
        check(c.js("!document.querySelector('[style*=\"url\"], [onclick]')"))
        chips = c.js("[...document.querySelectorAll('.chip')].map(b => [b.getAttribute('aria-pressed'), b.getAttribute('aria-label')])")
        check(all((p == "true") == a.endswith("selected") for p, a in chips), chips)
        c.js("document.querySelector('#chips [tabindex=\"0\"]').focus()")
        c.key("ArrowRight")
        check(c.js("document.activeElement.getAttribute('aria-label')").startswith("head 1"))
        c.js("document.querySelector('#stage').focus()")
        c.key("ArrowDown")
        c.wait("/, row 1 of 15/.test(document.querySelector('[aria-live]').textContent)")
        check(re.match(r".+, row 1 of 15, layer \d+ head", self.text("[aria-live]")), self.text("[aria-live]"))
        c.wait("document.querySelectorAll('#links tbody tr').length > 0")  # in the tree, not shown
        self.open("long", "#l=1&h=1")
        c.wait("document.querySelectorAll('#links tbody tr').length === 30")
        check(re.match(r"and [\d,]+ more, ", self.text("#links .note")), self.text("#links .note"))

    def a_file_leaves_the_machine_nowhere(self):
        self.open("pair")
        policy = self.c.js("document.querySelector('meta[http-equiv]').content")
        check(policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy, policy)
        got = self.c.js("fetch('http://127.0.0.1:9/').then(() => 'went out', () => 'blocked')")
        check(got == "blocked", got)
        self.c.settle(.2)
        self.c.errors.clear()  # that one was asked for
        self.c.requests.clear()
        got = self.c.js("new Promise(r => { const s = document.createElement('script'); s.textContent = 'globalThis.bad = 1';"
                        " document.head.append(s); setTimeout(() => r(String(globalThis.bad)), 50); })")
        check(got == "undefined", "a foreign script ran")
        self.c.settle(.2)
        self.c.errors.clear()

    def contrast_motion_and_print_are_honoured(self):
        for features in ({"forced_colors": "active"}, {"prefers_contrast": "more"}, {"prefers_reduced_motion": "reduce"}):
            self.c.media(**features)
            self.open("pair")
            self.c.key("ArrowDown")
            self.shot("media-" + next(iter(features)))
        self.c.media(prefers_color_scheme="dark")
        self.open("pair")
        pdf = self.c.call("Page.printToPDF", printBackground=True)["data"]
        check(len(pdf) > 10000)
        self.c.frames(3)
        check(self.c.js("document.documentElement.dataset.theme") == "dark")
        self.c.media(prefers_color_scheme="light")

    def without_script_the_sentence_and_a_table_are_there(self):
        self.c.call("Emulation.setScriptExecutionDisabled", value=True)
        self.c.call("Page.navigate", url="file://" + os.path.abspath(self.path("pair.html")))
        self.c.settle(1)
        doc = self.c.call("DOM.getDocument", depth=0)["root"]["nodeId"]
        html = lambda q: self.c.call("DOM.getOuterHTML", nodeId=self.c.call("DOM.querySelector", nodeId=doc, selector=q)["nodeId"])["outerHTML"]
        check(" attends to " in html("#sentence"))
        check(html("noscript").count("<tr>") == 16 and "hidden" in html("#loading"))
        self.shot("no-script")
        self.c.call("Emulation.setScriptExecutionDisabled", value=False)

    def frames_of_512_tokens_are_timed(self):
        if not os.environ.get("QKV_SLOW"):
            return  # it prints times
        self.open("long")
        self.c.settle(1)
        times = {"target": [], "base": [], "panels": []}
        b = self.box("#stage")
        for y in range(10, 400, 25):
            self.c.mouse(b["x"] + 100, b["y"] + y)
            self.c.frames(2)
            t = self.c.js("qkv.timing")
            times["target"].append(t["picture"])
            times["panels"].append(t["panels"])
        self.c.mouse(5, 5)
        for key in ["ArrowRight", "ArrowLeft"] * 4:
            self.c.key(key)
            self.c.settle(.3)
            self.c.key("%")
            self.c.js("document.querySelector('#stage').dispatchEvent(new Event('scroll'))")
            self.c.frames(2)
            t = self.c.js("qkv.timing")
            times["base"].append(t["picture"])
        print("   script in a frame, ms: " + "; ".join(
            "%s median %.1f, most %.1f" % (k, sorted(v)[len(v) // 2], max(v)) for k, v in times.items() if v))

    def minilm_says_what_it_was_known_to_say(self):
        if not self.command or not os.path.exists(os.path.join(MODEL, "model.safetensors")):
            print("   skipped: no", MODEL)
            return

        def view(name, texts, *more):
            r = subprocess.run([self.command, "view", "-m", MODEL, "--force", "-o", self.path(name + ".html"),
                                *texts, *more], capture_output=True, text=True)
            check(r.returncode == 0, r.stderr)
            return r.stdout
        view("minilm-pair", PAIR)
        view("minilm-animal", ANIMAL)
        golden = {
            ("minilm-pair", "#l=1&h=1.8.9"): "In layer 1, head 8 attends to the next word, head 9 to the previous word "
                                             "and head 1 to the same word in the other sentence: “flies₂” to “flies₈” .41.",
            ("minilm-animal", ""): "“it” attends to “animal” .64, “street” .05 (L3.H1).",
            ("minilm-animal", "#l=3&h=1.6.7.9&t=10"): "“it” attends to “animal” .64, “street” .05 (L3.H1); to “The” .25 "
                                                      "(L3.H7).",
            ("minilm-animal", "#l=5&h=11&t=10&k=2"): "“it” attends to “animal” .65 (L5.H11).",
        }
        for (name, hash), sentence in golden.items():
            self.open(name, hash)
            check(self.text("#sentence") == sentence, self.text("#sentence"), "expected", sentence)
            self.shot(name + hash.replace("#", "-").replace("&", "-").replace("=", ""))
        words = " ".join(open("tests/view/browser.py", encoding="utf-8").read().split())
        out = view("minilm-512", [words], "--max-length", "512")
        size = os.path.getsize(self.path("minilm-512.html"))
        error = float(re.search(r"error \S+ ([\d.]+)", out).group(1))
        check(size <= 6000000 and error <= .002, size, error)
        self.open("minilm-512")
        check(self.c.js("document.querySelectorAll('#tokens .q').length") == 510)
        self.shot("minilm-512")
        print("   512 tokens: %d bytes, error %.4f" % (size, error))


def main():
    if len(sys.argv) < 3:
        print("usage: browser.py MAKE_PAGES FOLDER [QKV]")
        return 2
    path = chrome.find()
    if not path:
        print("skipped: no Chromium or Chrome that runs (QKV_CHROME names one)")
        return 77
    part = os.environ.get("QKV_PART")
    if part in (None, "pages"):
        os.makedirs(sys.argv[2], exist_ok=True)
        for maker in (sys.argv[1], os.path.join(os.path.dirname(sys.argv[1]), "make_maps")):
            subprocess.run([maker, sys.argv[2]], check=True)
        if len(sys.argv) > 3:
            make_book(sys.argv[3], sys.argv[2])
    if part == "pages":
        return 0
    browser = chrome.Chrome(path)
    test = Test(browser, sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    browser.size(1440, 900)
    browser.media(prefers_color_scheme="light")
    parts = {"heads": [Test], "maps": [Maps], "pairs": [Pairs]}.get(part, Test.__mro__)
    cases = [n for base in parts for n, f in vars(base).items() if "_" in n and callable(f) and not n.startswith("__")]
    wanted = os.environ.get("QKV_CASES", "").split() or cases
    failed = 0
    try:
        for name in wanted:
            browser.errors.clear()
            browser.requests.clear()
            begin = time.monotonic()
            try:
                getattr(test, name)()
                browser.settle(.05)
                check(not browser.errors, "console:", browser.errors[:3])
                out = [r for r in browser.requests if not r.startswith(("file:", "data:", "blob:", "about:"))]
                check(not out, "requests:", out[:3])
                print(f"ok   {name} ({time.monotonic() - begin:.1f} s)", flush=True)
            except (Failed, RuntimeError, xml.ParseError) as e:
                failed += 1
                print("FAIL", name + ":", str(e)[:1500], flush=True)
    finally:
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
