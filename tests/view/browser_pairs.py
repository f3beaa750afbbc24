# SPDX-License-Identifier: MIT
# browser_pairs.py: cases of browser.py for the views neuron, steps, compare and training.
import glob, json, os, re, subprocess, xml.etree.ElementTree as xml
import boxes
import pictures
from said import check

SVG = "{http://www.w3.org/2000/svg}"


def number(text):
    return float(text.replace("−", "-"))


class Pairs:
    """Cases that the class Test of browser.py inherits, with its helpers."""

    def every_action_has_a_button(self):
        self.open("pair", "#l=1&h=1.8.9")
        c = self.c

        def tool(name):
            c.js("scrollTo(0, 0)")  # the table was scrolled into view
            c.click(*self.middle("[data-tool=%s]" % name))
        tool("Find")
        check(c.js("document.activeElement.closest('#finder') !== null && !document.querySelector('#finder').hidden"))
        c.key("Escape")
        tool("Table")
        check(self.state()["table"] and c.js("document.querySelector('[data-tool=Table]').ariaPressed") == "true")
        c.js("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async t => { globalThis.copied = t; } } })")
        tool("Copy")
        c.wait("/^copied [1-9]/.test(document.querySelector('#note').textContent)")
        check(c.js("copied.startsWith('from\\tto\\thead\\tweight')"), c.js("copied"))
        tool("Link")
        c.wait("/address/.test(document.querySelector('#note').textContent)")
        check(c.js("copied === location.href && copied.includes('l=1&h=1.8.9')"), c.js("copied"))
        tool("Compare")  # there is nothing to compare with: the reason is shown
        c.wait("/--against/.test(document.querySelector('#note').textContent)")
        check(c.js("!document.querySelector('#note').hidden") and self.state()["view"] == "heads")
        tool("Save")
        check(c.js("document.querySelector('dialog[open]') !== null"))
        c.js("document.querySelector('dialog[open]').close()")
        layer = self.state()["layer"]
        hint = "[...document.querySelectorAll('#hints button')].find(b => b.ariaLabel === 'layer, →')"
        c.js(hint + ".click()")
        check(self.state()["layer"] == layer + 1)
        c.key("?")
        help = "document.querySelector('dialog.help[open]')"
        check(c.js(help + " !== null && document.activeElement.tagName === 'H2' && %s.scrollTop === 0" % help))
        check(c.js(help + ".querySelector('button').textContent") == "Close")
        for width in (320, 390, 820, 1280):
            c.size(width, 800)
            c.frames()
            check(c.js("document.documentElement.scrollWidth <= innerWidth"), width)
        c.js(help + ".close()")
        c.size(1440, 900)

    def terms_are_defined_where_they_appear_and_in_the_help(self):
        self.open("pair", "#l=1&h=1.8.9")
        described = "Object.fromEntries([...document.querySelectorAll('[aria-description]')].map(" \
                    "n => [n.textContent, [n.title, n.ariaDescription]]))"
        self.c.wait("document.querySelector('#table th[title]') !== null")
        found = self.c.js(described)
        check({"head", "strength", "effective keys", "distance", "query token", "key token", "attention received",
               "Special tokens"} <= set(found), found)
        check(all(title == text != "" for title, text in found.values()), found)
        self.c.js("location.hash = '#l=1&h=1&t=3'")  # of a marked row the margin has its weights
        self.c.wait("!document.querySelector('#table th[title]')")
        check(self.c.js(described).get("weight per head", [""])[0].startswith("softmax of a score"),
              self.c.js(described))
        self.c.key("?")
        lists = self.c.js("[...document.querySelectorAll('dialog.help[open] section')].filter(s => /^[0-9]/.test("
                          "s.firstChild.textContent)).map(s => [s.firstChild.textContent, "
                          "[...s.querySelectorAll('dt, dd')].map(d => d.textContent)])")
        courses = [open(path, encoding="utf-8").readline().strip("# \n") for path in glob.glob("docs/notes/[01]*.md")]
        check(lists and all(course in courses for course, _ in lists), [course for course, _ in lists])
        listed = {term: text for _, words in lists for term, text in zip(words[::2], words[1::2])}
        check(len(listed) >= 15 + 9 and all(listed.values()), listed)
        check(listed["distance"] == found["distance"][0] and "entropy" in listed and "softmax gradient" in listed)
        check(any(name.endswith("induction") for name in listed), listed)  # the kinds, with the rule that measures them
        self.c.js("document.querySelector('dialog[open]').close()")

    def the_header_fits_every_width(self):
        self.open("pair")
        boxes = """(() => {
            const views = document.querySelector('#views').getBoundingClientRect();
            return [...document.querySelectorAll('header > span, header button')].map(n => {
                const r = n.getBoundingClientRect(), inside = n.closest('#views') !== null;
                return [n.textContent, inside ? Math.max(r.left, views.left) : r.left,
                        inside ? Math.min(r.right, views.right) : r.right, r.top, r.bottom];
            }).filter(r => r[2] > r[1] + 1);
        })()"""
        for width in range(320, 1441, 20 if os.environ.get("QKV_SLOW") else 70):
            self.c.size(width, 900)
            self.c.frames(3)
            all_ = self.c.js(boxes)
            for n, a in enumerate(all_):
                for b in all_[:n]:
                    apart = a[1] >= b[2] - 1 or b[1] >= a[2] - 1 or a[3] >= b[4] - 1 or b[3] >= a[4] - 1
                    check(apart, width, a, b)
            check(self.c.js("document.documentElement.scrollWidth <= innerWidth"), width)
        self.c.size(1440, 900)

    def other_stories_are_buttons(self):
        self.open("pair")
        shown = self.state()
        check(shown["row"] >= 0 and len(shown["selected"]) == 1, shown)
        stories = self.c.js("qkv.page.stack.stories")
        check(stories and all(w["weight"] >= .0999 for w in stories), stories)
        seen = [(shown["layer"], shown["selected"][0])]
        for n, s in enumerate(stories, 1):
            self.c.click(*self.middle("#stories button:nth-of-type(%d)" % n))
            now = self.state()
            check((now["layer"], now["selected"], now["row"]) == (s["layer"], [s["head"]], s["row"]), now, s)
            check((s["layer"], s["head"]) not in seen, stories)  # each story is of another head
            seen.append((s["layer"], s["head"]))
            row = self.c.js("Array.from(qkv.row(%d, %d, %d))" % (s["layer"], s["head"], s["row"]))
            check(abs(row[s["key"]] - s["weight"]) < .01, row, s)
            pressed = self.c.js("[...document.querySelectorAll('#stories button')].map(b => b.ariaPressed)")
            check(pressed.count("true") == 1 and pressed[n - 1] == "true", pressed)

    def pressed(self, selector):
        return self.c.js("[...document.querySelectorAll('%s')].filter(b => b.getAttribute('aria-pressed') === 'true')"
                         ".map(b => b.textContent)" % selector)

    def table(self):
        """The view's rows: the head, then every row as a dictionary."""
        rows = self.c.js("qkv.table()")
        return [dict(zip(rows[0], r)) for r in rows[1:]]

    def steps_show_the_weights_of_c(self):
        for name in ("pair", "causal", "odd", "long"):
            error = self.expected(name)["error"]
            for n, (l, h, i, want) in enumerate(self.expected(name)["rows"][2:40:9]):
                hash = "#w=steps&s=1&l=%d&h=%d&t=%d" % (l, h, i)
                if n == 0:
                    self.open(name, hash)
                else:  # the page follows its address
                    self.c.js("location.hash = '%s'" % hash)
                    self.c.frames(3)
                rows, shown = self.table(), 0
                check(len(rows) == len(want), name, len(rows))
                for j, (row, w) in enumerate(zip(rows, want)):
                    if row["weight"] == "masked":
                        check(w == 0 and (j > i if name == "causal" else not i - 9 <= j <= i + 6), name, l, h, i, j)
                        continue
                    shown += 1  # of 4 digits those are written that the page knows
                    unit = 10. ** -len(row["weight"].partition(".")[2])
                    check(unit > error and abs(float(row["weight"]) - w) <= error + unit / 2 + 1e-5, name, l, h, i, j, row, "expected", w)
                check(shown == sum(w > 0 for w in want), name, shown)
                shown = [r["weight"] for r in rows if r["weight"] != "masked"]
                unit = 10. ** -len(shown[0].partition(".")[2])
                check(abs(sum(map(float, shown)) - 1) < unit / 2 * len(rows), name, shown)
                check(("1.000" if unit < .01 else "1.00") in self.text(".steps svg"), name)
        for name, hash in (("broken", "l=0&h=0&t=3"), ("broken", "l=0&h=1&t=4")):
            for view in ("steps", "neuron"):
                self.open(name, "#w=%s&s=1&%s" % (view, hash))
                check("attends to no key" in self.text("#sentence") or "are not numbers" in self.text("#sentence") or
                      "is masked" in self.text("#sentence"), view, hash, self.text("#sentence"))

    def the_residual_stream_has_the_numbers_of_c(self):
        names = ("size before", "change", "cosine", "size after")
        for name in ("pair", "causal", "odd"):
            want = self.expected(name)["residual"]
            largest = [max(abs(w[3 + n]) for w in want) for n in range(4)]
            self.open(name, "#w=residual&s=1")
            rows = self.table()
            check(len(rows) == len(want), name, len(rows), len(want))
            for row, (token, layer, sublayer, *numbers) in zip(rows, want):
                check(row["layer"] == layer and row["sublayer"] == sublayer, name, row, layer, sublayer)
                for n, w in enumerate(numbers):  # halves, sizes between sublayers from three; 4 digits are written
                    off = largest[n] * 2 ** -9 if n in (0, 3) else abs(w) * 2 ** -11 + largest[n] * 2 ** -20
                    check(abs(number(str(row[names[n]])) - w) <= off + 6e-5, name, row, names[n], "expected", w)
            token = want[len(want) // 2][0]
            self.open(name, "#w=residual&s=1&t=%d" % token)
            own = [w for w in want if w[0] == token]
            most = max(own, key=lambda w: w[4])
            text = self.text("#sentence")
            said = "the largest change, by %s in layer %d, has the norm %.2f" % (most[2], most[1], float(self.text("#sentence b")))
            check(said in text, text)
            check(abs(float(self.text("#sentence b")) - most[4]) < .0101, text, most)
            check(len(self.table()) == len(own), name)
        self.open("pair", "#w=residual")
        self.c.key("ArrowDown")
        check(self.state()["row"] == 1 and self.text("#sentence").startswith("The residual stream of “"), self.text("#sentence"))
        self.c.click(*self.middle(".residual svg [data-row='3'] text"))
        check(self.state()["row"] == 3, self.state())
        self.c.key("Escape")
        check("over 12 tokens" in self.text("#sentence"), self.text("#sentence"))
        check(xml.fromstring(self.c.js("qkv.svg()")).tag == SVG + "svg")
        self.open("one", "#w=residual")
        check(self.state()["view"] != "residual" and "no residual stream" in self.c.js(
            "[...document.querySelectorAll('nav button')].find(b => b.textContent.startsWith('Residual')).title"))

    def what_comes_out_is_what_the_file_has(self):
        c, three = self.c, lambda units: "%.3f" % ((abs(units) + 50) // 100 / 1000)
        shown = lambda units: ("−" if units < -49 else "") + three(units).replace("0.", ".", 1)
        self.open("causal", "#w=output")
        d = c.js("qkv.page.about.output")
        check(d["kind"] == "next" and len(d["at"]) == 30 and d["rows"] == 3 and d["top"] == 3, d["kind"])
        for place in (29, 4):  # the last position without a marked token, then a marked one
            if place != 29:
                self.open("causal", "#w=output&s=1&t=%d" % place)
            rows, start = self.table(), place * d["rows"] * d["top"]
            want = [(d["names"][d["entries"][start + i]], shown(d["values"][start + i])) for i in range(9)]
            check([(r["token"], r["probability"]) for r in rows] == want, place, rows, want)
            check([r["after"] for r in rows[::3]] == ["embeddings", "layer 0", "output"], rows)
            text = self.text("#sentence")
            check("most likely token after" in text and "“%s” %s" % want[6] in text, text)
            drawn = c.js("[...document.querySelectorAll('.output svg text')].map(t => t.textContent)")
            for name, value in want:
                check(value in drawn, value, drawn)
        c.key("ArrowDown")
        check(self.state()["row"] == 5, self.state())
        check(self.text(".outputs tr.on td").strip("“”₅") in self.text("#sentence"), self.text(".outputs tr.on td"))
        c.click(*self.middle(".outputs tbody tr:nth-child(3)"))
        check(self.state()["row"] == 2, self.state())
        check(xml.fromstring(c.js("qkv.svg()")).tag == SVG + "svg")
        self.open("pair", "#w=output")
        d, rows = c.js("qkv.page.about.output"), self.table()
        check(d["kind"] == "shares" and abs(sum(d["values"]) - 100000) <= 15, d)
        check(abs(sum(number(r["share"]) for r in rows) - 1) < .0005 * len(rows) and number(rows[-1]["share"]) == -.25, rows)
        check("largest share of the vector of the text: .089" in self.text("#sentence"), self.text("#sentence"))
        self.open("two", "#w=output")
        check("most likely label of the text is “alpha” .600" in self.text("#sentence"), self.text("#sentence"))
        self.open("odd", "#w=output&t=3")
        check("most likely label of " in self.text("#sentence"), self.text("#sentence"))
        self.open("one", "#w=output")
        check(self.state()["view"] != "output" and "no output of a model" in c.js(
            "[...document.querySelectorAll('nav button')].find(b => b.textContent.startsWith('Output')).title"))

    def products_of_a_pair_sum_to_its_score(self):
        self.open("pair", "#w=steps&l=1&h=2&t=5&k=3")
        score = number(self.table()[3]["q · k"])
        scaled = [number(v) for k, v in self.table()[3].items() if k.startswith("÷")][0]
        self.c.key("n", "KeyN")
        rows = self.table()
        # a number has the decimals that the page knows: at most half a unit of the last one off
        half = lambda text: .5 * 10.0 ** -len(text.partition(".")[2])
        off = sum(half(r["q × k"]) for r in rows) + 1e-4
        check(len(rows) == 16 and abs(sum(number(r["q × k"]) for r in rows) - score) <= off, score, rows)
        check(abs(number(rows[-1]["running sum"]) - score) < 1e-3, rows[-1], score)
        for r in rows:
            check(len(r["q"].partition(".")[2]) == len(r["k"].partition(".")[2]) == 4, r)
            of = abs(number(r["q"]) + number(r["k"])) * 5e-5 + 1e-8
            check(abs(number(r["q"]) * number(r["k"]) - number(r["q × k"])) <= half(r["q × k"]) + of, r)
        known = sum(half(r["q × k"]) <= 5e-4 for r in rows)
        check(known >= 12, "products with 3 decimals", known, rows)
        self.c.key("o", "KeyO")
        products = [(number(r["q × k"]), half(r["q × k"])) for r in self.table()]
        check(all(a + da >= b - db for (a, da), (b, db) in zip(products, products[1:])) and "by product" in self.pressed(".choices button"), products)
        check("so=1" in self.c.js("location.hash"))
        check(abs(scaled / score - .5) < 1e-3, scaled, score)  # make_pages: scale 2/sqrt(16)

    def the_scale_saturates_the_softmax(self):
        self.open("pair", "#w=steps&l=1&h=0&t=5")
        c = self.c
        shown = lambda: c.js("[...document.querySelectorAll('.scales tbody tr')].map(r => [...r.cells].slice(1)"
                             ".map(d => parseFloat(d.textContent)))")
        weight, keys, gradient = shown()
        check(keys[0] < keys[1] < keys[2] and gradient[0] < gradient[2], keys, gradient)
        own = self.text("#sentence")
        for _ in range(12):
            c.key("[", "BracketLeft")
        check("The model itself divides by" in self.text("#sentence"), self.text("#sentence"))
        entropy = len([r for r in self.table() if float(r["weight"]) > .01])
        for _ in range(24):
            c.key("]", "BracketRight")
        check(len([r for r in self.table() if float(r["weight"]) > .01]) > entropy)
        check("by=" in c.js("location.hash"))
        check(shown() == [weight, keys, gradient])  # the table stays at its three places
        c.click(*self.middle(".plain"))
        check(self.text("#sentence") == own, self.text("#sentence"))

    def the_six_steps_play_and_jump(self):
        c = self.c
        at = lambda: c.js("document.querySelector('.figure .step.now')?.dataset.step ?? '0'")
        c.media(prefers_reduced_motion="reduce")
        self.open("causal", "#w=steps&l=1&h=1&t=9")
        for want in "1234560":
            c.key(" ", "Space")
            check(at() == want, at(), "expected", want)
            if want == "3":
                check("keys are masked" in self.text("#sentence"), self.text("#sentence"))
        check(at() == "0")
        c.key("ArrowLeft", shift=True)
        check(at() == "6")
        c.key("ArrowRight", shift=True)
        check(at() == "0")
        c.media()
        self.open("causal", "#w=steps&l=1&h=1&t=9&st=2")
        check(at() == "2" and self.text("#sentence").startswith("2. The score is the sum of the products of query and key"))
        c.key(" ", "Space")
        check(at() == "3")
        c.wait("document.querySelector('.figure .step.now')?.dataset.step === '4'", 5)
        c.key(" ", "Space")
        now = at()
        c.settle(1.7)  # longer than a step
        check(at() == now, "it did not pause")
        c.click(*self.middle("[data-step='6'] text"))
        check(at() == "6")

    def keys_and_lists_choose_the_pair(self):
        self.open("pair", "#w=steps&l=1&h=3&t=5&k=2")
        c, s = self.c, self.state
        for key, code, field, want in (("ArrowDown", None, "key", 3), ("ArrowUp", None, "key", 2),
                                       ("ArrowRight", None, "layer", 2), ("ArrowLeft", None, "layer", 1)):
            c.key(key, code)
            check(s()[field] == want, key, s())
        c.key("7", "Digit7")
        check(s()["selected"] == [7])
        check(self.text("#question").startswith("How does “"), self.text("#question"))
        c.key("q", "KeyQ")
        check(c.js("document.activeElement.getAttribute('aria-label')") == "Query")
        c.js("(e => { e.value = '8'; e.dispatchEvent(new Event('change')); })(document.activeElement)")
        c.frames(2)
        check(s()["row"] == 8)
        c.js("document.activeElement.blur()")
        c.key("n", "KeyN")
        check(self.text("#question").startswith("Which dimensions make “") and s()["row"] == 8)
        c.click(*self.middle(".neuron svg [data-key='4'] text"))
        check(s()["key"] == 4)
        x, y = self.middle(".neuron svg .pos")
        c.mouse(x, y)
        c.frames(2)
        check("dimension" in self.text("#right"), self.text("#right"))
        c.mouse(5, 5)
        c.key("h", "KeyH")
        check(s()["view"] == "heads" and s()["row"] == 8)

    def pairs_fit_every_width_and_theme(self):
        for name, view in (("pair", "steps"), ("pair", "neuron"), ("hostile", "steps"), ("one", "neuron"),
                           ("against", "compare"), ("run", "training"), ("causal", "residual"),
                           ("causal", "output"), ("pair", "output"), ("odd", "output")):
            for width, height in ((1440, 900), (1100, 800), (760, 1000), (360, 800)):
                theme = "dark" if width in (1440, 360) else "light"
                self.c.size(width, height)
                self.c.media(prefers_color_scheme=theme)
                self.open(name, "#w=%s" % view)
                check(self.state()["view"] == view, name, view, self.state())
                wide = self.c.js("document.scrollingElement.scrollWidth")
                check(wide <= width, name, view, "is", wide, "wide at", width)
                if width <= 760:
                    small = self.c.js("[...document.querySelectorAll('.pickers select, .choices button, .ranked button')]"
                                      ".filter(b => b.offsetParent && b.getBoundingClientRect().height < 43.9).length")
                    check(small == 0, view, small, "touch targets are too small")
                self.shot("%s-%s-%d-%s" % (view, name, width, theme))
        self.c.size(1440, 900)
        self.c.media(prefers_color_scheme="light")

    def saved_pairs_carry_both_themes(self):
        for name, view in (("pair", "steps"), ("pair", "neuron"), ("against", "compare"), ("run", "training"),
                           ("pair", "residual"), ("causal", "output")):
            self.open(name, "#w=" + view)
            text = self.c.js("qkv.svg()")
            root = xml.fromstring(text)
            check(root.find(SVG + "title").text == self.text("#question"))
            check(root.find(SVG + "desc").text == self.text("#sentence"))
            check("prefers-color-scheme" in text and "var(" not in text and not list(root.iter(SVG + "script")))
            if view == "training":  # a saved picture names its axes, and the layer of its lines
                named = {"".join(t.itertext()) for t in root.iter(SVG + "text")}
                layer = self.state()["layer"]
                check({"step", "loss", "effective keys of the heads of layer %d" % layer} <= named, named)
            with open(self.path("saved-%s.svg" % view), "w", encoding="utf-8") as f:
                f.write(text)
        self.c.open(self.path("saved-steps.svg"))
        self.c.shot(self.path("saved-steps.png"))

    def saved_pictures_have_printed_widths(self):
        """In no family of fonts a text of a saved picture leaves it or meets another; a plain one has no words around it."""
        made = []
        for name, views in (("pair", ("heads", "model", "matrix", "steps", "neuron", "residual")),
                            ("against", ("compare",)), ("causal", ("output",)),
                            ("run", ("training", "training&fr=0&l=1", "training&fr=2"))):
            for view in views:
                self.open(name, "#w=" + view)
                hash = self.c.js("location.hash")
                for sheet, mm in (("", 0), ("column", 84), ("page", 174)):
                    texts = [self.c.js("qkv.svg('%s', %s)" % (sheet, plain)) for plain in ("false", "true")]
                    roots = [xml.fromstring(t) for t in texts]
                    words = [len(list(r.iter(SVG + "text"))) for r in roots]
                    check(words[1] < words[0] and roots[1].find(SVG + "title").text, view, sheet, words)
                    for root in roots:
                        w, h = [float(x) for x in root.get("viewBox").split()[2:]]
                        if mm:
                            check(root.get("width") == "%dmm" % mm, view, root.get("width"))
                            check(abs(float(root.get("height")[:-2]) - mm * h / w) < .01, view, root.get("height"))
                    made += [((view, sheet, n), t) for n, t in enumerate(texts)]
                check(self.c.js("location.hash") == hash and not self.c.js("document.documentElement.dataset.sheet"))
        with open(self.path("empty.html"), "w", encoding="utf-8") as f:
            f.write("<!doctype html><body></body>")
        self.c.open(self.path("empty.html"))
        for what, text in made:
            for sans, serif in list(boxes.FONTS.values())[:1 if what[2] else None]:  # DejaVu is the widest
                seen = text.replace("system-ui,sans-serif", "'%s'" % sans).replace("Georgia,serif", "'%s'" % serif)
                check(seen != text)
                found = self.c.js("document.body.innerHTML = %s;" % json.dumps(seen) + pictures.MEASURE)
                check(found["texts"] > 5 and not found["wrong"], what, sans, found["wrong"][:4])

    def the_save_dialog_chooses_the_width(self):
        self.c.size(390, 844)
        self.open("pair", "#w=steps")
        self.c.key("e", "KeyE")
        cut = "[...document.querySelectorAll('dialog[open] button')].filter(b => b.scrollHeight > b.clientHeight + 1 ||" \
              " b.scrollWidth > b.clientWidth + 1).map(b => b.textContent)"
        check(self.c.js(cut) == [] and self.c.js("document.querySelectorAll('dialog[open] .choices button').length") == 3,
              self.c.js(cut))
        self.c.size(1440, 900)
        self.open("pair", "#w=steps")
        self.c.key("e", "KeyE")
        self.c.js("[...document.querySelectorAll('dialog .choices button')].find(b => /84 mm/.test(b.textContent)).click()")
        check(self.pressed("dialog[open] .choices button") == ["column, 84 mm"], self.pressed("dialog[open] .choices button"))
        self.c.js("document.querySelector('dialog[open] input').click()")
        check(self.c.js("document.querySelector('dialog[open] input').checked"))
        self.c.shot(self.path("save.png"))
        self.c.js("document.querySelector('dialog[open]').close()")

    def what_changed_is_ranked_and_sums_to_one(self):
        self.open("against", "#w=compare&l=1&h=1&t=4")
        c = self.c
        moved = c.js("qkv.page.about.against.moved")
        check(moved == sorted(moved, key=lambda m: -m[3]) and moved[0][3] > 0 and
              all(0 <= m[3] <= 1 for m in moved), moved[:3])
        for column in ("A", "B"):
            rows = self.table()
            check(rows[-1]["key"] == "sum" and abs(number(rows[-1][column]) - 1) < 4e-3, rows[-1])
            check(abs(sum(number(r[column]) for r in rows[:-1]) - number(rows[-1][column])) < 1e-4 * len(rows))
        for r in self.table():
            check(abs(number(r["B"]) - number(r["A"]) - number(r["change"])) < 2e-4, r)
        query = "document.querySelector('.view.compare select').value"
        check(c.js(query) == "4", c.js(query))
        c.key("Escape")
        check(c.js(query) == "", "a query is named, and no row is marked", c.js(query))
        check("layer %d, head %d changed most" % tuple(moved[0][1:3]) in self.text("#sentence"), self.text("#sentence"))
        c.click(*self.middle(".ranked button"))
        check(self.state()["layer"] == moved[0][1] and self.state()["selected"] == [moved[0][2]])
        c.key("]", "BracketRight")
        check(self.state()["layer"] == moved[1][1] and self.state()["selected"] == [moved[1][2]])
        c.key("ArrowDown")
        check(" → " in self.text("#sentence"), self.text("#sentence"))
        for want in ("matrices", "difference", "links"):
            c.key("l", "KeyL")
            check(self.pressed(".compare .choices button") == [want])
        c.key("l", "KeyL")
        b = self.box(".compare .figure")
        c.mouse(b["x"] + 150, b["y"] + 150)
        c.frames(2)
        check(c.js("document.querySelectorAll('.compare .figure .ring').length") >= 2)  # one cursor, both sides
        c.mouse(5, 5)

    def a_view_compared_with_itself_has_not_changed(self):
        self.open("same", "#w=compare")
        check(self.text("#sentence").startswith("Nothing changed: all "), self.text("#sentence"))
        check(all(m[3] == 0 for m in self.c.js("qkv.page.about.against.moved")))
        check(set(r["bits"] for r in self.table()) == {"0"})

    def the_curves_of_the_scale_name_both_axes_and_the_slider_is_below_them(self):
        self.open("pair", "#w=steps&l=1&h=1&t=4&k=6")
        c = self.c
        for width in (390, 820, 1280):
            c.size(width, 900)
            c.frames(3)
            texts = c.js("""(() => { const f = document.querySelector('.view.steps .hotline').ownerSVGElement;
                return [...f.querySelectorAll('text')].map(t => t.textContent); })()""")
            check("weight" in texts and "divide by" in texts and ".5" in texts and "0.5" not in texts, texts)
            for by in (0, 250, 500, 1000):
                off = c.js("""(() => {
                    const r = document.querySelector('.view.steps input[type=range]');
                    r.value = %d;
                    r.dispatchEvent(new Event('input'));
                    return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
                        const box = r.getBoundingClientRect(), thumb = innerWidth <= 760 ? 24 : 14;
                        const line = document.querySelector('.view.steps .hotline').getBoundingClientRect();
                        done(box.left + thumb / 2 + r.value / 1000 * (box.width - thumb) - line.left - line.width / 2);
                    })));
                })()""" % by)
                check(abs(off) < 1.5, width, by, off)
        c.size(1440, 900)

    def the_stage_of_heads_names_repeated_words_by_their_places(self):
        self.open("pair", "#w=heads&l=1&h=1")
        for box, side in (("tokens", ".q"), ("keys", ".k")):
            names = self.c.js("qkv.page.%s.filter(t => !t.special).map(t => t.named)" % box)
            seen = self.c.js("[...document.querySelectorAll('.view.heads span%s')].map(s => s.textContent)" % side)
            check(seen == names and any(ord(n[-1]) in range(0x2080, 0x208a) for n in seen), side, seen, names)
        self.open("pair", "#w=heads&l=1&h=1&t=3")
        self.c.frames()
        gaps = self.c.js("[...document.querySelectorAll('#right .placed')].filter(b => b.lastChild.data).map(b => {"
                         " const r = document.createRange(); r.selectNodeContents(b.firstChild);"
                         " const end = r.getBoundingClientRect(); r.selectNode(b.lastChild);"
                         " const place = r.getBoundingClientRect(); return [place.left - end.right, place.top - end.top]; })")
        check(len(gaps) > 1 and all(abs(x) < .6 and abs(y) < .6 for x, y in gaps), gaps)  # nothing between them
        self.c.key("r")  # raw tokens carry their places too, each by its own spelling
        self.c.frames()
        raw = self.c.js("qkv.page.tokens.map(t => t.special ? '' : t.raw)")
        want = [t + "".join(chr(0x2080 + int(d)) for d in str(i)) * (raw.count(t) > 1) for i, t in enumerate(raw) if t]
        seen = self.c.js("[...document.querySelectorAll('.view.heads span.q')].map(s => s.textContent)")
        check(seen == want != names and want != [t for t in raw if t], seen, want)

    def drawings_name_repeated_words_by_their_places_though_cut(self):
        c = self.c
        for view, words in (("matrix", False), ("model", False), ("heads", False), ("matrix", True), ("model", True),
                            ("heads", True)):
            self.open("pair", "#w=%s&l=1&h=1&at=1.1" % view)
            if words:  # a word that no drawing has room for
                c.js("qkv.page.tokens.filter(t => t.named !== t.text).forEach(t => {"
                     " t.named = t.named.replace(t.text, 'international'.repeat(5)); })")
            names = c.js("qkv.page.tokens.filter(t => !t.special).map(t => t.named)")
            drawn = c.js("(l => { const f = CanvasRenderingContext2D.prototype, old = f.fillText;"
                         " f.fillText = function (t, ...a) { l.push(t); return old.call(this, t, ...a); };"
                         " dispatchEvent(new Event('resize')); return new Promise(r => requestAnimationFrame(() =>"
                         " requestAnimationFrame(() => { f.fillText = old; r(l); }))); })([])")
            seen = {"heads": c.js("[...document.querySelectorAll('.view.heads span.q, .view.heads span.k')]"
                                  ".map(s => s.textContent)")}.get(view, drawn)
            saved = [t.text for t in xml.fromstring(c.js("qkv.svg()")).iter(SVG + "text")]
            for where, texts in (("drawn", seen), ("saved", saved if view != "model" else None)):
                for name in names if texts else ():
                    place = name.lstrip("abcdefghijklmnopqrstuvwxyz#")
                    is_cut = words and place
                    found = [t for t in texts if t and (t == name or is_cut and re.fullmatch("int[a-z]*…" + place, t))]
                    check(len(found) >= 2 and all(len(t) < 50 for t in found), view, where, name, found, texts)

    def a_run_is_walked_through(self):
        self.open("run", "#w=training&l=0&h=1&t=4")
        c, n = self.c, len(self.c.js("qkv.page.about.training.frames.map(f => f.step)"))
        rows = self.table()
        check(len(rows) == n and [r["step"] for r in rows] == sorted(r["step"] for r in rows))
        last = c.js("Array.from(qkv.row(0, 1, 4))")
        name = self.text(".framename")
        # slider and curves have the same ends, and labels are next to their curves
        far = c.js("""(() => {
            const figure = document.querySelector('.board svg').getBoundingClientRect();
            const r = document.querySelector('.scrub input').getBoundingClientRect();
            const lines = [...document.querySelectorAll('.board .headline')];
            const at = lines.map(p => p.getAttribute('d').match(/[\\d.]+/g).map(Number));
            const y = at.map(d => d[d.length - 1]), xs = at[0].filter((_, i) => i % 2 === 0);
            const names = [...document.querySelectorAll('.board text')].filter(t => +t.getAttribute('x') > xs[xs.length - 1]);
            const mean = list => list.reduce((s, v) => s + v, 0) / list.length;
            return [r.left + 7 - figure.left - xs[0], r.right - 7 - figure.left - xs[xs.length - 1],
                mean(names.map(t => t.getAttribute('y') - 4)) - mean(y)];
        })()""")
        check(max(abs(x) for x in far) < 2, far)
        c.key("[", "BracketLeft")
        check(self.text(".framename") != name and "fr=%d" % (n - 2) in c.js("location.hash"))
        c.js("(r => { r.value = 0; r.dispatchEvent(new Event('input')); })(document.querySelector('.scrub input'))")
        c.frames(2)
        check("at step 0, " in self.text("#sentence"), self.text("#sentence"))
        c.key("h", "KeyH")  # the other views show that frame
        check(c.js("Array.from(qkv.row(0, 1, 4))") != last)
        c.media(prefers_reduced_motion="reduce")
        c.key(";", "Semicolon")
        c.key(" ", "Space")
        check("fr=1" in c.js("location.hash"))
        c.media()

    def a_table_names_the_last_key_and_no_mean_of_one_head(self):
        self.open("causal", "#w=heads&l=0&h=1&t=20")  # 21 keys, and 9 that are masked
        rows = self.c.js("[...document.querySelectorAll('#table tbody tr')].map(r => r.textContent)")
        check(len(rows) == 23 and not any(r.startswith("and ") for r in rows), rows)
        model = "models/dates-gru"
        if not self.command or not os.path.exists(os.path.join(model, "model.safetensors")):
            print("   skipped: no", model)
            return
        subprocess.run([self.command, "view", "-m", model, "--force", "-o", self.path("gru.html"), "3 March 1987"], check=True,
                       capture_output=True)
        self.open("gru", "#w=heads&t=2")
        check(self.c.js("[...document.querySelectorAll('#table th')].map(h => h.textContent)") == ["key", "0"])

    def minilm_attends_to_animal_in_six_steps(self):
        """The numbers of the known picture: L5.H11, "it" to "animal"."""
        model = "models/all-MiniLM-L6-v2"
        if not self.command or not os.path.exists(os.path.join(model, "model.safetensors")):
            print("   skipped: no", model)
            return
        text = "The animal didn't cross the street because it was too tired"
        r = subprocess.run([self.command, "view", "-m", model, "--force", "-o", self.path("minilm-steps.html"), text],
                           capture_output=True, text=True)
        check(r.returncode == 0, r.stderr)
        self.open("minilm-steps", "#w=steps&l=5&h=11&t=10&k=2")
        check(self.text("#sentence") == "Layer 5, head 11, 32 dimensions per vector. “animal”: score 23.43, "
              "÷ √32 = 4.14, softmax exp(4.14 − 4.14) / 1.55 = .647.", self.text("#sentence"))
        rows = self.c.js("[...document.querySelectorAll('.scales tbody tr')].map(r => [...r.cells].slice(1)"
                         ".map(d => d.textContent))")
        check(rows == [["1.000", ".647", ".122"], ["1.0", "3.9", "14.5"], [".001", ".554", ".928"]], rows)
        self.c.key("n", "KeyN")
        check(self.text("#sentence").endswith("The largest product is in dimension 21: 2.97."), self.text("#sentence"))

    def a_view_without_its_numbers_says_so(self):
        self.open("pair")
        c = self.c
        why = c.js("qkv.page.entries.map(b => [b.getAttribute('aria-disabled'), b.title])")
        check(any(off == "true" and "--against" in t for off, t in why), why)
        c.key("k", "KeyK")
        check(self.state()["view"] == "heads")
        self.open("pair", "#w=compare")
        check(self.state()["view"] == "heads")
