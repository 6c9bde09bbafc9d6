"""The commands of the program as functions. Their keywords, signatures and documents are the program's own options."""

import contextlib
import inspect
import json
import os
import sys
import tempfile
import textwrap
import warnings

from ridgepoint import _core
from ridgepoint._records import Record, Records
from ridgepoint._words import keyword_of, word, words_of

NAMES = ("plan", "bench", "compare", "memory", "profile", "snapshot", "trace", "attention", "models", "published")
# Groups of options that say how the program prints, and --help.
WITHOUT_GROUPS = ("Output", "Options")

EXIT_USAGE = 2


class RidgepointWarning(UserWarning):
    """What the program says beside its results, such as times that other programs disturbed."""


class Bar:
    """Draws the line of progress on standard error."""

    def __init__(self):
        self.width = 0

    def __call__(self, line):
        text = "\r" + line.ljust(self.width) + ("" if line else "\r")
        self.width = len(line)
        sys.stderr.write(text)
        sys.stderr.flush()


def run(words, progress=None):
    """Runs a command line of the program within this process, and returns what it prints: (exit code, text)."""
    is_shown = sys.stderr is not None and sys.stderr.isatty() if progress is None else progress
    exit_code, problem, output, messages = _core.run(words, Bar() if is_shown else None)
    for message in messages:
        warnings.warn(message, RidgepointWarning, stacklevel=4)
    if problem:
        raise (_core.UsageError if exit_code == EXIT_USAGE else _core.Error)(problem)
    return exit_code, output


def _file(value, folder):
    """The name of a file: records are written into one."""
    if isinstance(value, Record):
        value = Records([value])
    if not isinstance(value, Records):
        return os.fspath(value)
    descriptor, path = tempfile.mkstemp(suffix=".jsonl", dir=folder)
    os.close(descriptor)
    value.save(path)
    return path


class _Command:
    """One command: how its arguments become words."""

    def __init__(self, description):
        self.name = description["name"]
        self.description = description
        self.options = {}
        self.files = []
        self.without = set()
        groups = list(dict.fromkeys(option["group"] for option in description["options"]))
        for option in sorted(description["options"], key=lambda option: groups.index(option["group"])):
            if option["group"] in WITHOUT_GROUPS:
                self.without.add(keyword_of(option))
            elif option["names"]:
                self.options[keyword_of(option)] = option
            else:
                self.files.append(option)

    def words(self, arguments, settings, folder):
        words = [self.name]
        for value in arguments:
            words.append(_file(value, folder()) if self.files and self.files[0]["takes_file"] else
                         word(keyword_of(self.files[0]), value) if self.files else word(self.name, value))
        for name, value in settings.items():
            if name.rstrip("_") in self.without:
                raise _core.UsageError(f"{self.name}() returns records, so it has no '{name}'; to_dict(), to_pandas() "
                                       "and save() have them in other forms")
            if isinstance(value, (Record, Records)):
                value = _file(value, folder())
            words += words_of(name, value, self.options.get(name))
        return [*words, "--format=json"]

    def __call__(self, arguments, settings, progress):
        with contextlib.ExitStack() as stack:
            made = []

            def folder():
                if not made:
                    made.append(stack.enter_context(tempfile.TemporaryDirectory()))
                return made[0]

            words = self.words(arguments, settings, folder)
            try:
                exit_code, text = run(words, progress)
            except BaseException as stop:  # Ctrl-C, for one
                if hasattr(stop, "printed"):
                    stop.rows = Records(json.loads(stop.printed or "[]"))
                raise
        return Records(json.loads(text) if text else [], exit_code)

    def parameters(self):
        """Those of the signature, without types."""
        found = []
        for option in self.files:
            is_several = option["is_repeated"]
            kind = inspect.Parameter.VAR_POSITIONAL if is_several else inspect.Parameter.POSITIONAL_OR_KEYWORD
            has_default = option["value_is_optional"] and not is_several
            found.append(inspect.Parameter(keyword_of(option), kind,
                                           default=None if has_default else inspect.Parameter.empty))
        for name in [*self.options, "progress"]:
            found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
        return found

    def document(self):
        def paragraph(text, indent=""):
            return textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent + "    ")

        lines = [self.description["summary"][0].upper() + self.description["summary"][1:] + ".", ""]
        group = None
        for option in [*self.files, *self.options.values()]:
            if option["group"] != group:
                group = option["group"]
                lines += [f"{group}:"]
            lines.append(paragraph(f"{keyword_of(option)}: {option['help']}", "  "))
        lines.append(paragraph("progress: whether a line on standard error shows how far it is "
                               "[where that is a terminal]", "  "))
        lines += ["", "On a command line:"]
        lines += [f"  {line}" for line in self.description["examples"].splitlines()]
        if self.description["notes"]:
            lines += ["", textwrap.fill(self.description["notes"], 100)]
        return "\n".join(lines)


def _function(command):
    def call(*arguments, progress=None, **settings):
        if not command.files and arguments:
            raise TypeError(f"{command.name}() takes keywords only: {command.name}(model=\"small\")")
        # As --name value, a positional argument may stand with its name, too.
        for option in command.files:
            if not option["is_repeated"] and keyword_of(option) in settings:
                arguments = (*arguments, settings.pop(keyword_of(option)))
        return command([each for each in arguments if each is not None], settings, progress)

    call.__name__ = call.__qualname__ = command.name
    call.__module__ = "ridgepoint"
    call.__doc__ = command.document()
    call.__signature__ = inspect.Signature(command.parameters(), return_annotation=Records)
    return call


COMMANDS = {description["name"]: _Command(description) for description in _core.commands()
            if description["name"] in NAMES}
FUNCTIONS = {name: _function(COMMANDS[name]) for name in NAMES}
