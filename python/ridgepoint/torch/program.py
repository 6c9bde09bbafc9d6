"""The commands of ridgepoint: the one place that knows how to reach them."""

import functools
import importlib
import json
import os
import pathlib
import shutil
import subprocess

from .versions import EstimateError


@functools.lru_cache(maxsize=None)
def path():
    """The program that the variable RIDGEPOINT names, that of a build of this source, or the one on the PATH."""
    named = os.environ.get("RIDGEPOINT")
    if named:
        return named
    builds = pathlib.Path(__file__).resolve().parents[3].glob("build*/ridgepoint")
    found = next((str(file) for file in builds if os.access(file, os.X_OK)), None) or shutil.which("ridgepoint")
    if found is None:
        raise EstimateError("the program ridgepoint was not found, which replays what the step asked the allocator "
                            "for; put it on the PATH, or give its place in the variable RIDGEPOINT")
    return found


def _run(words):
    """(what it prints, the problem): by the compiled module where there is one, otherwise by the program."""
    try:
        core = importlib.import_module("ridgepoint._core")
    except ImportError:
        pass
    else:
        _, problem, output, _ = core.run(words, None)
        return output, problem
    try:
        done = subprocess.run([path(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise EstimateError(f"the program ridgepoint did not start: {error}") from error
    lines = done.stderr.strip().splitlines()
    return done.stdout, lines[-1] if lines else f"ridgepoint {words[0]} ended with {done.returncode}"


def documents(*words):
    """What a command prints with --format json. Raises EstimateError with its sentence."""
    output, problem = _run([*map(str, words), "--format", "json"])
    if not output:
        raise EstimateError(problem)
    found = json.loads(output)
    return found if isinstance(found, list) else [found]
