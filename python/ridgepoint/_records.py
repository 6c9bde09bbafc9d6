"""What commands return: records with attributes, and collections of them."""

import collections.abc
import copy
import difflib
import json


def _wrapped(value):
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return [Record(each) for each in value]
    return value


def _flat(fields, prefix=""):
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


class Record(collections.abc.Mapping):
    """One record. Its fields are attributes and items: record.memory_bytes.peak_allocated is
    record["memory_bytes.peak_allocated"]. A field whose name Python keeps for itself ends in an underscore: record.as_.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields):
        object.__setattr__(self, "_fields", fields)

    def __getattr__(self, name):
        if not name.startswith("__"):
            for field in (name, name.rstrip("_")):
                if field in self._fields:
                    return _wrapped(self._fields[field])
        near = difflib.get_close_matches(name, self._fields, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"the record has no field '{name}'{hint}")

    def __setattr__(self, name, value):
        raise AttributeError("records do not change; to_dict() gives a copy")

    def __getitem__(self, path):
        fields = self._fields
        if path in fields:
            return _wrapped(fields[path])
        for name in path.split("."):
            if not isinstance(fields, dict) or name not in fields:
                raise KeyError(path)
            fields = fields[name]
        return _wrapped(fields)

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)

    def __eq__(self, other):
        return self._fields == (other._fields if isinstance(other, Record) else other)

    def __dir__(self):
        return [*super().__dir__(), *(name for name in self._fields if name.isidentifier())]

    def __reduce__(self):
        return Record, (self._fields,)

    def __repr__(self):
        shown = ", ".join(f"{name}={value!r}" for name, value in _flat(self._fields)
                          if value is not None and not isinstance(value, list))
        return f"Record({shown if len(shown) < 400 else shown[:400] + '...'})"

    def to_dict(self):
        """The fields as a dictionary of its own, as the program writes them in JSON."""
        return copy.deepcopy(self._fields)

    def flat(self):
        """The fields on one level, {"model.name": ..., "memory_bytes.peak_allocated": ...}: the columns of CSV."""
        return dict(_flat(self._fields))


class Records(collections.abc.Sequence):
    """The rows that a command returns, in their order. One row alone may be asked as if it were the collection:
    plan(model="small").fits. `exit_code` is that of the program (docs/interfaces/automation.md)."""

    def __init__(self, rows=(), exit_code=0):
        self._rows = [row if isinstance(row, Record) else Record(row) for row in rows]
        self.exit_code = exit_code

    def __getitem__(self, at):
        return Records(self._rows[at], self.exit_code) if isinstance(at, slice) else self._rows[at]

    def __len__(self):
        return len(self._rows)

    def __add__(self, other):
        return Records([*self._rows, *other], self.exit_code or getattr(other, "exit_code", 0))

    def __eq__(self, other):
        return list(self) == list(other) if isinstance(other, (Records, list)) else NotImplemented

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if len(self._rows) != 1:
            raise AttributeError(f"there are {len(self._rows)} rows; ask one of them for '{name}', as rows[0].{name}")
        return getattr(self._rows[0], name)

    def __dir__(self):
        return [*super().__dir__(), *(dir(self._rows[0]) if len(self._rows) == 1 else ())]

    def __repr__(self):
        count = f"{len(self._rows)} row{'' if len(self._rows) == 1 else 's'}"
        return "\n".join([f"Records of {count}", *(f"  {row!r}" for row in self._rows[:10]),
                          *(["  ..."] if len(self._rows) > 10 else [])])

    def to_dict(self):
        """A list of dictionaries."""
        return [row.to_dict() for row in self._rows]

    def to_pandas(self):
        """A frame of pandas: a row each, and a column for each field, named by its path."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas, which is not installed (Debian: python3-pandas); to_dict() "
                              "has the same rows") from error
        return pandas.DataFrame([row.flat() for row in self._rows])

    def save(self, path):
        """Writes a file of records, JSON Lines, which every command and the program read."""
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row._fields) + "\n" for row in self._rows)
