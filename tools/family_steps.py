#!/usr/bin/env python3
"""Three AdamW steps of every golden model of tests/golden/families, in `transformers` and in `ridgepoint verify`.

    tools/family_steps.py --program build/ridgepoint --device cpu,cuda      where torch and transformers 5 are
    tools/family_steps.py --definition plain llama2 gpt2                     here: family_models.py in double precision

Each model starts from the weights of its files and takes --steps steps of torch.optim.AdamW (lr 1e-3, betas 0.9 and
0.999, eps 1e-8, weight decay 0.01) on their one batch, in fp32. `verify --weights` and `--save-weights` give the
weights and gradients of the files this program's names and rows. `verify --against` compares the logits, the loss and
the gradients of the first step, and the losses of all steps, with --rtol and --atol; gradients that are 0 but for
rounding agree where they are within a thousandth of --atol.

Weights after the steps may differ by --rtol, and their updates by 100 times --rtol (relative L2, as in `verify`). AdamW
divides a gradient by its own size, so an element whose gradient is rounding moves by up to the learning rate in any
direction. Elements whose gradient in the first step is below 3e-4 of the root mean square of all gradients are
therefore left out, unless the gradients of all steps are exactly 0: biases of keys, those of elements that are not
rotated or turn slowly, and a few elements by chance. The tool prints how many.

Exits 77 where a package is missing, 1 where a model differs.
"""

import argparse
import concurrent.futures
import importlib.util
import itertools
import os
import pathlib
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
from family_cases import CASES
from family_names import OWN_CODE
from make_family_golden import OUTPUT, definition_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEAST_GRADIENT = 3e-4  # of the root mean square of all gradients
ROOM_OF_UPDATES = 100  # update_tolerance() of compare_tensors.cpp
KINDS = ("grad.", "most.", "param.")
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
        expected = make_golden.read(self.folder / "expected.safetensors")
        self.weights = make_golden.read(self.folder / "model.safetensors")
        make_golden.write(work, "tokens", {name: expected[name] for name in ("inputs", "targets")})
        train = definition_of(options.definition).train
        results = train(CASES[name], self.weights, expected["inputs"], expected["targets"], options.steps)
        self.before = self.renamed("before", self.weights)
        reference = {name: value.float() for name, value in results.items() if not name.startswith(KINDS)}
        for kind in KINDS:
            published = {name[len(kind):]: value.float() for name, value in results.items() if name.startswith(kind)}
            renamed = self.renamed(kind.strip("."), self.weights | published)
            reference |= {kind + name: value for name, value in renamed.items()}
        make_golden.write(work, "reference", {name: value for name, value in reference.items()
                                              if not name.startswith(("param.", "most."))})
        self.reference = reference
        gradients = torch.cat([self.reference["grad." + name].double().flatten() for name in self.before])
        self.least_gradient = LEAST_GRADIENT * gradients.pow(2).mean().sqrt().item()

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
                     self.options.attention, "--weights", self.folder / "model.safetensors", "--tokens",
                     self.work / "tokens.safetensors", "--optimizer-steps", self.options.steps, "--against",
                     self.work / "reference.safetensors", "--rtol", self.options.rtol, "--atol", self.options.atol,
                     "--dump", dump)
        if not dump.exists():
            raise RuntimeError(run.stderr.strip())
        ours = make_golden.read(dump)
        dump.unlink()
        errors = {"losses": [(relative_error(ours[name], value), name) for name, value in self.reference.items()
                             if name.startswith("loss.")], "weights": [], "updates": []}
        left_out = 0
        for name, before in self.before.items():
            most = self.reference["most." + name]
            kept = (self.reference["grad." + name].abs() >= self.least_gradient) | (
                (most == 0) & (ours["grad." + name] == 0))
            left_out += int((~kept).sum())
            mine, theirs, before = (values.double() * kept for values in (ours["param." + name],
                                                                          self.reference["param." + name], before))
            errors["weights"].append((relative_error(mine, theirs), name))
            errors["updates"].append((relative_error(mine - before, theirs - before), name))
        worst = {column: max(errors[column]) for column in COLUMNS}
        agrees = (run.returncode == 0 and worst["weights"][0] <= self.options.rtol
                  and worst["updates"][0] <= ROOM_OF_UPDATES * self.options.rtol)
        return {"agrees": agrees, "worst": worst, "left_out": left_out / sum(map(torch.numel, self.before.values())),
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
    print(f"{len(names)} models, {options.steps} steps, {definition_of(options.definition).VERSION}; largest errors: "
          f"{errors}; {len(set(differing))} differ; {time.monotonic() - began:.0f} s")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
