# SPDX-License-Identifier: MIT
"""The text/html of a View in a browser, as a notebook shows it: an iframe by srcdoc, with scripts, without a network."""
import array
import json
import os
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "view"))
import chrome  # noqa: E402

import qkv  # noqa: E402

if not chrome.find():
    print("skipped: no Chromium or Chrome")
    sys.exit(77)
VERSE = os.path.join(TOP, "models", "verse")
TEXT = "In the beginning God created the heaven and the earth."
PHOTOS = os.environ.get("QKV_PHOTOS")  # a folder for screenshots
FRAME = "document.querySelectorAll('iframe')[%d].contentDocument"
HEADS = "#overview [data-rove]"  # one button per head


class Notebook(unittest.TestCase):
    def setUp(self):
        self.browser, self.folder = chrome.Chrome(chrome.find()), tempfile.TemporaryDirectory()

    def tearDown(self):
        self.browser.close()
        self.folder.cleanup()

    def open(self, name, *views):
        """Opens a page with the text/html of views, each below the other, as the outputs of cells."""
        outputs = "".join(f"<div>{v._repr_mimebundle_()['text/html']}</div>" for v in views)
        path = os.path.join(self.folder.name, name + ".html")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"<!doctype html><meta charset=utf-8><title>{name}</title><body>{outputs}")
        self.browser.size(1000, 700 * len(views))
        self.browser.open(path)
        for i in range(len(views)):
            self.browser.wait(f"!!{FRAME % i}.querySelector('{HEADS}')")
        self.browser.frames(4)
        if PHOTOS:
            self.browser.shot(os.path.join(PHOTOS, name + ".png"))

    def js(self, frame, code):
        return self.browser.js((FRAME % frame) + code)

    def heads(self, frame):
        """Returns the number of heads that a page lists."""
        return self.js(frame, f".querySelectorAll('{HEADS}').length")

    def test_the_heads_of_a_model_and_of_weights(self):
        n = 9
        rows = [[1 / (i + 1) if j <= i else 0 for j in range(n)] for i in range(n)]
        uniform = memoryview(array.array("f", sum(rows, []) * 2)).cast("B").cast("f", [1, 2, n, n])
        views = (qkv.view(TEXT, model=VERSE), qkv.view(attentions=[uniform] * 3, tokens="then a cat sat down , it slept .".split()))
        self.open("views", *views)
        self.assertEqual([self.heads(i) for i in range(2)], [s[3] * s[4] for v in views for s in v.stacks])
        for i, (v, word) in enumerate(zip(views, ("heaven", "slept"))):
            self.assertIn(word, self.js(i, ".querySelector('#tokens').textContent"))
            self.assertGreater(self.js(i, ".querySelector('#stage canvas').width"), 100)
        # A click inside a frame selects a head of that page.
        sentence = ".querySelector('#sentence').innerText"
        before, other = self.js(0, sentence), self.js(1, sentence)
        self.js(0, f".querySelectorAll('{HEADS}')[4].click()")
        self.browser.wait(f"({FRAME % 0}{sentence}) !== {json.dumps(before)}")
        self.assertIn("L1.H1", self.js(0, sentence))
        self.assertEqual(self.js(1, sentence), other)
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([u for u in self.browser.requests if u.startswith("http")], [])


if __name__ == "__main__":
    unittest.main()
