#!/usr/bin/env python3
"""Tests of check_docs.py: faults are caught in a small tree, sound documents are let through."""

import pathlib
import tempfile
import unittest

import check_docs


def help_of(command):
    return {"bench": "--model TEXT  --batch INT\n", "devices": "--format TEXT\n"}.get(command)


class CheckDocs(unittest.TestCase):
    def check(self, text, **others):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {"README.md": text, **{k + ".md": v for k, v in others.items()}}.items():
                pathlib.Path(folder, name).write_text(content)
            return check_docs.check(pathlib.Path(folder), help_of)

    def test_links_that_resolve_are_allowed(self):
        self.assertEqual(
            self.check("[a](model.md) [b](model.md#the-model) [c](#top) [d](https://x.org/y)\n# Top\n", model="## The `model`"),
            [],
        )

    def test_a_missing_file_is_caught(self):
        self.assertIn("'docs/none.md': no such file", self.check("see [it](docs/none.md)")[0])

    def test_a_missing_heading_is_caught(self):
        self.assertIn("no such heading", self.check("[b](model.md#gone)", model="# Here")[0])

    def test_a_document_named_in_the_source_must_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "src").mkdir()
            pathlib.Path(folder, "src", "x.h").write_text("// Formula: docs/none.md\n")
            self.assertIn("src/x.h: names docs/none.md", check_docs.check(pathlib.Path(folder))[0])

    def test_a_path_in_a_code_span_must_exist(self):
        self.assertEqual(self.check("`src/none.cpp` is read first"), ["README.md: names src/none.cpp: no such file"])

    def test_a_test_that_a_filter_names_must_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tests").mkdir()
            pathlib.Path(folder, "tests", "x_test.cpp").write_text("TEST_F(Suite, works) {}\n")
            pathlib.Path(folder, "README.md").write_text("    ./x --gtest_filter=Suite.works:Suite.*:\\\n    Gone.works\n")
            self.assertEqual(check_docs.check(pathlib.Path(folder)), ["README.md: there is no test Gone.works"])

    def test_links_in_code_are_not_links(self):
        self.assertEqual(self.check("`[x](gone.md)`\n\n```\n[x](gone.md)\n```\n"), [])

    def test_known_options_are_allowed_in_blocks_and_spans(self):
        self.assertEqual(
            self.check("```\nbuild/ridgepoint bench --model tiny \\\n    --batch 4\n```\n`ridgepoint devices --format json`"), []
        )

    def test_an_unknown_option_is_caught(self):
        self.assertIn("no option --modle", self.check("`ridgepoint bench --modle tiny`")[0])
        self.assertIn("no option --speed", self.check("```\nridgepoint bench --model a \\\n  --speed 3\n```")[0])

    def test_an_unknown_command_is_caught(self):
        self.assertIn("no command 'ridgepoint benhc'", self.check("    $ ridgepoint benhc --model tiny\n")[0])

    def test_options_of_other_programs_are_not_judged(self):
        self.assertEqual(self.check("```\ncmake --install build\nridgepoint bench --batch 4 | jq --raw-output .x\n```"), [])

    def test_prose_is_not_judged(self):
        self.assertEqual(self.check("ridgepoint is fun --really"), [])


if __name__ == "__main__":
    unittest.main()
