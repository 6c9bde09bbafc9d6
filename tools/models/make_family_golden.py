#!/usr/bin/python3
"""Makes golden files of the families of docs/models.md: a tiny model of each with random weights, its logits, loss and
gradients.

Writes into --output/CASE:
  config.json              the model's
  golden.safetensors       int64 `inputs` and `targets` [batch, sequence]; fp32 `loss`; of `logits` and the gradient of
                           each weight, `grad.NAME`, 16 sums: the elements added or subtracted as the bits of a hash of
                           their number say. What is wrong by a share has sums that are wrong by about the same share,
                           at a fortieth of its size. The metadata has the rule of each fp32 weight under its published
                           name: made_weight() of families/cases.py makes the weight. Those without a rule are in the file.

The loss is the mean cross-entropy of the logits at every position with the target at the same position (`transformers`
shifts labels, this file does not), plus router_aux_loss_coef times the load-balancing loss where a case has
output_router_logits.

--definition says what computes them: `plain` is families/model.py in double precision, `transformers` is version 5 of
that package in fp32; the metadata of the files names it with its version. --compare runs both on the same weights and
prints the relative L2 difference of each result; --check computes the results of the files that --output has from their
own weights. Both exit 1 above a difference of 1e-5. Exits 77 where a package is missing. A call takes seconds.

The first versions 5 of `transformers` apply softmax twice in the load-balancing loss (its pull request 45131), so that
--compare fails there for the cases that have that loss.
"""

import argparse
import importlib.util
import math
import pathlib
import shutil
import sys

try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {error} (Debian: python3-torch)")
    sys.exit(77)

import dense_json
import make_golden
from families import cases, decoders
from families.model import FamilyModel
from families.optimizer import train_steps
from families.table import OWN_CODE

TOLERANCE = 1e-5
MOST_BYTES = 2_000_000
OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/families"


def is_parameter(name):
    return not name.endswith(decoders.BUFFERS)


def sketch(name, result):
    """The 16 sums, in double precision: sketch_of() of tests/support/graphs/golden_families.cpp. The loss as it is."""
    if name == "loss":
        return result
    bits = (cases.mix(result.numel())[:, None] >> np.arange(16, dtype=np.uint64)) & np.uint64(1)
    return torch.from_numpy(1.0 - 2.0 * bits.astype(np.float64)).T @ result.double().flatten()


class Plain:
    """families/model.py in double precision, with the interface of families/transformers.py."""

    VERSION = f"families in plain PyTorch, torch {torch.__version__}"

    @staticmethod
    def parameters_of(weights):
        return {name: weight.double().requires_grad_(is_parameter(name)) for name, weight in weights.items()}

    @staticmethod
    def loss_of(config, parameters, inputs, targets):
        model = FamilyModel(config, parameters)
        logits = model.forward(inputs)
        return logits, model.loss(logits, targets)

    @staticmethod
    def gradients_of(parameters):
        return {"grad." + name: torch.zeros_like(one) if one.grad is None else one.grad
                for name, one in parameters.items() if is_parameter(name)}

    @classmethod
    def compute(cls, config, weights, inputs, targets):
        parameters = cls.parameters_of(weights)
        logits, loss = cls.loss_of(config, parameters, inputs, targets)
        loss.backward()
        return config, {"logits": logits.detach(), "loss": loss.detach()} | cls.gradients_of(parameters)

    @classmethod
    def train(cls, config, weights, inputs, targets, steps):
        parameters = cls.parameters_of(weights)
        trained = {name: one for name, one in parameters.items() if is_parameter(name)}
        moved = [one for name, one in trained.items() if decoders.INDEXER not in name]
        return train_steps(moved, lambda: cls.loss_of(config, parameters, inputs, targets),
                           lambda: cls.gradients_of(parameters), lambda: trained, steps)


def definition_of(name):
    if name == "plain":
        return Plain
    from families import transformers  # needs a package that Debian does not have

    return transformers


def write_case(definition, name, folder):
    """Returns the bytes of the files."""
    config, rules, choices, inputs, targets = cases.make_case(name)
    weights = cases.make_weights(rules, choices)
    settings, results = definition.compute(config, weights, inputs, targets)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dense_json.write(folder / "config.json", settings)
    expected = {"inputs": inputs, "targets": targets} | choices
    names = ["logits", "loss", *("grad." + key for key in weights if is_parameter(key))]
    expected |= {key: make_golden.rounded(sketch(key, results[key])) for key in names}
    make_golden.write(folder, "golden", expected, {"made_by": definition.VERSION} | rules)
    size = sum(file.stat().st_size for file in folder.iterdir())
    numbers = sum(weight.numel() for weight in weights.values())
    print(f"{name:20} {numbers:7} weights {size:8} bytes  loss {results['loss'].item():.6f}")
    return size


def read_case(folder):
    """(weights, inputs, targets, expected results)."""
    expected, rules = make_golden.read_with_metadata(folder / "golden.safetensors")
    rules.pop("made_by")
    choices = {key: expected.pop(key) for key in list(expected) if key.endswith("tid2eid")}
    return cases.make_weights(rules, choices), expected.pop("inputs"), expected.pop("targets"), expected


def write_cases(definition, names, output):
    total = sum(write_case(definition, name, output / name) for name in names)
    print(f"{total} bytes by {definition.VERSION}")
    if total > MOST_BYTES:
        raise SystemExit(f"the files take more than {MOST_BYTES} bytes")


def largest_error(name, results, expected):
    """Prints the relative L2 error of each result and returns the largest."""
    if results.keys() != expected.keys():
        raise SystemExit(f"{name}: only one side has {', '.join(sorted(results.keys() ^ expected.keys()))}")
    errors = make_golden.relative_errors(results, expected)
    for error, result in errors:
        print(f"{error:.2e}  {name}  {result}")
    return errors[0][0]


def compare_case(name):
    """transformers against the plain definition."""
    config, rules, choices, inputs, targets = cases.make_case(name)
    case = config, cases.make_weights(rules, choices), inputs, targets
    try:
        (_, ours), (_, theirs) = (definition_of(which).compute(*case) for which in ("plain", "transformers"))
    except (Exception, SystemExit) as problem:  # of any kind: the other cases are compared too
        print(f"{name}: {type(problem).__name__}: {problem}")
        return math.inf
    return largest_error(name, theirs, ours)


def check_case(definition, name, folder):
    """The files of a case against what the definition computes from their weights."""
    weights, inputs, targets, expected = read_case(folder)
    _, results = definition.compute(cases.CASES[name], weights, inputs, targets)
    results = {key: sketch(key, value) for key, value in results.items()}
    return largest_error(name, results, expected)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    has_transformers = importlib.util.find_spec("transformers") is not None
    parser.add_argument("--definition", choices=("plain", "transformers"),
                        default="transformers" if has_transformers else "plain",
                        help="what computes the results (default: transformers where it is installed, otherwise plain)")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, help="default: tests/golden/families")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compare", action="store_true", help="compare both definitions instead of writing files")
    what.add_argument("--check", action="store_true", help="compare the files of --output with the definition instead")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in cases.CASES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(cases.CASES)}")
    if not has_transformers and (options.compare or options.definition == "transformers"):
        print("skipped: there is no transformers")
        sys.exit(77)
    return options


def main():
    options = parse_options()
    names = options.cases or list(cases.CASES)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    if options.compare:
        names = [name for name in names if cases.CASES[name]["model_type"] not in OWN_CODE]
        largest = max(compare_case(name) for name in names)
        print(f"largest {largest:.2e}: {definition_of('transformers').VERSION} against {Plain.VERSION}")
    elif options.check:
        largest = max(check_case(definition_of(options.definition), name, options.output / name) for name in names)
        print(f"largest {largest:.2e}: the files of {options.output} against {options.definition}")
    else:
        return write_cases(definition_of(options.definition), names, options.output)
    sys.exit(0 if largest < TOLERANCE else 1)


if __name__ == "__main__":
    main()
