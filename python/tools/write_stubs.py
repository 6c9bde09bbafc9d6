#!/usr/bin/env python3
"""Writes the type stubs of the Python module, ridgepoint/__init__.pyi, from the options of its commands.

usage: write_stubs.py FILE        (with the module in PYTHONPATH)
"""

import pathlib
import sys

from ridgepoint import _commands
from ridgepoint._words import keyword_of

HEAD = '''"""Written by python/tools/write_stubs.py from the options of the program."""

from os import PathLike
from typing import Iterable, Literal, Mapping, Optional, Union

from ridgepoint._core import Error as Error, OutOfMemory as OutOfMemory, Unsupported as Unsupported
from ridgepoint._core import UsageError as UsageError
from ridgepoint._graph import Graph as Graph, Program as Program, Tensor as Tensor
from ridgepoint._records import Record as Record, Records as Records

__version__: str

Path = Union[str, PathLike[str]]
File = Union[Path, Record, Records]
Number = Union[int, float, str]
Keys = Union[str, Mapping[str, object]]

class RidgepointWarning(UserWarning): ...
'''

MOST_NAMES = 24  # of a type; the models are more

# By the word that stands for the value in --help.
TYPES = {"N": "Number", "X": "Number", "FILE": "Path", "FOLDER": "Path", "FILES": "Union[Path, Iterable[Path]]",
         "KEYS": "Keys", "K=V": "Union[Keys, Iterable[Keys]]", "SIZE": "Number"}


def type_of(option):
    """The type of the value of an option."""
    if not option["value"]:
        return "bool"
    if not option["names"]:
        return "File" if option["takes_file"] else "str"
    names = ", ".join(f'"{name}"' for name in option["choices"])
    if len(option["choices"]) > MOST_NAMES:
        types = ["str"]
    else:
        types = [f"Literal[{names}]", "str"] if names else [TYPES.get(option["value"], "Union[str, float]")]
    if set(option["choices"]) in ({"false", "true"}, {"on", "off"}):
        types.append("bool")
    if option["takes_list"]:
        one = [each for each in types if not each.startswith("Literal")]
        types.append(f"Iterable[{one[0] if len(one) == 1 else 'Union[' + ', '.join(one) + ']'}]")
    return types[0] if len(types) == 1 else f"Union[{', '.join(types)}]"


def stub_of(command):
    """The function of one command."""
    lines = [f"def {command.name}("]
    for option in command.files:
        name = keyword_of(option)
        if option["is_repeated"]:
            lines.append(f"    *{name}: {type_of(option)},")
        elif option["value_is_optional"]:
            lines.append(f"    {name}: Optional[{type_of(option)}] = None,")
        else:
            lines.append(f"    {name}: {type_of(option)},")
    if not any(option["is_repeated"] for option in command.files):
        lines.append("    *,")
    lines += [f"    {name}: Optional[{type_of(option)}] = None," for name, option in command.options.items()]
    return "\n".join([*lines, "    progress: Optional[bool] = None,", ") -> Records: ..."])


def main(path):
    stubs = [stub_of(_commands.COMMANDS[name]) for name in _commands.NAMES]
    pathlib.Path(path).write_text("\n".join([HEAD, *stubs, ""]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
