# SPDX-License-Identifier: MIT
"""Runs examples/notebook.ipynb: its cells in this process, the whole notebook by nbclient, its outputs in a browser.

A cell whose tags name a package or model that is missing (needs-torch) is left out.
"""
import ast
import contextlib
import html
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest

import qkv

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.path.join(TOP, "examples", "notebook.ipynb")
PHOTOS = os.environ.get("QKV_PHOTOS")  # a folder for a screenshot
has = lambda name: importlib.util.find_spec(name) is not None


def usable(cell):
    """Returns whether everything that the tags of a cell name is installed."""
    needs = [tag[6:] for tag in cell["metadata"].get("tags", ()) if tag.startswith("needs-")]
    there = lambda name: has(name) or os.path.exists(os.path.join(TOP, "models", name, "model.safetensors"))
    return all(there(name) for name in needs)


def read_notebook():
    """Returns the notebook without the cells that cannot run here."""
    with open(PATH, encoding="utf-8") as f:
        notebook = json.load(f)
    cells = notebook["cells"]
    notebook["cells"] = [cell for cell in cells if usable(cell)]
    if len(notebook["cells"]) < len(cells):
        print(f"{len(cells) - len(notebook['cells'])} cells are left out: their packages or models are not installed")
    return notebook


def run_cells(notebook):
    """Returns (text that the cells print, values of their last expressions that are not None)."""
    names, values, printed = {}, [], io.StringIO()
    for number, cell in enumerate(c for c in notebook["cells"] if c["cell_type"] == "code"):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(tree, f"cell {number}", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
                values += [] if value is None else [value]
    names["folder"].cleanup()
    return printed.getvalue(), values


def page_of(notebook):
    """Returns the outputs of a notebook that ran as an HTML page, each cell below the other."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(f"<pre class={cell['cell_type']}>{html.escape(source)}</pre>")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            plain = "<pre>" + html.escape("".join(data["text/plain"])) + "</pre>"
            parts.append("".join(data["text/html"]) if "text/html" in data and "iframe" in data["text/html"] else plain)
    style = "body{font:14px sans-serif;width:1000px}pre{white-space:pre-wrap}.code{background:#8881;padding:8px}.markdown{font:15px sans-serif}"
    return f"<!doctype html><meta charset=utf-8><style>{style}</style>" + "".join(parts)


class Notebook(unittest.TestCase):
    def setUp(self):
        self.old = os.getcwd()
        os.chdir(os.path.join(TOP, "examples"))

    def tearDown(self):
        os.chdir(self.old)

    def test_every_cell_runs(self):
        notebook = read_notebook()
        printed, values = run_cells(notebook)
        self.assertIn("fused", printed)
        self.assertIn("parameters; loss", printed)
        views = [v for v in values if isinstance(v, qkv.View)]
        self.assertEqual(len(views), sum("qkv.view(" in "".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"))
        for v in views:
            bundle = v._repr_mimebundle_()
            self.assertTrue("<iframe srcdoc=" in bundle["text/html"])
            self.assertIn("attends to", bundle["text/plain"])

    @unittest.skipUnless(has("nbclient") and has("ipykernel"), "nbclient or ipykernel is not installed")
    def test_the_notebook_in_jupyter(self):
        import nbclient
        import nbformat
        notebook = nbformat.reads(json.dumps(read_notebook()), as_version=4)
        nbformat.validate(notebook)
        nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
        outputs = [o for c in notebook["cells"] for o in c.get("outputs", ())]
        self.assertEqual([o for o in outputs if o["output_type"] == "error"], [])
        views = [o["data"]["text/html"] for o in outputs if "<iframe srcdoc=" in o.get("data", {}).get("text/html", "")]
        self.assertGreaterEqual(len(views), 2)
        self.assertLess(len(nbformat.writes(notebook)), 3 * 2_000_000)
        self.show(page_of(notebook), len(views))

    def show(self, page, views):
        """Opens the outputs in a browser, in which each View lists its heads."""
        sys.path.insert(0, os.path.join(TOP, "tests", "view"))
        import chrome
        if not chrome.find():
            print("no browser: the pages were not opened")
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "notebook.html")
            with open(path, "w", encoding="utf-8") as f:
                f.write(page)
            browser = chrome.Chrome(chrome.find())
            try:
                browser.size(1040, 900)
                browser.open(path)
                browser.size(1040, browser.js("document.documentElement.scrollHeight"))
                frames = "[...document.querySelectorAll('iframe')].map(f => f.contentDocument.querySelectorAll('#overview [data-rove]').length)"
                browser.wait(f"{frames}.every(n => n > 0)")
                self.assertEqual(len(browser.js(frames)), views)
                browser.frames(4)
                if PHOTOS:
                    browser.shot(os.path.join(PHOTOS, "notebook.png"))
                self.assertEqual(browser.errors, [])
            finally:
                browser.close()


if __name__ == "__main__":
    unittest.main()
