#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# browser_live.py QKV FOLDER MODEL DECODER: opens the page of `qkv view --live` in a headless Chromium, types, switches
# heads off, and compares what is shown with what the server answers. A console error fails the test. QKV_SHOTS=1 saves
# screenshots in FOLDER.
import json, os, re, signal, subprocess, sys, urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome

QKV, FOLDER, MODEL, DECODER = sys.argv[1:5]


class Live:
    """`qkv view --live` and its page."""

    def __init__(self, browser, model, text):
        self.b = browser
        self.process = subprocess.Popen([QKV, "view", "--live", "-m", model, text], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}", self.address), self.address
        self.open(self.address)

    def open(self, address):
        self.b.call("Page.navigate", url="about:blank")
        self.b.call("Page.navigate", url=address)
        self.b.wait("document.readyState === 'complete' && !!globalThis.qkv && qkv.page.weights && qkv.page.panels === 0")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        assert code == 0, code

    def answered(self, act, *more):
        """Does something, and waits until the server's answer is drawn."""
        version = self.b.js("qkv.page.version")
        act(*more)
        self.b.wait(f"qkv.page.version > {version} && qkv.page.panels === 0", 60)
        self.b.frames()

    def type(self, n, text):
        self.b.js(f"(f => {{ f.value = {json.dumps(text)}; f.dispatchEvent(new Event('input', {{ bubbles: true }})); }})"
                  f"(document.querySelectorAll('#live [type=text]')[{n}])")

    def slide(self, name, value):
        self.b.js(f"(r => {{ r.value = {value}; r.dispatchEvent(new Event('input', {{ bubbles: true }})); }})"
                  f"(document.querySelector('#live [aria-label={json.dumps(name)}]'))")

    def press(self, text):
        found = self.b.js("(b => { b?.click(); return !!b; })([...document.querySelectorAll('#live button')]"
                          f".find(b => b.textContent.startsWith({json.dumps(text)})))")
        assert found, f"no button {text}"

    def said(self):
        return self.b.js("document.querySelector('#live output').textContent")

    def words(self):
        return self.b.js("qkv.page.tokens.filter(t => !t.special).map(t => t.text)")

    def row(self, layer, head, i):
        return self.b.js(f"[...qkv.row({layer}, {head}, {i})]")

    def shots(self, name):
        if not os.environ.get("QKV_SHOTS"):
            return
        for width in (390, 1280):
            for theme in ("light", "dark"):
                self.b.size(width, 900, touch=width < 500)
                self.b.media(prefers_color_scheme=theme)
                self.b.frames(4)
                self.b.settle(.3)
                self.b.shot(os.path.join(FOLDER, f"live-{name}-{width}-{theme}.png"))
        self.b.size(1280, 900)
        self.b.media()
        self.b.frames(3)


def encoder(b):
    live = Live(b, MODEL, "time flies like an arrow")
    # the ticket is gone from the address, and a second use of it is refused to others
    assert "token" not in b.js("location.href"), b.js("location.href")
    assert b.js("document.querySelector('#live [type=text]').value") == "time flies like an arrow"
    live.open(live.address.split("?")[0])  # loading the page again works
    assert b.js("document.cookie") == "", "scripts can read the cookie"
    assert live.words() == "time flies like an arrow".split(), live.words()
    live.shots("first")

    b.js("(qkv.page.stacks, location.hash = 'l=3&h=1&t=2')")
    b.frames(3)
    live.answered(live.type, 0, "fruit flies like a ripe banana")
    assert live.words() == "fruit flies like a ripe banana".split(), live.words()
    state = b.js("qkv.state")
    assert state["layer"] == 3 and state["selected"] == [1] and state["row"] == 2, state  # "flies" is still marked
    assert b.js("document.title").startswith("fruit flies"), b.js("document.title")
    sentence = b.js("document.querySelector('#sentence').textContent")
    assert "flies" in sentence, sentence
    # `qkv view` writes a page with the same numbers
    path = os.path.join(FOLDER, "offline.html")
    subprocess.run([QKV, "view", "-q", "--force", "-m", MODEL, "-o", path, "fruit flies like a ripe banana"],
                   check=True, stdout=subprocess.DEVNULL)
    shown = live.row(3, 1, 2)

    # heads are switched off: the layers after them change, and the vector
    live.answered(live.press, "Switch off L3.H1")
    assert b.js("document.querySelectorAll('#chips [data-off]').length") == 1
    assert live.row(3, 1, 2) == shown, "the weights of an ablated head are shown as they were"
    found = re.search(r"cosine with the unchanged vector (\S+)", live.said())
    assert found and 0 < float(found[1]) < 1, live.said()
    one = float(found[1])
    live.shots("off")
    version = b.js("qkv.page.version")
    b.key("x")  # the key of the matrix view switches no head
    b.frames(3)
    assert b.js("qkv.state.view") == "matrix" and b.js("qkv.page.version") == version, b.js("qkv.state")
    b.key("h")
    b.js("location.hash = 'l=4&h=0.1.2.3&t=2'")
    b.frames(3)
    live.answered(b.key, "Delete")
    assert b.js("document.querySelectorAll('#chips [data-off]').length") == 4
    b.key("?")
    rows = b.js("[...document.querySelectorAll('dialog[open] kbd')].map(k => k.textContent)")
    assert rows.count("Del") == 1 and len(rows) == len(set(rows)), rows  # each key once
    b.key("Escape")
    four = float(re.search(r"vector (\S+)", live.said())[1])
    assert four != one, four
    live.answered(live.press, "L3.H1")
    live.answered(live.press, "Switch on L4.H0")
    assert live.said() == "", live.said()
    assert b.js("document.querySelectorAll('#live .off button').length") == 0

    # the scale changes the weights themselves
    before = live.row(0, 0, 2)
    live.answered(live.slide, "Scale ×", 1)
    after = live.row(0, 0, 2)
    assert max(after) > max(before) and "cosine" in live.said(), (before, after)
    live.answered(live.slide, "Scale ×", 0)
    assert live.row(0, 0, 2) == before

    # a second text: the view compare can be opened, and closes with it
    live.press("Second text")
    live.answered(live.type, 1, "time flies like an arrow")
    b.js("document.activeElement.blur()")
    b.key("k")
    assert b.js("qkv.state.view") == "compare"
    live.shots("second")
    live.answered(live.press, "Second text")
    assert b.js("qkv.state.view") == "heads"
    for key in "hmnsou":  # every view draws the new numbers
        live.answered(live.type, 0, f"a text for {key}")
        b.key(key)
        b.frames(3)

    # the bar shows an error of the server, and the page stays
    live.type(0, "word " * 6000)
    b.wait("!!document.querySelector('#live output.broken')")
    assert "tokens" in live.said(), live.said()
    live.answered(live.type, 0, "and it continues")
    assert live.words() == ["and", "it", "continues"]
    assert b.errors and all("413" in e or "400" in e for e in b.errors), b.errors
    b.errors.clear()
    live.end()
    live.type(0, "no answer")
    b.wait("!!document.querySelector('#live output.broken')")
    assert "The server does not answer" in live.said(), live.said()
    b.errors.clear()

    # the page of a file has no bar, and the same numbers
    b.open(path)
    b.wait("!!qkv.page.weights")
    assert not b.js("!!document.querySelector('#live')")
    assert live.row(3, 1, 2) == shown
    # a page of the server that was saved is an offline page
    host = urllib.parse.urlsplit(live.address).netloc
    assert all(u.startswith(("file:", "about:", "http://" + host)) for u in b.requests), b.requests


def decoder(b):
    live = Live(b, DECODER, "ACT I")
    first = live.said()
    assert first.startswith("next token:") and "unchanged" not in first and "→" not in first, first
    live.shots("decoder")
    b.js("location.hash = 'l=1&h=0.1.2'")
    b.frames(3)
    live.answered(b.key, "Delete")
    assert "(unchanged " in live.said(), live.said()
    live.answered(b.key, "Delete")
    live.answered(live.slide, "Temperature", .5)
    sharp = b.js("[...document.querySelectorAll('#live output span')].map(x => x.textContent)")
    now, drawn = map(float, re.search(r" (\S+) → (\S+)$", sharp[0]).groups())
    assert drawn > now, sharp
    live.answered(live.slide, "Top-p", .05)
    cut = b.js("[...document.querySelectorAll('#live output span')].map(x => x.textContent)")
    assert cut[0].endswith("→ 1.000") and all(x.endswith("→ 0") for x in cut[1:]), cut
    live.shots("sampled")
    b.key("'")
    assert b.js("qkv.state.view") == "output"
    live.answered(live.type, 0, "ACT V")
    assert b.js("qkv.state.view") == "output"
    live.shots("output")
    live.end()
    assert not b.errors, b.errors


def main():
    path = chrome.find()
    if not path:
        print("browser_live.py: no Chromium: skipped")
        return 77
    if not os.path.exists(os.path.join(MODEL, "model.safetensors")):
        print(f"browser_live.py: no {MODEL}: skipped")
        return 77
    os.makedirs(FOLDER, exist_ok=True)
    for test in (encoder, decoder):
        b = chrome.Chrome(path)
        try:
            b.size(1280, 900)
            test(b)
            print(f"ok {test.__name__}")
        finally:
            b.close()
    return 0


sys.exit(main())
