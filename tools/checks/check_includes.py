#!/usr/bin/env python3
"""Checks that includes follow the direction of data flow, and that no folder is crowded.

Folders of src/ stand in the order FOLDERS; a file includes its own folder and those above it. Public headers stand in
folders of the same names below include/ridgepoint/ and obey the same order. Back ends do not include one another.
Folders and subfolders include each other in no cycle. Examples see public headers only. A folder of the project holds
20 files at most, unless it holds DATA. Prints one line a violation and exits 1 if there is any.

usage: check_includes.py [ROOT]
"""

import os
import pathlib
import re
import sys

FOLDERS = [
    "core",
    "ir",
    "ops",
    "autodiff",
    "passes",
    "lowering",
    "plan",
    "compile",
    "memory",
    "runtime",
    "backends",
    "models",
    "interchange",
    "tables",
    "record",
    "predict",
    "run",
    "train",
    "inspect",
    "report",
    "study",
    "cli",
    "web",
]

# Headers CMake writes into the build folder; they name no folder.
GENERATED = {"ridgepoint_revision.h": "core"}

# Libraries whose own headers ask to be included in quotes.
QUOTED_LIBRARIES = ("hwy/",)

# (file, include) -> why it is right all the same. An entry nothing needs any more is itself a violation.
EXCEPTIONS = {}

MOST_FILES = 20
ROOMS = ("bench", "cmake", "data", "docs", "examples", "fuzz", "include", "python", "src", "tests", "tools", "web")
# Folders, with those below, that hold data of any number -> why. An entry nothing needs any more is itself a violation.
DATA = {
    "docs/decisions": "one numbered page a decision",
    "docs/study": "what `ridgepoint study` wrote",
    "fuzz/corpus": "inputs of fuzzers",
    "tests/golden/transformers_memory": "a recording a model",
}
INSTALLED = ("node_modules", "__pycache__")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".def"}


def folder_of_include(include):
    """The folder an include belongs to, or None when it cannot be placed."""
    parts = include.split("/")
    if include in GENERATED:
        return GENERATED[include]
    if parts[0] == "ridgepoint":
        parts = parts[1:]
    return parts[0] if parts[0] in FOLDERS and len(parts) > 1 else None


def backend_of(parts):
    return parts[1] if parts[0] == "backends" and len(parts) > 2 else None


def judge(file, folder, include):
    """What is wrong with `include` in `file` (relative to src/ or include/) of `folder`; None when nothing is."""
    target = folder_of_include(include)
    if target is None:
        return "is neither a file of a folder of src/ nor of one of include/ridgepoint/"
    if FOLDERS.index(target) > FOLDERS.index(folder):
        return f"points down: {target} stands below {folder}"
    own, other = backend_of(file.split("/")), backend_of(include.split("/"))
    if own and other and own != other:
        return f"joins two back ends: {own} and {other}"
    return None


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES) if folder.is_dir() else []


def includes_of(path):
    found = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [include for include in found if not include.startswith(QUOTED_LIBRARIES)]


def check_sources(root, used):
    for path in sources(root / "src"):
        file = path.relative_to(root / "src").as_posix()
        folder = file.split("/")[0]
        if folder not in FOLDERS:
            yield f"src/{file}: folder '{folder}' has no place in the order of {pathlib.Path(__file__).name}"
            continue
        for include in includes_of(path):
            wrong = judge(file, folder, include)
            if wrong and (file, include) in EXCEPTIONS:
                used.add((file, include))
            elif wrong:
                yield f'src/{file}: include "{include}" {wrong}'


def check_public_headers(root):
    for path in sources(root / "include" / "ridgepoint"):
        file = path.relative_to(root / "include" / "ridgepoint").as_posix()
        folder = file.split("/")[0]
        if folder not in FOLDERS:
            yield f"include/ridgepoint/{file}: folder '{folder}' has no place in the order"
            continue
        for include in includes_of(path):
            if not include.startswith("ridgepoint/"):
                yield f'include/ridgepoint/{file}: include "{include}" is not installed'
                continue
            wrong = judge("ridgepoint/" + file, folder, include)
            if wrong:
                yield f'include/ridgepoint/{file}: include "{include}" {wrong}'


def check_examples(root):
    for path in sources(root / "examples"):
        for include in includes_of(path):
            if not include.startswith("ridgepoint/") and not (path.parent / include).exists():
                yield f'{path.relative_to(root)}: include "{include}" is no public header'


def folder_graph(root):
    """For each folder with sources, at any depth, the other folders that its files include."""
    graph = {}
    for path in sources(root / "src"):
        own = path.parent.relative_to(root / "src").as_posix()
        targets = graph.setdefault(own, set())
        for include in includes_of(path):
            if (root / "src" / include).exists():
                targets.add(pathlib.PurePosixPath(include).parent.as_posix())
    return {folder: targets - {folder} for folder, targets in graph.items()}


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for target in graph.get(todo.pop(), ()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def cycles(graph):
    """The largest sets of folders that include each other, each sorted."""
    reach = {folder: reachable(graph, folder) for folder in graph}
    sets = {tuple(sorted(b for b in graph if b in reach[a] and a in reach[b])) for a in graph if a in reach[a]}
    return sorted(sets)


def check_cycles(root):
    for cycle in cycles(folder_graph(root)):
        yield f"src/: these folders include each other: {', '.join(cycle)}"


def check_sizes(root):
    needed = set()
    for path, below, files in (found for room in ROOMS for found in os.walk(root / room)):
        below[:] = sorted(set(below) - set(INSTALLED))
        folder = pathlib.Path(path).relative_to(root)
        reasons = {name for name in DATA if folder.is_relative_to(name)}
        if len(files) > MOST_FILES:
            needed |= reasons
            if not reasons:
                yield f"{folder.as_posix()}/: {len(files)} files, more than {MOST_FILES}: divide it by topic"
    for name in sorted(set(DATA) - needed):
        if (root / name).exists():
            yield f"{name}/: its entry in DATA is not needed"


def check(root):
    used = set()
    violations = [*check_sources(root, used), *check_public_headers(root), *check_examples(root), *check_cycles(root),
                  *check_sizes(root)]
    stale = sorted(set(EXCEPTIONS) - used)
    return violations + [f'src/{file}: exception for "{include}" is not needed' for file, include in stale]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    if not sources(root / "src"):
        sys.exit(f"check_includes: no sources under {root / 'src'}")
    violations = check(root)
    for violation in violations:
        print(violation)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
