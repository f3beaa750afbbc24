# SPDX-License-Identifier: MIT
"""Runs the cells of examples/notebook.ipynb in order, as a notebook does, and renders their last values."""
import ast
import contextlib
import io
import json
import os
import unittest

import qkv

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_cells(path):
    """Returns (text that the cells print, values of their last expressions that are not None)."""
    with open(path, encoding="utf-8") as f:
        cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
    names, values, printed = {}, [], io.StringIO()
    for number, cell in enumerate(cells):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {number}", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
                values += [] if value is None else [value]
    return printed.getvalue(), values


class Notebook(unittest.TestCase):
    def test_every_cell_runs(self):
        old = os.getcwd()
        os.chdir(os.path.join(TOP, "examples"))
        try:
            printed, values = run_cells("notebook.ipynb")
        finally:
            os.chdir(old)
        self.assertIn("fused", printed)
        self.assertEqual([type(v) for v in values], [qkv.View, qkv.View])
        for v in values:
            bundle = v._repr_mimebundle_()
            self.assertIn("<iframe srcdoc=", bundle["text/html"])
            self.assertIn("attends to", bundle["text/plain"])


if __name__ == "__main__":
    unittest.main()
