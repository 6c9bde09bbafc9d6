#!/usr/bin/env python3
"""Three AdamW steps of every golden model of tests/golden/families, in `transformers` and in `ridgepoint verify`.

    tools/models/family_steps.py --program build/ridgepoint --device cpu,cuda      where torch and transformers 5 are
    tools/models/family_steps.py --definition plain llama2 gpt2                     here: families/model.py in double precision

Each model starts from the weights of its files and takes --steps steps of torch.optim.AdamW (lr 1e-3, betas 0.9 and
0.999, eps 1e-8, weight decay 0.01) on their one batch, in fp32. `verify --weights` and `--save-weights` give the
weights and gradients of the files this program's names and rows. `verify --against` then compares the logits, the loss
and the gradients of the first step, the losses of all steps and the updates of the weights, by its rules: --rtol, 100
times --rtol for updates (relative L2), and no comparison of updates where the gradient is 0 but for rounding (biases of
keys, or of those elements of a head that are not rotated or turn slowly), because AdamW divides a gradient by its own
size. Such gradients are within a thousandth of --atol, or below a thousandth of the tensor's root mean square.

Beside the verdict of `verify`, the tool prints the largest relative L2 errors of losses, of weights after the last step
and of their updates, without those elements, and fails where a weight differs by more than --rtol.

Exits 77 where a package is missing, 1 where a model differs.
"""

import argparse
import concurrent.futures
import importlib.util
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-torch)")
    sys.exit(77)

import make_golden
from families.table import CASES, OWN_CODE
from make_family_golden import OUTPUT, definition_of, read_case

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = re.compile(r"parameters whose gradient is 0 but for rounding .*up to the learning rate: (.*)")
LEAST_GRADIENT = 1e-3  # of the root mean square of a tensor, as in difference_table.cpp
KINDS = ("grad.", "param.")
COLUMNS = ("losses", "weights", "updates")


def relative_error(ours, theirs):
    ours, theirs = ours.double().flatten(), theirs.double().flatten()
    size = theirs.norm().item()
    return (ours - theirs).norm().item() / (size if size > 0 else 1)


def verify(options, *words):
    run = subprocess.run([options.program, "verify", *map(str, words)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if run.returncode not in (0, 1):
        raise RuntimeError(run.stderr.strip())
    return run


class Case:
    """A golden model, and what its definition computes of it in this program's names."""

    def __init__(self, options, name, work):
        self.options, self.folder, self.work = options, OUTPUT / name, work
        self.weights, inputs, targets, _ = read_case(self.folder)
        shutil.copy(self.folder / "config.json", work)
        make_golden.write(work, "model", self.weights)
        make_golden.write(work, "tokens", {"inputs": inputs, "targets": targets})
        results = definition_of(options.definition).train(CASES[name], self.weights, inputs, targets, options.steps)
        # Numbers that route have no gradient, and no step changes them.
        marks = self.renamed("marks", {name: torch.full_like(values, "grad." + name in results)
                                       for name, values in self.weights.items()})
        self.trained = [name for name, values in marks.items() if values.any()]
        self.before = self.trained_of("before", self.weights)
        reference = {name: value.float() for name, value in results.items() if not name.startswith(KINDS)}
        for kind in KINDS:
            published = {name[len(kind):]: value.float() for name, value in results.items() if name.startswith(kind)}
            trained = self.trained_of(kind.strip("."), self.weights | published)
            reference |= {kind + name: value for name, value in trained.items()}
        make_golden.write(work, "reference", reference)
        self.reference = reference

    def trained_of(self, label, tensors):
        renamed = self.renamed(label, tensors)
        return {name: renamed[name] for name in self.trained}

    def renamed(self, label, tensors):
        """Tensors under the names of the files, as this program has them."""
        stored, own = self.work / f"{label}_stored.safetensors", self.work / f"{label}_own.safetensors"
        make_golden.write(self.work, stored.stem, tensors)
        run = verify(self.options, "--device", "cpu", "--model", self.folder / "config.json", "--weights", stored,
                     "--save-weights", own)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip())
        return make_golden.read(own)

    def compare(self, device, level):
        """A row: whether the program agrees, its largest errors, and what it did not compare."""
        dump = self.work / "dump.safetensors"
        run = verify(self.options, "--device", device, "--compile", level, "--dtype", "fp32", "--attention",
                     self.options.attention, "--weights", self.work / "model.safetensors", "--tokens",
                     self.work / "tokens.safetensors", "--optimizer-steps", self.options.steps, "--against",
                     self.work / "reference.safetensors", "--rtol", self.options.rtol, "--atol", self.options.atol,
                     "--dump", dump, *(("--threads", 1) if device == "cpu" else ()))
        if not dump.exists():
            raise RuntimeError(run.stderr.strip())
        ours = make_golden.read(dump)
        dump.unlink()
        errors = {"losses": [(relative_error(ours[name], value), name) for name, value in self.reference.items()
                             if name.startswith("loss.")], "weights": [], "updates": []}
        left_out = {name for line in LEFT_OUT.findall(run.stderr) for name in line.split(", ")}
        count = sum(self.before[name].numel() for name in left_out)
        for name, before in self.before.items():
            if name in left_out:
                continue
            gradient = self.reference["grad." + name].double()
            kept = gradient.abs() >= LEAST_GRADIENT * gradient.pow(2).mean().sqrt()
            kept |= (gradient == 0) & (ours["grad." + name] == 0)
            count += int((~kept).sum())
            mine, theirs, before = (values.double() * kept for values in (ours["param." + name],
                                                                          self.reference["param." + name], before))
            errors["weights"].append((relative_error(mine, theirs), name))
            errors["updates"].append((relative_error(mine - before, theirs - before), name))
        worst = {column: max(errors[column]) for column in COLUMNS}
        agrees = run.returncode == 0 and worst["weights"][0] <= self.options.rtol
        return {"agrees": agrees, "worst": worst, "left_out": count / sum(map(torch.numel, self.before.values())),
                "output": "" if agrees else run.stdout + run.stderr}


def rows_of(options, name):
    """Runs in a process of its own: (device, level, row or the text of an error) of each run."""
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        try:
            case = Case(options, name, pathlib.Path(work))
        except (Exception, SystemExit) as problem:  # of any kind: the other models are compared too
            return [("-", "-", f"{type(problem).__name__}: {problem}")]
        for device, level in itertools.product(options.device.split(","), options.compile.split(",")):
            try:
                rows.append((device, level, case.compare(device, level)))
            except Exception as problem:
                rows.append((device, level, f"{type(problem).__name__}: {problem}"))
    return rows


def text_of(name, device, level, row):
    if isinstance(row, str):
        return f"{name:20} {device:9} {level:5} failed  {row}"
    errors = "  ".join(f"{column} {error:.1e} ({where})" for column, (error, where) in row["worst"].items())
    return (f"{name:20} {device:9} {level:5} {'agrees' if row['agrees'] else 'differs'}  {errors}  left out "
            f"{row['left_out']:.2%}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    has_transformers = importlib.util.find_spec("transformers") is not None
    parser.add_argument("--definition", choices=("plain", "transformers"),
                        default="transformers" if has_transformers else "plain")
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"), help="default: %(default)s")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or both, separated by a comma (default: cpu)")
    parser.add_argument("--compile", default="off,full", help="default: %(default)s")
    parser.add_argument("--attention", default="composite", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--rtol", type=float, default=1e-5, help="default: %(default)s")
    parser.add_argument("--atol", type=float, default=1e-4, help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="models at once (default: all cores)")
    parser.add_argument("--log", type=pathlib.Path, help="writes what verify says of models that differ")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all that the definition has code for")
    options = parser.parse_args()
    if options.definition == "transformers" and not has_transformers:
        print("skipped: there is no transformers")
        sys.exit(77)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    return options


def main():
    options = parse_options()
    names = options.cases or [name for name in CASES
                              if options.definition == "plain" or CASES[name]["model_type"] not in OWN_CODE]
    version = definition_of(options.definition).VERSION  # imports it before the pool forks
    began, differing, largest, log = time.monotonic(), [], dict.fromkeys(COLUMNS, 0.0), []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for name, rows in zip(names, pool.map(rows_of, [options] * len(names), names)):
            for device, level, row in rows:
                print(text_of(name, device, level, row), flush=True)
                if isinstance(row, str) or not row["agrees"]:
                    differing.append(name)
                    log.append(f"== {name} {device} {level}\n{row if isinstance(row, str) else row['output']}")
                if not isinstance(row, str):
                    for column in COLUMNS:
                        largest[column] = max(largest[column], row["worst"][column][0])
    if options.log:
        options.log.write_text("\n".join(log), encoding="utf-8")
    errors = ", ".join(f"{column} {error:.2e}" for column, error in largest.items())
    print(f"{len(names)} models, {options.steps} steps, {version}; largest errors: "
          f"{errors}; {len(set(differing))} differ; {time.monotonic() - began:.0f} s")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
