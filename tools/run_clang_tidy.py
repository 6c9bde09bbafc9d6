#!/usr/bin/env python3
"""Runs clang-tidy over the files of a build's compile_commands.json, several at a time.

usage: run_clang_tidy.py --build DIR [--jobs N] [NAME...]

Only files whose path contains a NAME, all without one. A file that passed is not looked at again until what the
compiler sees of it, its flags, .clang-tidy or clang-tidy change: its hash is kept in the user's cache folder.
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

CLANG_TIDY = "clang-tidy-16"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ridgepoint" / "clang_tidy"


def preprocess_command(entry):
    """The entry's compiler command, without a compiler cache, turned into one that prints preprocessed text."""
    words = shlex.split(entry["command"])
    if os.path.basename(words[0]) == "ccache":
        words = words[1:]
    kept, skip = [], False
    for word in words:
        if skip or word in ("-c", "-MD"):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            kept.append(word)
    return kept + ["-E"]


def key_of(entry, salt):
    """Hash of all that the result depends on."""
    preprocessed = subprocess.run(preprocess_command(entry), cwd=entry["directory"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
    digest = hashlib.sha256(salt)
    digest.update(preprocessed.stdout)
    # Comments are not in the preprocessed text, and a NOLINT is one.
    digest.update(pathlib.Path(entry["file"]).read_bytes())
    return digest.hexdigest()


def check(entry, build, salt):
    """None where the file passes, else what clang-tidy says of it."""
    stamp = CACHE / key_of(entry, salt)
    if stamp.exists():
        stamp.touch()
        return None
    result = subprocess.run([CLANG_TIDY, "--quiet", "-p", build, entry["file"]], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode == 0:
        stamp.touch()
        return None
    return result.stdout + result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()

    CACHE.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([CLANG_TIDY, "--version"], stdout=subprocess.PIPE, check=True).stdout
    salt = version + (ROOT / ".clang-tidy").read_bytes()
    entries = json.loads((pathlib.Path(arguments.build) / "compile_commands.json").read_text())
    entries = [entry for entry in entries
               if not arguments.names or any(name in entry["file"] for name in arguments.names)]

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for entry, found in zip(entries, pool.map(lambda entry: check(entry, arguments.build, salt), entries)):
            if found is not None:
                failed += 1
                print(f"{os.path.relpath(entry['file'], ROOT)}:\n{found}", flush=True)
    print(f"clang-tidy: {len(entries)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
