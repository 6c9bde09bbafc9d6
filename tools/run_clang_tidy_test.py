#!/usr/bin/env python3
"""Tests of run_clang_tidy.py: which files it looks at, and how it says they are compiled."""

import json
import pathlib
import tempfile
import unittest

import run_clang_tidy


class PlainEntries(unittest.TestCase):
    def entries(self, commands, names=()):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            listed = [{"directory": "/b", "file": name, "command": command} for name, command in commands.items()]
            (build / "compile_commands.json").write_text(json.dumps(listed))
            return run_clang_tidy.plain_entries(build, list(names))

    def test_a_precompiled_header_is_no_file_to_check(self):
        found = self.entries({"/b/x.dir/cmake_pch.hxx.cxx": "c++ -c cmake_pch.hxx.cxx", "/s/a.cpp": "c++ -c /s/a.cpp"})
        self.assertEqual([entry["file"] for entry in found], ["/s/a.cpp"])

    def test_files_are_compiled_without_compiler_cache_and_precompiled_header(self):
        command = ("/s/cmake/with_ccache.sh /usr/bin/ccache /usr/bin/c++ -DX=1 -include /s/config.h -fpch-preprocess "
                   "-Winvalid-pch -include /b/x.dir/cmake_pch.hxx -o a.o -c /s/a.cpp")
        self.assertEqual(self.entries({"/s/a.cpp": command})[0]["arguments"],
                         ["/usr/bin/c++", "-DX=1", "-include", "/s/config.h", "-o", "a.o", "-c", "/s/a.cpp"])

    def test_names_choose_files(self):
        found = self.entries({"/s/a.cpp": "c++ -c /s/a.cpp", "/s/b.cpp": "c++ -c /s/b.cpp"}, ["b.cpp"])
        self.assertEqual([entry["file"] for entry in found], ["/s/b.cpp"])


if __name__ == "__main__":
    unittest.main()
