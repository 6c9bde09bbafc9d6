"""Values of Python as words of a command line."""

import collections.abc
import keyword
import numbers
import os


def keyword_of(option):
    """The keyword of an option: --d-model is d_model, and --as is as_."""
    name = next((name for name in option["names"] if name.startswith("--")), option["value"].lower())
    name = name.lstrip("-").replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def flag_of(name):
    """The inverse, of keywords that no option has too."""
    return "--" + name.rstrip("_").replace("_", "-")


def word(name, value, choices=()):
    """The value of the keyword `name` as one word: lists with commas, mappings as KEY=VALUE."""
    if isinstance(value, bool):
        return ("off", "on")[value] if "on" in choices else ("false", "true")[value]
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, collections.abc.Mapping):
        return ",".join(f"{key}={word(name, each)}" for key, each in value.items())
    if isinstance(value, collections.abc.Iterable):
        return ",".join(word(name, each, choices) for each in value)
    raise TypeError(f"{name}: {type(value).__name__} is not a value of an option; give a name, a number or a list")


def words_of(name, value, option=None):
    """The words of a keyword; none for None."""
    flag = flag_of(name)
    if value is None:
        return []
    is_flag = option is not None and not option["value"]
    if is_flag or (option is None and isinstance(value, bool)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} is True or False, not {value!r}")
        return [flag] if value else []
    choices = option["choices"] if option else ()
    several = option is not None and option["is_repeated"] and isinstance(value, (list, tuple))
    return [f"{flag}={word(name, each, choices)}" for each in (value if several else [value])]
