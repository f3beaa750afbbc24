# SPDX-License-Identifier: MIT
# browser_maps.py: cases of browser.py for the views model and matrix, also on pages of make_maps.c.
import json, os, re, subprocess, xml.etree.ElementTree as xml
import book_text
from said import check

SVG = "{http://www.w3.org/2000/svg}"
MAP = "Of 12 heads, 6 attend to a neighbour, 3 to one token and 3 to all tokens about equally. "


def make_book(command, folder):
    """Makes the page of a text of 200 kB, 20,000 tokens, which the command reads from a file."""
    model, text = os.path.join(folder, "book"), os.path.join(folder, "book.txt")
    book_text.make(".", model, text)
    subprocess.run([command, "view", "-q", "--force", "-m", model, "-f", text, "-o", os.path.join(folder, "book.html")],
                   check=True)


class Maps:
    """Cases that the class Test of browser.py inherits, with its helpers."""

    def maps(self, selector):
        return self.c.js("[...document.querySelectorAll('%s')].map(x => x.textContent)" % selector)

    def pixel(self, selector, x, y):
        """Returns the colour of a canvas at fractions of its width and height."""
        return self.c.js("(c => { const one = new OffscreenCanvas(1, 1).getContext('2d');"
                         " one.drawImage(c, -Math.floor(c.width * %g), -Math.floor(c.height * %g));"
                         " return [...one.getImageData(0, 0, 1, 1).data]; })(document.querySelector('%s'))"
                         % (x, y, selector))

    def at(self):
        return re.search(r"at=(\d+)\.(\d+)", self.c.js("location.hash")).groups()

    # ---- model
    def the_model_view_counts_kinds_and_names_the_head_that_matters(self):
        self.open("map")
        check(self.state()["view"] == "model")
        check(self.text("#sentence") == MAP + "Ablating layer 1, head 2 changes the sentence vector most: .077.",
              self.text("#sentence"))
        self.open("loss")
        check(self.text("#sentence") == MAP + "Ablating layer 1, head 2 raises the loss most: .077 nats per token.",
              self.text("#sentence"))
        names = self.c.js("[...document.querySelectorAll('.thumb')].map(b => b.getAttribute('aria-label'))")
        check(len(names) == 12 and names[6] == "layer 1, head 2, an .80, 3.1 effective keys, ablation effect .077", names[6])
        check(names[11].endswith("effect −.0040"), names[11])
        table = self.c.js("qkv.table()")
        check(len(table) == 13 and table[0][:3] == ["layer", "head", "kind"] and table[7][2] == "an", table[7])
        check(self.c.js("document.querySelector('#model').getAttribute('aria-label')") == self.text("#sentence"))
        check(self.c.js("document.querySelectorAll('#model [tabindex=\"0\"]').length") == 1)

    def arrows_walk_the_heads_and_enter_opens_one(self):
        self.open("map", "#at=1.1")
        c = self.c
        c.key("ArrowRight")
        check(self.at() == ("1", "2") and self.text("#question") == "What does layer 1, head 2 do?", self.at())
        check("attends to one token, “an”" in self.text("#sentence") and "Ablation effect: .077" in self.text("#sentence"))
        for key, want in (("ArrowDown", ("2", "2")), ("ArrowDown", ("2", "2")), ("ArrowLeft", ("2", "1")),
                          ("ArrowUp", ("1", "1")), ("ArrowLeft", ("1", "0")), ("ArrowLeft", ("1", "0"))):
            c.key(key)
            check(self.at() == want, key, self.at(), "expected", want)
        check(self.text("#right h2") == "Layer 1, head 0")
        c.key("Escape")
        check(self.text("#question") == "What kinds of head does this model have?")
        c.key("Enter")
        s = self.state()
        check((s["view"], s["layer"], s["selected"]) == ("heads", 1, [0]), s)
        c.key("m", "KeyM")
        c.click(*self.middle(".thumb:nth-of-type(4)"))
        s = self.state()
        check((s["view"], s["layer"], s["selected"]) == ("heads", 0, [3]), s)

    def heads_come_in_each_order_and_show_each_measure(self):
        self.open("loss")
        c, first = self.c, lambda: self.c.js("document.querySelector('.thumb').getAttribute('aria-label')")
        c.key("o", "KeyO")
        check([h.split()[1] for h in self.maps("#model h3")] == ["previous", "next", "vertical", "diffuse"], self.maps("#model h3"))
        self.open("loss", "#order=3")
        distances = [float(r[5]) for r in c.js("qkv.table()")[1:]]
        check(distances == sorted(distances), distances)
        self.open("loss", "#order=2")
        keys = [float(r[4]) for r in c.js("qkv.table()")[1:]]
        check(keys == sorted(keys), keys)
        self.open("loss", "#order=4&cell=4")
        check(first().startswith("layer 1, head 2"), first())
        effects = [float(r[7]) for r in c.js("qkv.table()")[1:]]
        check(effects == sorted(effects, reverse=True) and effects[-1] == -.004, effects)
        self.open("map", "#at=0.0")
        c.settle(.2)
        dark, light = self.pixel(".thumb canvas", .5, .53), self.pixel(".thumb canvas", .9, .1)
        check(sum(dark[:3]) < sum(light[:3]) - 150, dark, light)
        c.key("l", "KeyL")
        c.settle(.2)
        check(self.pixel(".thumb canvas", .5, .53) != dark)

    def the_map_is_red_by_effect_and_a_click_shows_what_changes(self):
        self.open("map")
        c = self.c
        c.key("b", "KeyB")
        c.settle(.3)
        check(self.text("#question") == "Which heads does this text need?", self.text("#question"))
        check(self.text("#sentence").startswith("Ablating layer 1, head 2 changes the sentence vector most: .077."),
              self.text("#sentence"))
        check("cell=4" in c.js("location.hash"), c.js("location.hash"))
        hot, pale = (self.pixel("[aria-label^=\"layer %d, head %d\"] canvas" % p, .2, .2) for p in ((1, 2), (0, 0)))
        check(hot[:3] == [179, 38, 30], hot, pale)
        check(pale[0] > 240 and pale[1] > 200, pale)
        self.shot("map-effects")
        c.click(*self.middle("[aria-label^=\"layer 1, head 2\"]"))
        check(self.state()["view"] == "model" and self.at() == ("1", "2"), self.state()["view"], self.at())
        check(self.maps("#right tbody tr") == ["like2.300", "arrow4.200"], self.maps("#right tbody tr"))
        self.open("loss", "#cell=4&at=1.2")
        check(self.maps("#right tbody tr") == ["like2.500.300", "arrow4.500.200"], self.maps("#right tbody tr"))
        self.shot("map-loss")
        bars = self.c.js("[...document.querySelectorAll('.thumb u')].map(u => [u, u.parentElement].map(x =>"
                         " x.getBoundingClientRect())).map(([b, s]) => [b.left - s.left, b.width, s.width])")
        zero = bars[6][0]  # the bar of the largest effect ends at the right, a negative bar ends where it begins
        check(abs(zero + bars[6][1] - bars[6][2]) < .1 and zero > 1, bars[6])
        check(all(abs(x - zero) < .1 for x, _, _ in bars[:11]), bars)
        check(abs(bars[11][0]) < .1 and abs(bars[11][1] - zero) < .1, bars[11], zero)
        blue = self.pixel("[aria-label^=\"layer 2, head 3\"] canvas", .2, .2)
        check(blue[2] > blue[0] + 10, blue)
        self.open("pair", "#w=model&cell=4&order=4")
        shown = self.maps(".choice [aria-pressed=\"true\"]")
        check(shown == ["as in the model", "matrix"], shown)
        check(self.maps(".choice button:disabled") == ["ablation effect", "ablation effect"], self.maps(".choice button:disabled"))
        c.key("b", "KeyB")
        c.settle(.7)
        check("has no ablation effects" in self.text("[aria-live]"), self.text("[aria-live]"))

    def a_point_is_the_largest_of_its_weights(self):
        self.c.size(360, 800)
        self.open("long", "#w=matrix&l=1&h=2&s=1")
        self.c.settle(1)
        for mode in ("max", "mean"):
            got = self.c.js("""(p => { const T = p.T, n = p.n; let worst = 0, seen = 0;
                for (const r of [0, 7, 64, p.rows - 1]) { const want = new Float64Array(p.columns), many = new Float64Array(p.columns);
                    for (let i = 0; i < T; i++) if (Math.floor(i * p.rows / T) === r) qkv.row(1, 2, i).forEach((w, j) => {
                        const c = Math.floor(j * p.columns / T); many[c]++; want[c] = p.mode === 'max' ? Math.max(want[c], w) : want[c] + w; });
                    want.forEach((w, c) => { seen++; worst = Math.max(worst, Math.abs((p.mode === 'max' ? w : w / many[c]) - p.point(r, c))); }); }
                return [p.mode, n, seen, worst]; })(qkv.page.view.points())""")
            check(got[0] == mode and got[1] in (128, 256) and got[2] == 4 * got[1], got)
            check(got[3] < 1e-6, got)
            self.c.js("document.querySelectorAll('.matrix .choice button')[1].click()")
            self.c.settle(.5)
        self.c.size(1440, 900)

    def a_poster_fits_and_its_colours_are_explained(self):
        for name in ("pair", "many"):
            self.c.size(1280, 800)
            self.open(name, "#w=model")
            box = self.c.js("(b => [b.scrollHeight - b.clientHeight, b.scrollWidth - b.clientWidth,"
                            " document.querySelector('.kinds').getBoundingClientRect().bottom])(document.querySelector('#model'))")
            check(box[1] <= 0, name, box)
            if name == "pair":
                check(box[0] <= 0 and box[2] <= 800, name, box)
            kinds = self.maps(".kinds > span")
            total = self.c.js("qkv.page.L * qkv.page.H")
            check(sum(int(re.search(r"\d+$", k).group()) for k in kinds) == total, kinds, total)
            swatches = self.c.js("[...document.querySelectorAll('.kinds .swatch')].map(s => s.style.background)")
            check(len(set(swatches)) == len(kinds), swatches)
        svg = self.c.js("qkv.svg()")
        check(all(re.search(r"[a-z ]+", k).group() in svg for k in kinds), kinds)
        self.c.size(1440, 900)

    # ---- matrix
    def hidden_tokens_have_no_rows(self):
        self.open("pair", "#w=matrix&l=0&h=1&s=0")
        c = self.c
        labels = c.js("(l => { const f = CanvasRenderingContext2D.prototype, old = f.fillText;"
                      " f.fillText = function (t, ...a) { l.push(t); return old.call(this, t, ...a); };"
                      " dispatchEvent(new Event('resize')); return new Promise(r => requestAnimationFrame(() =>"
                      " requestAnimationFrame(() => { f.fillText = old; r(l); }))); })([])")
        check("banana" in labels and "[CLS]" not in labels and "[SEP]" not in labels, labels)
        size = c.js("(p => [p.px * p.T, document.querySelector('#matrix canvas').clientHeight - p.above])(qkv.page.view.points())")
        check(size[0] > size[1] + 10, size)  # 12 of 15 rows
        box = self.box("#matrix")
        p = c.js("(p => [p.left, p.above, p.px])(qkv.page.view.points())")
        c.click(box["x"] + p[0] + 2.5 * p[2], box["y"] + p[1] + 1.5 * p[2])  # the second row shown, the third key shown
        s = self.state()
        check((s["row"], s["key"]) == (2, 3), s)
        c.key("ArrowUp")
        c.key("ArrowUp")
        check(self.state()["row"] == 1, self.state())
        c.key("s", "KeyS")
        whole = c.js("(p => p.px * p.T)(qkv.page.view.points())")
        check(abs(whole - c.js("document.querySelector('#matrix canvas').clientHeight - qkv.page.view.points().above")) < 40, whole)

    def a_book_opens_and_its_minimap_is_filled(self):
        if not self.command:
            return
        self.open("book")
        c = self.c
        c.settle(1)
        check(self.state()["view"] == "matrix" and c.js("qkv.page.T") == 20000, self.state())
        drawn = c.js("(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
                     " for (let k = 0; k < d.length; k += 4) n += d[k + 3] > 0 && d[k] + d[k + 1] + d[k + 2] < 740;"
                     " return n / (c.width * c.height); })(document.querySelector('#minimap'))")
        check(drawn > .9, drawn)

    def the_marked_token_and_its_view_are_in_sight(self):
        c = self.c
        self.open("pair", "#w=model&l=1&h=2&at=1.2&t=3")
        row = c.js("Array.from(qkv.row(1, 2, 3))")
        keys = c.js("qkv.page.visibleKeys")
        best = max(keys, key=lambda j: row[j])
        names = c.js("[3, %d].map(i => qkv.page.tokens[i].named)" % best)
        check(self.text(".facts dt") == "“%s” attends to “%s”" % tuple(names), self.text(".facts dt"), names)
        self.open("pair", "#w=output&t=3")
        check(c.js("[...document.querySelectorAll('.board .strong')].map(t => t.textContent)") == ["“%s”" % names[0]])
        c.size(390, 844)
        can = "qkv.page.entries.filter(b => !b.hidden && b.getAttribute('aria-disabled') !== 'true')"
        for view in range(c.js(can + ".length")):
            c.js("%s[%d].click()" % (can, view))
            c.frames(2)
            at = self.box("#views [aria-current]")
            check(at["x"] >= 0 and at["x"] + at["w"] <= 390, self.text("#views [aria-current]"), at)
        c.size(1440, 900)

    def a_phone_shows_the_special_tokens_of_the_matrix(self):
        c = self.c
        c.size(390, 844)
        self.open("pair", "#w=matrix&l=1&h=2")
        switch = "#left .specials [role=switch]"
        for special in (True, False):
            c.js("document.querySelector('%s').scrollIntoView({ block: 'center' })" % switch)
            at = self.box(switch)
            check(at["h"] >= 44 and at["x"] >= 0 and at["x"] + at["w"] <= 390, at)
            c.click(*self.middle(switch))
            c.frames(2)
            checked = c.js("document.querySelector('%s').getAttribute('aria-checked')" % switch)
            check(self.state()["special"] == special and checked == ("false" if special else "true"), special, checked)
            check(("[CLS]" in self.text("#mid .note")) != special, self.text("#mid .note"))
        c.size(1440, 900)

    def a_prompt_keeps_its_spaces(self):
        if not self.command:
            return
        text = "In the beginning God created the heaven"
        subprocess.run([self.command, "view", "-q", "--force", "-m", "models/verse", text, "-o", self.path("prompt.html")],
                       check=True, stdout=subprocess.DEVNULL)
        self.open("prompt", "#w=matrix&t=4")
        check(self.text(".shaded").endswith(text), self.text(".shaded"))

    def the_six_steps_play(self):
        self.open("pair", "#w=steps")
        c = self.c
        check("Play" in self.text(".play"))
        c.click(*self.middle(".play"))
        check(self.text("#sentence").startswith("1. "), self.text("#sentence"))
        c.click(*self.middle(".play"))
        root = xml.fromstring(c.js("qkv.page.view.animated()"))
        frames = [g for g in root if g.tag == SVG + "g"]
        said = ["".join(t.text or "" for t in f.iter(SVG + "text")) for f in frames]
        check(len(frames) == 7 and all("%d. " % (n + 1) in said[n] for n in range(6)), said)
        check("@keyframes" in root.find(SVG + "style").text and "reduced-motion" in root.find(SVG + "style").text)
        c.media(prefers_reduced_motion="reduce")
        self.open("pair", "#w=steps")
        check(self.text(".play") == "Next step", self.text(".play"))
        c.media(prefers_color_scheme="light")

    def the_matrix_zooms_pans_and_jumps(self):
        self.open("long", "#w=matrix&l=1&h=1")
        c = self.c
        place = lambda: c.js("(p => [p.px, p.r0, p.c0])(qkv.page.view.points())")
        check("all 512 tokens, one point is one weight" in self.text("#sentence"), self.text("#sentence"))
        px = place()[0]
        c.key("+", "Equal")
        c.key("+", "Equal")
        check(abs(place()[0] / px - 4) < .01 and place()[1] > 0, place())
        check(re.search(r"; tokens [\d]+ to [\d]+, one", self.text("#sentence")), self.text("#sentence"))
        before = place()
        c.key("ArrowRight")
        c.key("ArrowDown")
        check(place()[1] > before[1] and place()[2] > before[2], before, place())
        c.key("ArrowLeft")
        check(abs(place()[2] - before[2]) < .01)
        c.settle(.4)
        hash = c.js("location.hash")
        check("zoom=" in hash and "top=" in hash, hash)
        here = place()
        self.open("long", hash)
        check(all(abs(a - b) < .01 * (1 + b) for a, b in zip(place(), here)), place(), here)
        c.key("/", "Slash")
        for letter in "banana":
            c.key(letter)
        c.key("Enter")
        row = self.state()["row"]
        check(place()[1] <= row <= place()[1] + 300 and "“banana”" in self.text("#sentence"), self.text("#sentence"))
        c.key("Escape")
        c.js("document.querySelector('#matrix').focus()")
        c.key("w", "KeyW")
        check(abs(place()[0] - px) < .01)
        c.key("j", "KeyJ")
        check(place()[0] >= px)
        layer = self.state()["layer"]
        c.key("]", "BracketRight")
        check(self.state()["layer"] == layer + 1)
        c.key("[", "BracketLeft")
        c.key("3", "Digit3")
        check(self.state()["selected"] == [3] and self.state()["layer"] == layer)
        c.key("g", "KeyG")
        check(self.state()["log"])

    def a_marked_row_is_told_whole(self):
        for name, hash in (("long", "#w=matrix&l=1&h=1&t=200"), ("map", "#w=matrix&l=1&h=2&t=4"), ("coarse", "#w=matrix&l=0&h=1&t=99")):
            self.open(name, hash)
            self.c.settle(.3)
            table = self.c.js("qkv.table()")
            check(table[0] == ["key", "token", "weight", "× uniform"], table[0])
            total = sum(float(r[2]) for r in table[1:])
            unit = 10. ** -len(table[1][2].partition(".")[2])  # of the decimals that the page knows
            check(abs(total - 1) <= .004 + unit / 2 * len(table), name, total)
            weights = [float(r[2]) for r in table[1:] if r[1] != ""]
            check(weights == sorted(weights, reverse=True), name)
            check(self.text(".row-panel h2").startswith("The text, shaded by"), self.text(".row-panel h2"))
            check(self.c.js("document.querySelectorAll('.shaded .marked').length") >= 1)
        for row, said in ((4, "are not numbers: they contain NaN"), (3, "attends to no key: all its weights are 0")):
            self.open("broken", "#w=matrix&l=0&h=%d&t=%d" % (row - 3, row))
            check(said in self.text("#sentence"), self.text("#sentence"))
        self.open("one", "#w=matrix")
        check(self.text("#sentence") == "The only token attends to itself: 1.000.", self.text("#sentence"))
        self.open("map", "#w=matrix&l=1&h=2&t=4")
        check(self.text("#sentence") == "Layer 1, head 2: “arrow” (token 4) attends most to “an” (token 3): .762, 9.1× uniform.",
              self.text("#sentence"))
        note = "document.querySelector('.view.matrix > .note').innerText"
        check("goes to [CLS], [SEP], which are not shown. Key S shows them." in self.c.js(note), self.c.js(note))
        self.c.js("dispatchEvent(new Event('beforeprint'))")  # paper has no keys
        check(self.c.js(note).endswith("which are not shown."), self.c.js(note))
        self.c.js("dispatchEvent(new Event('afterprint'))")
        self.c.key("s", "KeyS")
        check(self.text(".view.matrix > .note") == "")

    def pointing_at_the_matrix_tells_the_pair_and_a_click_marks_it(self):
        self.open("map", "#w=matrix&l=1&h=0")
        c, b = self.c, self.box("#matrix")
        p = c.js("(p => ({left: p.left, above: p.above, px: p.px}))(qkv.page.view.points())")
        # token 0 is special and hidden, and has no row
        at = lambda i, j: (b["x"] + p["left"] + (j - .5) * p["px"], b["y"] + p["above"] + (i - .5) * p["px"])
        c.mouse(*at(5, 4))
        c.frames(3)
        check(re.match(r"fruit 5 → arrow 4weight \.6\d\d, [\d.]+× uniform", self.text(".tip")), self.text(".tip"))
        check("from “fruit” (token 5) to “arrow” (token 4): weight .6" in self.text("#sentence"), self.text("#sentence"))
        c.click(*at(5, 4))
        check((self.state()["row"], self.state()["key"]) == (5, 4))
        self.shot("matrix-pair")
        c.key("Escape")
        c.mouse(5, 5)
        check(self.state()["row"] == -1)
        c.key("Enter")
        check(self.state()["row"] >= 0)
        self.open("long", "#w=matrix&l=1&h=1&zoom=8")
        before = c.js("qkv.page.view.points().r0")
        m = self.box("#minimap")
        c.mouse(m["x"] + m["w"] / 2, m["y"] + m["h"] / 2, "mousePressed")
        c.mouse(m["x"] + m["w"] * .8, m["y"] + m["h"] * .8)
        c.mouse(m["x"] + m["w"] * .8, m["y"] + m["h"] * .8, "mouseReleased")
        c.frames(3)
        check(c.js("qkv.page.view.points().r0") > before + 200)
        b = self.box("#matrix")
        c.mouse(b["x"] + 400, b["y"] + 300, "mousePressed")
        c.mouse(b["x"] + 500, b["y"] + 380)
        c.mouse(b["x"] + 500, b["y"] + 380, "mouseReleased")
        c.frames(3)
        check(self.state()["row"] == -1, "a drag is no click")

    def wheel_and_fingers_zoom_and_pan(self):
        self.open("long", "#w=matrix&l=1&h=1")
        c = self.c
        place = lambda: c.js("(p => [p.px, p.r0, p.c0])(qkv.page.view.points())")
        whole = place()[0]
        c.call("Input.dispatchMouseEvent", type="mouseWheel", x=600, y=500, deltaX=0, deltaY=-300, modifiers=2)
        c.frames(4)
        wheel = place()
        check(wheel[0] > 3 * whole and wheel[1] > 50, wheel)
        c.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)

        def touch(kind, *places):
            c.call("Input.dispatchTouchEvent", type=kind,
                   touchPoints=[{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(places)])
        touch("touchStart", (500, 400), (600, 400))
        for k in range(1, 5):
            touch("touchMove", (500 - 15 * k, 400), (600 + 15 * k, 400))
        touch("touchEnd")
        c.frames(4)
        pinch = place()
        check(1.8 < pinch[0] / wheel[0] < 2.6, wheel, pinch)
        touch("touchStart", (600, 500))
        for k in range(1, 5):
            touch("touchMove", (600 - 20 * k, 500 - 20 * k))
        touch("touchEnd")
        c.frames(4)
        check(place()[1] > pinch[1] + 3 and place()[2] > pinch[2] + 3 and self.state()["row"] == -1, place())
        touch("touchStart", (600, 500))
        touch("touchEnd")
        c.frames(3)
        check(self.state()["row"] >= 0, "a tap marks")
        c.call("Emulation.setTouchEmulationEnabled", enabled=False)

    def masks_are_hatched_and_another_text_is_named(self):
        self.open("cross", "#h=1&l=0")
        c = self.c
        check(self.state()["view"] == "matrix" and self.text("#question") == "Where does this text attend to itself?")
        c.settle(.2)
        p = c.js("(p => ({left: p.left, above: p.above, px: p.px, T: p.T}))(qkv.page.view.points())")
        b = self.box("#matrix")
        for i, j, said in ((2, 8, "masked"), (9, 1, "masked"), (9, 8, "weight")):
            c.mouse(b["x"] + p["left"] + (j + .5) * p["px"], b["y"] + p["above"] + (i + .5) * p["px"])
            c.frames(3)
            check(said in self.text(".tip"), i, j, self.text(".tip"))
        self.shot("matrix-window")
        self.open("cross", "#a=1&h=2&t=6")
        check(self.text("#question") == "Where does the output attend to the input?")
        check(re.match(r"Layer 0, head 2: “banana” \(token 6\) attends most to “it” \(token 3\): \.6", self.text("#sentence")), self.text("#sentence"))
        self.shot("matrix-cross")
        self.open("causal", "#w=model")
        c.settle(.3)
        check(self.pixel(".thumb canvas", .9, .1)[3] == 0)

    def what_a_probe_kept_is_drawn_and_what_it_did_not_is_said(self):
        self.open("kept", "#h=1")
        c = self.c
        check("all 3,000 tokens, one point is the maximum of" in self.text("#sentence"), self.text("#sentence"))
        check(self.maps(".contents bdi")[:2] == ["0. Part of it", "1. Part of it"], self.maps(".contents bdi"))
        c.key("+", "Equal")
        c.key("+", "Equal")
        c.settle(.4)
        check(re.search(r"has only the largest weights of each row, \d\d% of all weight", self.text(".view.matrix > .note")),
              self.text(".view.matrix > .note"))
        c.js("location.hash = '#h=1&t=1300&w=matrix'")
        c.settle(.4)
        check(re.match(r"Layer 0, head 1: “\w+” \(token 1,300\) attends most to “\w+” \(token 1,250\): \.[56]\d\d, ", self.text("#sentence")),
              self.text("#sentence"))
        check("of its weight in “5. Part of it”" in self.text("#sentence"), self.text("#sentence"))
        table = c.js("qkv.table()")
        check(table[-1][0] == "not in this file" and abs(sum(float(r[2]) for r in table[1:]) - 1) < .004 + .0005 * len(table), table)
        c.js("location.hash = '#h=1&t=1300&k=7&w=matrix'")
        c.frames(3)
        check(re.search(r"to “\w+” \(token 7\): not stored: at most \.", self.text("#sentence")), self.text("#sentence"))
        c.key("j", "KeyJ")
        c.key("j", "KeyJ")
        c.settle(.7)
        check(re.search(r"Part of it, tokens [\d,]+ to [\d,]+", self.text("[aria-live]")), self.text("[aria-live]"))
        self.shot("matrix-kept")
        c.key("m", "KeyM")
        c.settle(.4)
        check(len(self.maps(".thumb")) == 2)
        self.shot("model-kept")

    def maps_fit_every_width_and_theme(self):
        for name, view in (("map", "model"), ("many", "model"), ("long", "matrix"), ("hostile", "matrix"), ("one", "matrix")):
            for width, theme in ((1440, "light"), (760, "dark"), (360, "light")):
                self.c.size(width, 900)
                self.c.media(prefers_color_scheme=theme)
                self.open(name, "#w=" + view)
                wide = self.c.js("document.scrollingElement.scrollWidth")
                check(wide <= width, name, view, "is", wide, "wide at", width)
                if width <= 360:
                    small = self.c.js("[...document.querySelectorAll('.view:not([hidden]) button')].filter(b => b.offsetParent && b.offsetHeight < 43.9).length")
                    check(small == 0, name, view, small, "touch targets are too small")
                if name in ("map", "long"):
                    self.shot("%s-%s-%d" % (view, name, width))
        self.c.size(1440, 900)
        self.c.media(prefers_color_scheme="light")

    def maps_are_saved_with_their_words(self):
        for name, hash in (("map", "#order=1"), ("map", "#w=matrix&t=3"), ("long", "#w=matrix&h=1")):
            self.open(name, hash)
            self.c.settle(.3)
            root = xml.fromstring(self.c.js("qkv.svg()"))
            check(root.find(SVG + "desc").text == self.text("#sentence"), name, hash)
            check(root.find(SVG + "title").text == self.text("#question"), name, hash)
            images, words = (len(root.findall(".//" + SVG + x)) for x in ("image", "text"))
            check(images >= 1 and words > 5, name, hash, images, words)
            check(all(i.get("href").startswith("data:image/png") for i in root.findall(".//" + SVG + "image")))

    def a_chart_shows_huge_and_tiny_numbers_shortly(self):
        if not self.command:
            return
        with open(self.path("huge.jsonl"), "w", encoding="utf-8") as f:
            for step, loss in enumerate((1e31, 3.25e31, 4e-9, 2.5e15), 1):
                f.write(json.dumps({"step": step, "loss": loss, "rate": 1e-3}) + "\n")
        r = subprocess.run([self.command, "plot", "--force", "-o", self.path("huge.html"), self.path("huge.jsonl")],
                           capture_output=True, text=True)
        check(r.returncode == 0, r.stderr)
        self.c.open(self.path("huge.html"))
        for width, drawing in (1440, "#wide"), (768, "#medium"), (390, "#narrow"):
            self.c.size(width, 900)
            self.c.frames(2)
            box = self.box(drawing)
            check(0 < box["w"] <= width and self.text("#cursor") is not None, width, box)
            check(self.c.js("document.querySelector('#cursor').parentNode.id") == drawing[1:], drawing)
            check(self.c.js("[...document.querySelectorAll('svg')].filter(s => s.checkVisibility()).length") == 1)
            seen = set()
            for n in range(1, 60, 4):
                self.c.mouse(box["x"] + box["w"] * n / 60, box["y"] + box["h"] * .3)
                self.c.frames(1)
                seen.add(self.text("#numbers td:nth-child(2)"))
            check({"1.00e31", "3.25e31", "4.00e−9", "2.50e15"} <= seen, seen)
        self.c.size(1440, 900)
        page = self.c.js("document.body.innerText")
        check("from 1e31 to" in page and not re.search(r"[\d,]{16}", page), page)

    def frames_of_the_matrix_are_timed(self):
        if not os.environ.get("QKV_SLOW"):
            return  # it prints times
        self.open("long", "#w=matrix&h=1")
        self.c.settle(1)
        times = []
        for key in ["+", "+", "ArrowRight", "ArrowDown", "ArrowLeft", "-", "-"] * 2:
            self.c.key(key, "Equal" if key == "+" else "Minus" if key == "-" else key)
            times.append(self.c.js("qkv.timing.picture"))
        print("   script in a frame of the matrix, ms: median %.1f, most %.1f" % (sorted(times)[len(times) // 2], max(times)))

    def cells_of_tables_keep_the_places_of_words_that_are_cut(self):
        c = self.c
        for page, hash, cells in (("pair", "#w=heads&l=1&h=1&t=1", "#right td.text"), ("pair", "#w=heads&l=1&h=1&v=1", "td.text"),
                                  ("against", "#w=compare&l=0&h=1&t=3", "#right td.text"),
                                  ("run", "#w=training&l=0&h=1", "#right td.text")):
            self.open(page, hash)
            c.js("qkv.page.tokens.concat(qkv.page.keys).forEach((t, i) => { if (!t.special) t.named ="
                 " 'international'.repeat(3) + '₁₂'; }); dispatchEvent(new Event('resize'))")
            c.key("s")
            c.settle(.4)
            cut = c.js("""[...document.querySelectorAll('%s')].filter(td => td.textContent.includes('national')).map(td => {
                const r = document.createRange(), last = td.querySelector('bdi').lastChild;
                const walker = document.createTreeWalker(td, NodeFilter.SHOW_TEXT);
                let end = null;
                while (walker.nextNode()) end = walker.currentNode;
                r.selectNodeContents(end);
                const b = r.getBoundingClientRect(), box = td.getBoundingClientRect();
                r.selectNodeContents(last);
                const p = r.getBoundingClientRect();
                return [td.textContent, Math.max(b.right, p.right) - box.right, p.width, last.textContent];
            })""" % cells)
            check(cut and all(beyond < 1.5 and wide > 5 and end.startswith("₁₂") for _, beyond, wide, end in cut), page, cut)

    def a_number_follows_its_right_to_left_word(self):
        c = self.c
        self.open("pair", "#w=heads&l=1&h=1")
        c.js("qkv.page.tokens.forEach((t, i) => { if (!t.special) t.text = t.named = 'שלום' + '₁₂'; })")
        c.js("location.hash = '#w=heads&l=1&h=1&t=3'")
        c.wait("document.querySelector('#sentence').textContent.includes('שלום')")
        at = c.js("""(() => {
            const r = document.createRange(), out = [];
            for (const line of document.querySelectorAll('#sentence, #stories button')) {
                const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
                while (walker.nextNode())
                    for (const m of walker.currentNode.textContent.matchAll(/שלום|[.]\\d+/g)) {
                        r.setStart(walker.currentNode, m.index);
                        r.setEnd(walker.currentNode, m.index + m[0].length);
                        const b = r.getBoundingClientRect();
                        out.push([m[0], b.left + 10000 * Math.round(b.top / 20)]);
                    }
            }
            return out;
        })()""")
        check(len(at) >= 4 and any(t[0] == "." for t, _ in at), at)
        check(all(a[1] < b[1] for a, b in zip(at, at[1:]) if a[0] != "."), at)
