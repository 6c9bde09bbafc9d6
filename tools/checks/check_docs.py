#!/usr/bin/env python3
"""Checks that the documentation points at what exists.

Relative links and images in *.md lead to files, their #fragments to headings. Documents named in comments of the
source (docs/NAME.md) exist, and so do files and folders of the repository in code spans, and tests that a
--gtest_filter= names; decisions and the history of performance may name what is gone. With --program, every command line
`ridgepoint COMMAND --option ...` in *.md, in code blocks and in code spans, names a command and options its --help
knows. Prints one line a fault and exits 1 if there is any.

usage: check_docs.py [--program build/ridgepoint] [ROOT]
"""

import argparse
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
CODE_BLOCK = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1\s*$|^(?: {4}|\t).*?$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
COMMAND_LINE = re.compile(r"(?:^|[\s/`(])ridgepoint[^\S\n]+([a-z][a-z-]*)((?:[^\n`|;&>#]|\\\n)*)")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")
MENTION = re.compile(r"\bdocs/[A-Za-z0-9_./-]+\.md\b")
PATH = re.compile(r"`((?:src|include|tests|tools|web|python|examples|fuzz|bench|data|cmake)/[A-Za-z0-9_./-]*)`")
FILTER = re.compile(r"--gtest_filter='?([A-Za-z0-9_.:*]+)")
TEST = re.compile(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)|\bTYPED_TEST\((\w+),\s*(\w+)\)")
OF_THE_PAST = re.compile(r"^docs/(decisions/|study/|performance_history\.md)")
SOURCES = ("src", "include", "tests", "bench", "fuzz", "examples", "cmake", "python")
CODE_SUFFIXES = {".h", ".cpp", ".def", ".py", ".sh", ".txt", ".cmake"}
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:")


def documents(root):
    skipped = re.compile(r"^(\.git|build[^/]*|(.*/)?node_modules)(/|$)")
    paths = (p.relative_to(root) for p in root.rglob("*.md"))
    return sorted(root / p for p in paths if not skipped.match(p.as_posix()))


def anchors(text):
    """Heading anchors as GitHub makes them."""
    found = set()
    for heading in HEADING.findall(CODE_BLOCK.sub("", text)):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower())
        found.add(re.sub(r"\s", "-", plain))
    return found


def check_links(root, path):
    text = path.read_text(encoding="utf-8")
    for target in LINK.findall(CODE_SPAN.sub("", CODE_BLOCK.sub("", text))):
        if EXTERNAL.match(target):
            continue
        file, _, fragment = target.partition("#")
        pointed = (root / file.lstrip("/") if file.startswith("/") else path.parent / file) if file else path
        if not pointed.exists():
            yield f"{path.relative_to(root)}: link to '{target}': no such file"
        elif fragment and pointed.suffix == ".md" and fragment not in anchors(pointed.read_text(encoding="utf-8")):
            yield f"{path.relative_to(root)}: link to '{target}': no such heading"


def check_mentions(root):
    for path in sorted(p for folder in SOURCES for p in (root / folder).rglob("*.*") if p.suffix in CODE_SUFFIXES):
        for target in sorted(set(MENTION.findall(path.read_text(encoding="utf-8")))):
            if not (root / target).exists():
                yield f"{path.relative_to(root)}: names {target}: no such file"


def tests_of(root):
    found = set()
    for path in (root / "tests").rglob("*.cpp"):
        found.update("".join(names[0::2]) + "." + "".join(names[1::2]) for names in TEST.findall(path.read_text(encoding="utf-8")))
    return found


def check_names(root, path, tests):
    file = path.relative_to(root).as_posix()
    if OF_THE_PAST.match(file):
        return
    text = path.read_text(encoding="utf-8")
    for name in sorted(set(PATH.findall(text))):
        if not (root / name).exists():
            yield f"{file}: names {name}: no such file"
    for pattern in sorted(name for names in FILTER.findall(re.sub(r"\\\n\s*", "", text)) for name in names.split(":") if name):
        if not any(re.fullmatch(pattern.replace(".", r"\.").replace("*", ".*"), test) for test in tests):
            yield f"{file}: there is no test {pattern}"


def code_of(text):
    """Everything in the text that is set as code, lines joined where a backslash continues them."""
    blocks = [match.group(0) for match in CODE_BLOCK.finditer(text)]
    spans = CODE_SPAN.findall(CODE_BLOCK.sub("", text))
    return "\n".join(blocks + spans).replace("\\\n", " ")


def command_lines(text):
    """(command, options) of every call of the program."""
    for command, rest in COMMAND_LINE.findall(code_of(text)):
        yield command, OPTION.findall(rest)


def ask_help(program, *arguments):
    asked = subprocess.run([program, *arguments, "--help"], capture_output=True, text=True, check=False)
    return asked.stdout if asked.returncode == 0 else None


def check_commands(root, path, help_of):
    for command, options in command_lines(path.read_text(encoding="utf-8")):
        text = help_of(command)
        if text is None:
            yield f"{path.relative_to(root)}: there is no command 'ridgepoint {command}'"
            continue
        for option in sorted(set(options) - set(OPTION.findall(text))):
            yield f"{path.relative_to(root)}: 'ridgepoint {command}' has no option {option}"


def check(root, help_of=None):
    faults = [*check_mentions(root)]
    tests = tests_of(root)
    for path in documents(root):
        faults += check_links(root, path)
        faults += check_names(root, path, tests)
        if help_of is not None:
            faults += check_commands(root, path, help_of)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the built program, to check command lines against")
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parents[2], type=pathlib.Path)
    options = parser.parse_args()
    known = {}

    def help_of(command):
        if command not in known:
            known[command] = ask_help(options.program, command)
        return known[command]

    faults = check(options.root, help_of if options.program else None)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
