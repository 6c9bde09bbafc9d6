"""The program ridgepoint as a child process: the one place that knows how to reach it."""

import functools
import json
import os
import pathlib
import shutil
import subprocess

from .versions import EstimateError


@functools.lru_cache(maxsize=None)
def path():
    """The program that the variable RIDGEPOINT names, the one beside the module, or the one on the PATH."""
    named = os.environ.get("RIDGEPOINT")
    if named:
        return named
    package = pathlib.Path(__file__).resolve().parents[1]
    beside = [package / "bin" / "ridgepoint", *sorted(package.parents[1].glob("build*/ridgepoint"))]
    found = next((str(file) for file in beside if os.access(file, os.X_OK)), None) or shutil.which("ridgepoint")
    if found is None:
        raise EstimateError("the program ridgepoint was not found, which replays what the step asked the allocator "
                            "for; put it on the PATH, or give its place in the variable RIDGEPOINT")
    return found


def documents(*words):
    """What the program prints for these words, with --format json. Raises EstimateError with the program's sentence."""
    try:
        run = subprocess.run([path(), *map(str, words), "--format", "json"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise EstimateError(f"the program ridgepoint did not start: {error}") from error
    if not run.stdout:
        lines = run.stderr.strip().splitlines()
        raise EstimateError(lines[-1] if lines else f"ridgepoint {words[0]} ended with {run.returncode}")
    found = json.loads(run.stdout)
    return found if isinstance(found, list) else [found]
