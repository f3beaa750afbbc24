#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""book.py FOLDER: builds the course as a book and opens it in Chromium, at four widths and in both themes.

Checks that the book loads nothing, that its formulas are MathML, that its pictures are drawn and that no page is wider
than the window.  Exit 77: pandoc or Chromium is missing.
"""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/view"))
import chrome  # noqa: E402


def check(page, book):
    page.open(book)
    pages = page.js("document.querySelectorAll('section').length")
    assert pages == page.js("document.querySelectorAll('nav a').length") >= 20, pages
    lost = page.js("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
                   ".filter(h => h[0] != '#' || !document.getElementById(h.slice(1)))")
    assert lost == [], lost
    assert page.js("document.querySelectorAll('math[display=block]').length") >= 17
    assert page.js("document.body.innerText.includes('$$')") is False
    page.js("Promise.all([...document.images].map(i => i.decode()))")
    for theme in ("light", "dark"):
        page.media(prefers_color_scheme=theme)
        for width in (390, 820, 1280, 1440):
            page.size(width, 900)
            page.frames()
            wide = page.js("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} px of content in a window of {width}"
        colour = page.js("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, colour[4:-1].split(","))) > 384) == (theme == "light"), (theme, colour)
    others = [url for url in page.requests if not url.startswith(("data:", "about:")) and url != "file://" + book]
    assert others == [] and page.errors == [], (others, page.errors)


def main():
    browser = chrome.find()
    if not browser:
        print("skipped: Chromium is missing")
        return 77
    book = os.path.join(os.path.abspath(sys.argv[1]), "book.html")
    code = subprocess.run([sys.executable, os.path.join(TOP, "tools/book.py"), book]).returncode
    if code:
        return code
    page = chrome.Chrome(browser)
    try:
        check(page, book)
    finally:
        page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
