#!/usr/bin/env python3
"""Runs clang-tidy over the files of a build's compile_commands.json, several at a time.

usage: run_clang_tidy.py --build DIR [--jobs N] [--clang-tidy COMMAND] [NAME...]

Only files whose path contains a NAME, all without one. A file that passed is not looked at again until what the
compiler sees of it, its flags, .clang-tidy or clang-tidy change: its hash is kept in the user's cache folder.
Files are compiled without the precompiled header, which is GCC's: what a file forgets to include is found too.
Prints what clang-tidy finds; exits 1 where it finds anything.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
        elif word not in ("-Winvalid-pch", "-fpch-preprocess"):
            kept.append(word)
    return kept


def preprocess_command(words):
    """A compiler command turned into one that prints preprocessed text."""
    kept, skip = [], False
    for word in words:
        if skip or word in ("-c", "-MD"):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            kept.append(word)
    return kept + ["-E"]


def plain_entries(build, names):
    """The entries of a build whose path contains one of `names`, with plain commands."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return [{"directory": entry["directory"], "file": entry["file"], "arguments": plain_command(entry["command"])}
            for entry in entries
            if not is_precompiled_header(entry["file"]) and (not names or any(name in entry["file"] for name in names))]


def key_of(entry, salt):
    """Hash of all that the result depends on."""
    preprocessed = subprocess.run(preprocess_command(entry["arguments"]), cwd=entry["directory"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
    digest = hashlib.sha256(salt)
    digest.update(preprocessed.stdout)
    # Comments are not in the preprocessed text, and a NOLINT is one.
    digest.update(pathlib.Path(entry["file"]).read_bytes())
    return digest.hexdigest()


def check(entry, clang_tidy, commands, salt):
    """None where the file passes, else what clang-tidy says of it."""
    stamp = CACHE / key_of(entry, salt)
    if stamp.exists():
        stamp.touch()
        return None
    result = subprocess.run([clang_tidy, "--quiet", "-p", commands, entry["file"]], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode == 0:
        stamp.touch()
        return None
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
    entries = plain_entries(arguments.build, arguments.names)
    commands = arguments.build / "clang_tidy"
    commands.mkdir(exist_ok=True)
    (commands / "compile_commands.json").write_text(json.dumps(entries, indent=1))

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda entry: check(entry, arguments.clang_tidy, commands, salt), entries)
        for entry, found in zip(entries, results):
            if found is not None:
                failed += 1
                print(f"{os.path.relpath(entry['file'], ROOT)}:\n{found}", flush=True)
    print(f"clang-tidy: {len(entries)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
