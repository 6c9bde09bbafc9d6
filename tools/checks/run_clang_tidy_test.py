#!/usr/bin/env python3
"""Tests of run_clang_tidy.py: which files it checks together, how it compiles them, and what it does with a bundle that
does not compile."""

import json
import pathlib
import tempfile
import unittest
from unittest import mock

import run_clang_tidy


def bundles(commands, names=()):
    """The bundles of a build with these commands, by file."""
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        listed = [{"directory": "/b", "file": name, "command": command}
                  for name, several in commands.items() for command in several.splitlines()]
        (build / "compile_commands.json").write_text(json.dumps(listed))
        return run_clang_tidy.bundles_of(build, list(names))


class Bundles(unittest.TestCase):
    def test_a_precompiled_header_is_no_file_to_check(self):
        found = bundles({"/b/x.dir/cmake_pch.hxx.cxx": "c++ -c cmake_pch.hxx.cxx", "/s/a.cpp": "c++ -c /s/a.cpp"})
        self.assertEqual([bundle.files for bundle in found], [["/s/a.cpp"]])

    def test_files_are_compiled_without_compiler_cache_and_precompiled_header(self):
        command = ("/s/cmake/with_ccache.sh /usr/bin/ccache /usr/bin/c++ -DX=1 -include /s/config.h -fpch-preprocess "
                   "-Winvalid-pch -include /b/x.dir/cmake_pch.hxx -o a.o -c /s/a.cpp")
        found = bundles({"/s/a.cpp": command})
        self.assertEqual(found[0].compiler, "/usr/bin/c++")
        self.assertEqual(found[0].flags, ("-DX=1", "-include", "/s/config.h"))

    def test_a_file_of_two_targets_is_checked_once(self):
        found = bundles({"/s/a.cpp": "c++ -DA -c /s/a.cpp\nc++ -DB -c /s/a.cpp"})
        self.assertEqual([(bundle.flags, bundle.files) for bundle in found], [(("-DA",), ["/s/a.cpp"])])

    def test_names_choose_files(self):
        found = bundles({"/s/a.cpp": "c++ -c /s/a.cpp", "/s/b.cpp": "c++ -c /s/b.cpp"}, ["b.cpp"])
        self.assertEqual([bundle.files for bundle in found], [["/s/b.cpp"]])

    def test_files_with_the_same_flags_are_together(self):
        found = bundles({"/s/a.cpp": "c++ -DA -o a.o -c /s/a.cpp", "/s/b.cpp": "c++ -DA -o b.o -c /s/b.cpp",
                         "/s/c.cpp": "c++ -DC -o c.o -c /s/c.cpp"})
        self.assertEqual([bundle.files for bundle in found], [["/s/a.cpp", "/s/b.cpp"], ["/s/c.cpp"]])

    def test_a_bundle_has_a_bounded_number_of_files(self):
        files = [f"/s/{i:02}.cpp" for i in range(2 * run_clang_tidy.BUNDLE + 1)]
        found = bundles({file: f"c++ -c {file}" for file in files})
        self.assertEqual(sum((bundle.files for bundle in found), []), files)
        self.assertEqual([len(bundle.files) for bundle in found], [run_clang_tidy.BUNDLE, run_clang_tidy.BUNDLE, 1])


class Check(unittest.TestCase):
    def check(self, files, clang_tidy_script):
        """The result for one bundle of files, given by name and text, of a clang-tidy that is this shell script. Its
        first argument is the file it is asked to check."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, text in files.items():
                (folder / file).write_text(text)
            tool = folder / "clang-tidy"
            tool.write_text(f'#!/bin/sh\nsource="$3"\n{clang_tidy_script}\n')
            tool.chmod(0o755)
            bundle = run_clang_tidy.Bundle(name, "true", (), [str(folder / file) for file in files])
            with mock.patch.object(run_clang_tidy, "CACHE", folder):
                return run_clang_tidy.check(bundle, str(tool), folder, b"")

    def test_a_bundle_that_does_not_compile_is_halved_until_it_does(self):
        script = ('[ "$(grep -c include "$source")" = 1 ] && exit 0\n'
                  'echo "error: redefinition [clang-diagnostic-error]"; exit 1')
        self.assertEqual(self.check({"a.cpp": "a", "b.cpp": "b", "c.cpp": "c"}, script), "")

    def test_a_file_that_does_not_compile_by_itself_is_a_finding(self):
        script = 'grep -q bad "$source" || exit 0\necho "error: [clang-diagnostic-error]"; exit 1'
        self.assertIn("clang-diagnostic-error", self.check({"good.cpp": "a", "bad.cpp": "b"}, script))

    def test_findings_of_a_bundle_are_returned(self):
        self.assertIn("use nullptr", self.check({"a.cpp": "a", "b.cpp": "b"}, 'echo "use nullptr"; exit 1'))


if __name__ == "__main__":
    unittest.main()
