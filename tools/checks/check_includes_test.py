#!/usr/bin/env python3
"""Tests of check_includes.py: each wrong include is caught in a small tree, and each right one is let through."""

import pathlib
import tempfile
import unittest

import check_includes


class CheckIncludes(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_includes.check(pathlib.Path(folder))

    def assert_caught(self, file, include, message):
        violations = self.check({file: f'#include "{include}"\n'})
        self.assertEqual(len(violations), 1, violations)
        self.assertIn(file, violations[0])
        self.assertIn(message, violations[0])

    def assert_allowed(self, file, include):
        self.assertEqual(self.check({file: f'#include "{include}"\n'}), [])

    def test_upward_and_own_folder_are_allowed(self):
        self.assert_allowed("src/passes/fuse.cpp", "core/text/units.h")
        self.assert_allowed("src/passes/fuse.cpp", "passes/pass.h")
        self.assert_allowed("src/cli/commands/bench.cpp", "interchange/safetensors.h")
        self.assert_allowed("src/memory/arena.h", "ridgepoint/ir/graph.h")

    def test_downward_is_caught(self):
        self.assert_caught("src/core/text/units.cpp", "ir/graph.h", "points down")
        self.assert_caught("src/models/transformer/transformer.cpp", "cli/terminal/messages.h", "points down")

    def test_a_public_header_counts_as_its_folder(self):
        self.assert_caught("src/memory/arena.h", "ridgepoint/runtime/program.h", "points down")
        self.assert_caught("src/core/types/shape.cpp", "ridgepoint/ir/graph.h", "points down")

    def test_the_front_never_sees_a_back_end(self):
        for folder in ("ir", "ops", "autodiff", "passes"):
            self.assert_caught(f"src/{folder}/x.cpp", "backends/cpu/cpu_device.h", "points down")

    def test_back_ends_do_not_include_each_other(self):
        self.assert_caught("src/backends/null/device.cpp", "backends/cpu/kernels.h", "joins two back ends")
        self.assert_allowed("src/backends/cpu/device.cpp", "backends/cpu/kernels.h")
        self.assert_allowed("src/backends/registry.cpp", "backends/cpu/kernels.h")

    def test_cycles_of_subfolders_are_caught(self):
        cycle = {"src/run/a/x.h": '#include "run/b/y.h"\n', "src/run/b/y.h": '#include "run/c/z.h"\n',
                 "src/run/c/z.h": '#include "run/a/w.h"\n', "src/run/a/w.h": ""}
        self.assertEqual(self.check(cycle), ["src/: these folders include each other: run/a, run/b, run/c"])
        cycle["src/run/c/z.h"] = ""
        self.assertEqual(self.check(cycle), [])

    def test_relative_and_unknown_includes_are_caught(self):
        self.assert_caught("src/passes/fuse.cpp", "../core/text/units.h", "neither")
        self.assert_caught("src/passes/fuse.cpp", "pass.h", "neither")
        self.assert_caught("src/passes/fuse.cpp", "ridgepoint/nothing.h", "neither")

    def test_a_folder_without_a_place_is_caught(self):
        self.assertIn("no place", self.check({"src/misc/x.h": ""})[0])

    def test_public_headers_are_closed(self):
        self.assert_caught("include/ridgepoint/ir/graph.h", "core/text/units.h", "not installed")
        self.assert_caught("include/ridgepoint/ir/graph.h", "ridgepoint/runtime/program.h", "points down")
        self.assertIn("no place", self.check({"include/ridgepoint/new.h": ""})[0])

    def test_examples_see_public_headers_only(self):
        self.assert_caught("examples/a/main.cpp", "runtime/device/device.h", "no public header")
        self.assert_allowed("examples/a/main.cpp", "ridgepoint/runtime/program.h")

    def test_system_includes_and_comments_are_not_judged(self):
        self.assertEqual(self.check({"src/core/x.h": '#include <vector>\n// #include "cli/x.h"\n'}), [])

    def test_an_exception_is_honoured_and_a_stale_one_is_caught(self):
        check_includes.EXCEPTIONS[("core/x.h", "ir/y.h")] = "a test"
        self.addCleanup(check_includes.EXCEPTIONS.pop, ("core/x.h", "ir/y.h"))
        self.assert_allowed("src/core/x.h", "ir/y.h")
        self.assertIn("not needed", self.check({"src/core/x.h": ""})[0])

    def files(self, folder, count):
        return {f"{folder}/{number}.txt": "" for number in range(count)}

    def test_a_folder_of_more_than_20_files_is_caught(self):
        self.assertEqual(self.check(self.files("tools/checks", 20) | self.files("tools/models", 20)), [])
        self.assertEqual(self.check(self.files("web/src/charts", 21)),
                         ["web/src/charts/: 21 files, more than 20: divide it by topic"])

    def test_folders_of_data_and_what_is_installed_may_have_more(self):
        self.assertEqual(self.check(self.files("docs/study/h200/tables", 21) | self.files("web/node_modules/x", 21)), [])

    def test_a_folder_of_data_that_is_small_needs_no_entry(self):
        self.assertEqual(self.check(self.files("docs/study/h200", 20)), ["docs/study/: its entry in DATA is not needed"])


if __name__ == "__main__":
    unittest.main()
