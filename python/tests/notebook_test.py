"""The notebook of the examples: its cells run in order, and print what it shows.

usage: notebook_test.py [--write]     --write puts what the cells print into the notebook
"""

import ast
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

NOTEBOOK = pathlib.Path(os.environ.get("RIDGEPOINT_SOURCE", ".")) / "examples" / "python.ipynb"


def run_cell(source, names):
    """What a cell prints, and behind it the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        outputs.append({"data": {"text/plain": repr(value).splitlines(True)}, "metadata": {},
                        "output_type": "execute_result"})
    return outputs


def run_cells(notebook):
    names = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(os.chdir, os.getcwd())
        os.chdir(folder)
        return [run_cell("".join(cell["source"]), names) for cell in notebook["cells"]]


def write(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for number, (cell, outputs) in enumerate(zip(notebook["cells"], run_cells(notebook)), 1):
        cell["execution_count"] = number
        cell["outputs"] = [{**output, **({"execution_count": number} if "data" in output else {})} for output in outputs]
    path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


class Notebook(unittest.TestCase):
    def test_prints_what_it_shows(self):
        notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        self.assertEqual(len(notebook["cells"]), 10)
        for cell, outputs in zip(notebook["cells"], run_cells(notebook)):
            shown = [{key: value for key, value in output.items() if key != "execution_count"}
                     for output in cell["outputs"]]
            self.assertTrue(shown, cell["source"][0])
            if "to_pandas" not in "".join(cell["source"]):  # with pandas, a frame of 8 rows
                self.assertEqual(outputs, shown, cell["source"][0])


if __name__ == "__main__":
    if importlib.util.find_spec("numpy") is None:
        print("skipped: NumPy is not installed")
        sys.exit(77)
    if sys.argv[1:] == ["--write"]:
        write(NOTEBOOK)
    else:
        unittest.main()
