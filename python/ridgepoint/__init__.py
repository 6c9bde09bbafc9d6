"""Ridgepoint: where the time and the memory of a Transformer training step go.

The commands of the program are functions, and their options keywords:

    >>> import ridgepoint
    >>> rows = ridgepoint.plan(model="2.7b", context=1024, dtype="bf16", card=["h100", "a100"])
    >>> [(row.card, row.fits) for row in rows]

`Graph` builds graphs and runs them on arrays. `ridgepoint.torch`, which is imported when it is first used, estimates
training steps of PyTorch.
"""

from ridgepoint._core import Error, OutOfMemory, Unsupported, UsageError, version as __version__
from ridgepoint._commands import FUNCTIONS as _FUNCTIONS, RidgepointWarning
from ridgepoint._graph import Graph, Program, Tensor
from ridgepoint._records import Record, Records

globals().update(_FUNCTIONS)

__all__ = [*_FUNCTIONS, "Error", "Graph", "OutOfMemory", "Program", "Record", "Records", "RidgepointWarning", "Tensor",
           "Unsupported", "UsageError"]


def __getattr__(name):
    if name == "torch":
        import importlib

        return importlib.import_module("ridgepoint.torch")
    raise AttributeError(f"module 'ridgepoint' has no attribute '{name}'")


def __dir__():
    return sorted([*globals(), "torch"])
