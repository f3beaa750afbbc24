# SPDX-License-Identifier: MIT
# boxes.py: takes the box of every visible text of every view of a page: none leaves its container, its canvas or the
# window where there is no scroller, and none meets another. The same of the course as one page and of the pages of
# charts, which have no views.
#   boxes.py FOLDER sample|all [QKV | PAGE...]
# FOLDER has the pages of make_pages and make_maps; with QKV, the command, FOLDER/plain gets the course (if pandoc is
# installed) and charts. PAGE: the name of a page, plain/NAME for one without views. all: 320 to 2,560 pixels in steps
# of 20, three families of fonts, both themes, and print (QKV_STEP: other steps; QKV_FONTS: some of the families,
# separated by commas); sample: some of them, and the dark theme, which changes colours, of two pages. Exit 77: Chromium
# is not installed.
import glob, json, os, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome
import plain_pages

FONTS = {"DejaVu": ("DejaVu Sans", "DejaVu Serif"), "Liberation": ("Liberation Sans", "Liberation Serif"),
         "Noto": ("Noto Sans", "Noto Serif")}
SAMPLE = {"pair": (340, 760, 1180), "against": (320, 820, 1280), "causal": (320, 1000), "run": (900,), "stacks": (600,),
          "map": (760, 1440), "long": (1280,), "kept": (1180,), "book": (320, 480, 780)}
SAMPLE_PLAIN = (340, 1280)
PRINTED = (688, 1017)  # the width of A4 less its margins, upright and across


class Pages:
    def __init__(self, browser, folder):
        self.c, self.folder, self.texts, self.faults = browser, folder, 0, {}
        self.shown = self.window = None  # the family of fonts and the size, which are set only to others
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "boxes.js"), encoding="utf-8") as f:
            browser.call("Page.addScriptToEvaluateOnNewDocument", source=f.read())

    def size(self, width, height):
        if self.window != (width, height):
            self.c.size(width, height)
        self.window = width, height

    def open(self, name):
        self.shown = None
        self.c.open(os.path.join(self.folder, name + ".html"))
        self.c.wait("!!globalThis.qkv && !!qkv.timing")
        return self.c.js("qkv.page.entries.map((b, n) => b.getAttribute('aria-disabled') === 'true' ? null : n)"
                         ".filter(n => n !== null)")

    def view(self, n):
        self.c.js("qkv.page.entries[%d].click()" % n)
        self.c.frames(2)
        self.c.settle(.25)  # parts that are drawn later
        return self.c.js("qkv.page.view.id")

    def font(self, name):
        if self.shown == name:
            return
        self.shown = name
        self.c.js("(([sans, serif]) => { const s = document.documentElement.style; s.setProperty('--sans', sans);"
                  " s.setProperty('--serif', serif); qkv.page.font = sans; })(%s)"
                  % json.dumps([json.dumps(f) for f in FONTS[name]]))

    def theme(self, name):
        self.c.js("document.documentElement.dataset.theme = '%s'" % name)

    def look(self, page, view, width, font, more=""):
        # two frames: the picture, then the panels
        self.c.js("new Promise(r => { dispatchEvent(new Event('resize')); requestAnimationFrame(() =>"
                  " requestAnimationFrame(() => requestAnimationFrame(() => r(1)))); })")
        got = self.c.js("faultsOfBoxes()")
        self.texts += got["texts"]
        for fault in got["faults"]:
            self.faults.setdefault((view, fault), []).append("%s %d %s%s" % (page, width, font, more))

    def modes(self, page, view, widths, font, height):
        """Looks at the other drawings that a view offers as buttons, such as links or matrices."""
        buttons = "[...document.querySelectorAll('#mid > .view:not([hidden]) .choices button')]"
        self.font(font)
        was = self.c.js(buttons + ".map(b => b.getAttribute('aria-pressed') === 'true')")
        for n, on in enumerate(was):
            if on:
                continue
            self.c.js("%s[%d].click()" % (buttons, n))
            for width in widths:
                self.size(width, height)
                self.look(page, view, width, font, " " + self.c.js("%s[%d].textContent" % (buttons, n)))
        for n, on in enumerate(was):
            if on:
                self.c.js("%s[%d].click()" % (buttons, n))

    def walk(self, page, widths, fonts, printed, dark=True, height=900):
        self.size(1280, height)
        for n in self.open(page):
            view = self.view(n)
            for font in fonts:
                for width in widths[::-1]:  # the last one is the first below
                    self.size(width, height)
                    self.font(font)
                    self.look(page, view, width, font)
            self.modes(page, view, widths[::4], fonts[0], height)
            self.font(fonts[-1])
            if dark:
                self.theme("dark")
                for width in widths[::4]:
                    self.size(width, height)
                    self.look(page, view, width, fonts[-1], " dark")
                self.theme("light")
            for width in printed:
                self.size(width, height)
                self.c.call("Emulation.setEmulatedMedia", media="print")
                self.c.js("dispatchEvent(new Event('beforeprint'))")
                self.look(page, view, width, fonts[-1], " printed")
                self.c.call("Emulation.setEmulatedMedia", media="")
                self.c.js("dispatchEvent(new Event('afterprint'))")


    def plain(self, page, widths, fonts, printed, dark=True):
        """Walks a page without views: a style sheet sets its fonts, and the reader has a theme."""
        self.size(1280, 900)
        self.c.open(os.path.join(self.folder, page + ".html"))
        name = os.path.basename(page)
        for font in fonts:
            self.c.js("(([sans, serif]) => { const s = new CSSStyleSheet(); s.replaceSync(`:root { --sans: ${sans}; --serif:"
                      " ${serif} } body, h1, h2 { font-family: ${document.querySelector('nav') ? serif : sans} }"
                      " svg text { font-family: ${sans} !important }`); document.adoptedStyleSheets = [s]; })(%s)"
                      % json.dumps([json.dumps(f) for f in FONTS[font]]))
            for width in widths:
                self.size(width, 900)
                self.look(page, name, width, font)
        if dark:
            self.c.media(prefers_color_scheme="dark")
            for width in widths[::8]:
                self.size(width, 900)
                self.look(page, name, width, fonts[-1], " dark")
            self.c.media(prefers_color_scheme="light")
        for width in printed:
            self.size(width, 900)
            self.c.call("Emulation.setEmulatedMedia", media="print")
            self.look(page, name, width, fonts[-1], " printed")
            self.c.call("Emulation.setEmulatedMedia", media="")


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("sample", "all"):
        print("usage: boxes.py FOLDER sample|all [PAGE...]")
        return 2
    path = chrome.find()
    if not path:
        print("skipped: no Chromium or Chrome that runs (QKV_CHROME names one)")
        return 77
    folder, whole = sys.argv[1], sys.argv[2] == "all"
    step = int(os.environ.get("QKV_STEP", "20"))
    fonts = os.environ.get("QKV_FONTS", ",".join(FONTS)).split(",")
    if not set(fonts) <= set(FONTS):
        print("QKV_FONTS: expected some of %s, found %s" % (", ".join(FONTS), ", ".join(fonts)))
        return 2
    given = sys.argv[3:]
    plain = [n for n in given if n.startswith("plain/")]
    if given and os.access(given[0], os.X_OK):
        plain = ["plain/" + n for n in plain_pages.make(given.pop(0), os.path.join(folder, "plain"))]
    has_book = os.path.exists(os.path.join(folder, "book.html"))  # the command makes it, if the build has one
    names = [n for n in given if n not in plain]
    if not given and whole:
        names = sorted(os.path.basename(p)[:-5] for p in glob.glob(os.path.join(folder, "*.html")))
    elif not given:
        names = [n for n in SAMPLE if n != "book" or has_book]
    grid = list(range(320, 2561, step))
    browser = chrome.Chrome(path)
    pages = Pages(browser, folder)
    try:
        for page in plain + names:
            begin = time.monotonic()
            if page in plain:
                some = SAMPLE_PLAIN, ["DejaVu"], PRINTED[:1], page == "plain/shapes"
                pages.plain(page, *((grid, fonts, PRINTED) if whole else some))
            elif whole:
                pages.walk(page, grid, fonts, PRINTED)
            else:
                pages.walk(page, SAMPLE[page], ["DejaVu"], PRINTED[:1], page == "pair")
            print("%s: %.0f s, %d texts, %d faults so far" % (page, time.monotonic() - begin, pages.texts, len(pages.faults)),
                  flush=True)
    finally:
        browser.close()
    for (view, fault), where in pages.faults.items():
        print("FAIL %s: %s (%d times; %s, %s)" % (view, fault, len(where), where[0], where[-1]))
    if pages.texts < 1000:
        print("FAIL only", pages.texts, "texts were seen")
    return 1 if pages.faults or pages.texts < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
