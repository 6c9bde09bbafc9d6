#!/usr/bin/env python3
"""Runs clang-tidy over the files of a build's compile_commands.json, several at a time.

usage: run_clang_tidy.py --build DIR [--jobs N] [--clang-tidy COMMAND] [NAME...]

Only files whose path contains a NAME, all without one. Most of the time goes into the headers, which every check walks,
so files with the same flags are checked in bundles, one translation unit each. A bundle that does not compile, because
two of its files define the same name, is halved until it does. A bundle that passed is not looked at again until what
the compiler sees of it, its flags, .clang-tidy or clang-tidy change: its hash is kept in the user's cache folder.
Files are compiled without the precompiled header, which is GCC's. Prints what clang-tidy finds; exits 1 where it finds
anything.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# More files are less time, until too many bundles have to be halved.
BUNDLE = 8
# In a bundle, a local name may hide one of another file. GCC warns where it hides one of its own.
EXTRA_FLAGS = ["-Wno-shadow"]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ridgepoint" / "clang_tidy"


def is_precompiled_header(name):
    return "cmake_pch.hxx" in name


def plain_command(command):
    """The words of a compiler command, without a compiler cache before it and a precompiled header in it."""
    words = shlex.split(command)
    caches = [i for i, word in enumerate(words) if os.path.basename(word) == "ccache"]
    if caches:
        words = words[caches[-1] + 1:]
    kept = []
    for word in words:
        if is_precompiled_header(word) and kept[-1] == "-include":
            kept.pop()
        elif word not in ("-Winvalid-pch", "-fpch-preprocess") and not word.startswith("--param="):
            kept.append(word)
    return kept


class Bundle:
    """Files that are compiled with the same flags, in the same directory."""

    def __init__(self, directory, compiler, flags, files):
        self.directory, self.compiler, self.flags, self.files = directory, compiler, flags, files

    def text(self):
        return "".join(f'#include "{file}"\n' for file in self.files)

    def halves(self):
        middle = len(self.files) // 2
        return [Bundle(self.directory, self.compiler, self.flags, part)
                for part in (self.files[:middle], self.files[middle:])]


def split_command(words, file):
    """A compiler command taken apart into the compiler and its flags, without the input and the output."""
    flags, skip = [], False
    for word in words[1:]:
        if skip or word in ("-c", "-MD", file):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            flags.append(word)
    return words[0], tuple(flags)


def bundles_of(build, names):
    """The files of a build whose path contains one of `names`, in bundles. A file of two targets is in the first."""
    groups, seen = {}, set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = entry["file"]
        if is_precompiled_header(file) or file in seen or (names and not any(name in file for name in names)):
            continue
        seen.add(file)
        key = (entry["directory"], *split_command(plain_command(entry["command"]), file))
        groups.setdefault(key, []).append(file)
    bundles = []
    for key, files in groups.items():
        files.sort()
        bundles += [Bundle(*key, files[i:i + BUNDLE]) for i in range(0, len(files), BUNDLE)]
    return bundles


def key_of(bundle, source, salt):
    """Hash of all that the result depends on."""
    preprocessed = subprocess.run([bundle.compiler, *bundle.flags, "-E", source], cwd=bundle.directory,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    digest = hashlib.sha256(salt + "\0".join([*bundle.flags, *EXTRA_FLAGS]).encode())
    digest.update(preprocessed.stdout)
    for file in bundle.files:  # comments are not in the preprocessed text, and a NOLINT is one
        digest.update(pathlib.Path(file).read_bytes())
    return digest.hexdigest()


def check(bundle, clang_tidy, folder, salt):
    """What clang-tidy finds, empty where the bundle passes."""
    source = folder / (hashlib.sha256((bundle.text() + "\0".join(bundle.flags)).encode()).hexdigest()[:16] + ".cpp")
    source.write_text(bundle.text())
    stamp = CACHE / key_of(bundle, source, salt)
    if stamp.exists():
        stamp.touch()
        return ""
    command = [clang_tidy, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", source, "--", *bundle.flags, *EXTRA_FLAGS]
    result = subprocess.run(command, cwd=bundle.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode == 0:
        stamp.touch()
        return ""
    if len(bundle.files) > 1 and "clang-diagnostic-error" in result.stdout:
        return "".join(check(half, clang_tidy, folder, salt) for half in bundle.halves())
    return result.stdout + result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--clang-tidy", default="clang-tidy-16")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()

    CACHE.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([arguments.clang_tidy, "--version"], stdout=subprocess.PIPE, check=True).stdout
    salt = version + (ROOT / ".clang-tidy").read_bytes()
    bundles = bundles_of(arguments.build, arguments.names)
    folder = (arguments.build / "clang_tidy").resolve()
    folder.mkdir(exist_ok=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda bundle: check(bundle, arguments.clang_tidy, folder, salt), bundles)
        found = [text for text in results if text]
    print("\n".join(found), end="")
    files = sum(len(bundle.files) for bundle in bundles)
    print(f"clang-tidy: {files} files, {'findings' if found else 'nothing found'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
