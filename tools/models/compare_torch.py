#!/usr/bin/python3
"""Compares `ridgepoint verify` with PyTorch at a size too large to commit a golden file for.

Makes weights, tokens and PyTorch's results in double precision (make_golden.py) in a temporary folder, runs the
program on them and prints the relative L2 error of the worst tensors beside PyTorch's own in fp32. The size is that
of the preset `small` unless told otherwise. Exits 1 when a tensor is off by more than --tolerance, 77 when PyTorch is
missing.
"""

import argparse
import os
import subprocess
import sys
import tempfile

try:
    import make_golden
except ImportError as error:
    print(f"skipped: {error} (Debian: python3-torch)")
    sys.exit(77)

SIZES = dict(layers=12, d_model=768, d_ff=3072, heads=12, vocab=10000, context=256, batch=1)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in SIZES.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value, help=f"default {value}")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--optimizer-steps", type=int, default=3, help="default 3")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="default 1e-5")
    parser.add_argument("--show", type=int, default=5, help="tensors printed, the worst first (default 5)")
    parser.add_argument("--program", default="build/ridgepoint", help="default build/ridgepoint")
    return parser.parse_args()


def run_program(options, config, folder):
    """The tensors the program dumps for the files in `folder`."""
    command = [options.program, "verify", "--optimizer-steps", str(options.optimizer_steps)]
    for name in SIZES:
        command += ["--" + name.replace("_", "-"), str(config[name])]
    for option, file in (("--weights", "weights"), ("--tokens", "tokens"), ("--dump", "dump")):
        command += [option, os.path.join(folder, file + ".safetensors")]
    subprocess.run(command, check=True)
    return make_golden.read(os.path.join(folder, "dump.safetensors"))


def main():
    options = parse_options()
    config = {name: getattr(options, name) for name in [*SIZES, "seed"]}
    with tempfile.TemporaryDirectory() as folder:
        torch_error, torch_name = make_golden.make(config, options.optimizer_steps, folder)
        expected = make_golden.read(os.path.join(folder, "expected.safetensors"))
        dumped = run_program(options, config, folder)
    missing = sorted(set(expected) - set(dumped))
    if missing:
        sys.exit(f"the dump lacks {', '.join(missing)}")
    errors = make_golden.relative_errors(dumped, expected)
    print(f"{len(errors)} tensors; relative L2 error, the worst first:")
    for error, name in errors[: options.show]:
        print(f"  {error:.2e}  {name}")
    print(f"PyTorch's own fp32 run: {torch_error:.2e}  {torch_name}")
    sys.exit(1 if not errors[0][0] < options.tolerance else 0)


if __name__ == "__main__":
    main()
