#!/usr/bin/env python3
"""Whether `transformers` loads what `ridgepoint verify --save-weights FOLDER/` writes, and computes the same with it.

    tools/models/transformers_weights.py write models     here: a folder a model, with its weights, tokens and logits
    tools/models/transformers_weights.py load models      where torch and transformers 5 are

The models are those of tests/golden/families and a preset, with random weights. `load` prints the relative L2 difference
of the logits of each, in fp32 on the CPU. It exits 1 if a tensor is missing or not used, or a difference is above 1e-5.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from families.table import OWN_CODE

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5


def models():
    """Name and what --model takes, of models that `transformers` has code for."""
    yield "tiny", "tiny"
    for config in sorted((ROOT / "tests/golden/families").glob("*/config.json")):
        if json.loads(config.read_text(encoding="utf-8"))["model_type"] not in OWN_CODE:
            yield config.parent.name, str(config)


def write(options):
    for name, model in models():
        folder = pathlib.Path(options.folder) / name
        folder.mkdir(parents=True)
        context = "10" if name == "vit" else "13"  # the class token and the patches of an image
        words = [options.program, "verify", "--device", "cpu", "--model", model, "--batch", "2", "--context", context,
                 "--seed", "7", "--optimizer-steps", "0", "--save-weights", f"{folder}/model/",
                 "--save-tokens", f"{folder}/tokens.safetensors", "--dump", f"{folder}/results.safetensors"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"{len(list(models()))} models in {options.folder}")
    return 0


def difference(folder):
    """The relative L2 difference of the logits, and the keys that do not fit."""
    import torch
    from safetensors.torch import load_file
    from families.transformers import attention_of, class_of, outputs_of, prepared

    config = json.loads((folder / "model/config.json").read_text(encoding="utf-8"))
    model, info = class_of(config["model_type"]).from_pretrained(
        folder / "model", dtype=torch.float32, output_loading_info=True, attn_implementation=attention_of(config))
    with torch.no_grad():
        inputs = load_file(folder / "tokens.safetensors")["inputs"]
        logits = outputs_of(prepared(model), inputs, config).logits.double()
    expected = load_file(folder / "results.safetensors")["logits"].double().view_as(logits)
    wrong = [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in info[kind]]
    return float((logits - expected).norm() / expected.norm()), wrong


def load(options):
    failed = 0
    for folder in sorted(path for path in pathlib.Path(options.folder).iterdir() if path.is_dir()):
        try:
            error, wrong = difference(folder)
        except Exception as problem:  # of any kind: the other models are loaded too
            error, wrong = float("nan"), [f"{type(problem).__name__}: {problem}"]
        failed += bool(wrong) or not error <= TOLERANCE
        print(f"{folder.name:20} {error:.1e} {' '.join(map(str, wrong))}", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "load"])
    parser.add_argument("folder")
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"), help="default: %(default)s")
    options = parser.parse_args()
    return write(options) if options.what == "write" else load(options)


if __name__ == "__main__":
    sys.exit(main())
