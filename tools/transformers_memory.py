#!/usr/bin/env python3
"""Peaks of `transformers` on a GPU beside those that `ridgepoint plan --as torch` predicts.

    tools/transformers_memory.py predict --output predictions.jsonl     here, without a GPU
    tools/transformers_memory.py measure predictions.jsonl              on the card's machine: torch and transformers

`predict` plans the grid below and writes a line of JSON for each configuration, with the fields of its config.json.
`measure` makes each model at random on the GPU, a process each, runs training steps (dropout off, no cache, tokens as
labels) and prints measured and predicted peaks. It exits 1 if an error is above --tolerance. --output keeps the rows;
rows that the file has already are not measured again.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

GRID = {"model": ["gpt2", "gpt2-medium", "llama-3.2-1b", "qwen2.5-0.5b"], "context": [512, 2048], "batch": [4],
        "dtype": ["bf16", "fp32"], "attention": ["flash", "softmax"], "checkpoint": ["none", "block"],
        "as": ["torch", "torch-fused"]}
NAMES = list(GRID)
WARMUP, STEPS = 3, 3
NO_DROPOUT = ("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout")


def catalogue():
    path = pathlib.Path(__file__).resolve().parent.parent / "data/models/catalogue.jsonl"
    return {row["name"]: row["config"] for row in map(json.loads, path.read_text().splitlines())}


def plan(options, model, config, context):
    words = [options.program, "plan", "--model", model, "--context", str(context), "--card", options.card,
             "--format", "jsonl"]
    for name in ("batch", "dtype", "attention", "checkpoint", "as"):
        words += ["--" + name, ",".join(map(str, GRID[name]))]
    if config.get("n_positions", context) < context:
        words += ["--config-override", f"n_positions={context}"]
        config = {**config, "n_positions": context}
    output = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    for record in map(json.loads, output.splitlines()):
        if record["status"] != "ok":
            continue
        settings = {name: record[name] for name in NAMES if name != "model"}
        yield {"model": model, **settings, "config": config,
               "predicted": {name: record["memory_bytes"][name] for name in ("peak_allocated", "peak_reserved")}}


def predict(options):
    configs = catalogue()
    rows = [row for model in GRID["model"] for context in GRID["context"]
            for row in plan(options, model, configs[model], context)]
    pathlib.Path(options.output).write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} predictions in {options.output}")


def make_model(row):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    fields = dict(row["config"])
    family = fields.pop("model_type")
    config = AutoConfig.for_model(family, **fields)
    config.use_cache = False
    for name in NO_DROPOUT:
        if hasattr(config, name):
            setattr(config, name, 0.0)
    kind = "sdpa" if row["attention"] == "flash" else "eager"
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=kind, dtype=torch.float32)
    if row["checkpoint"] == "block":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.cuda().train()


def peak(row):
    """Prints the peaks of one row, in a process that runs nothing else."""
    import torch
    import transformers

    try:
        torch.manual_seed(0)
        model = make_model(row)
        is_fused = row["as"] == "torch-fused"
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=is_fused, foreach=not is_fused)
        tokens = torch.randint(0, model.config.vocab_size, (row["batch"], row["context"]), device="cuda")

        def step():
            with torch.autocast("cuda", torch.bfloat16, enabled=row["dtype"] == "bf16"):
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        for _ in range(WARMUP):
            step()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        measured = {"peak_allocated": torch.cuda.max_memory_allocated(),
                    "peak_reserved": torch.cuda.max_memory_reserved()}
    except torch.cuda.OutOfMemoryError:
        measured = {"peak_allocated": None}
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                      "card": torch.cuda.get_device_name(), **measured}))


def key_of(row):
    return tuple(row[name] for name in NAMES)


def error_of(row):
    return row["predicted"]["peak_allocated"] / row["measured"]["peak_allocated"] - 1


def report(rows, tolerance):
    print(f"| {' | '.join(NAMES)} | measured, MiB | predicted, MiB | error |")
    print("|" + "---|" * (len(NAMES) + 3))
    rows = [row for row in rows if row["measured"].get("peak_allocated")]
    for row in rows:
        measured, predicted = (row[side]["peak_allocated"] / 2**20 for side in ("measured", "predicted"))
        print(f"| {' | '.join(map(str, key_of(row)))} | {measured:.0f} | {predicted:.0f} | {error_of(row):+.2%} |")
    errors = [abs(error_of(row)) for row in rows]
    far = sum(error > tolerance for error in errors)
    print(f"\n{len(errors) - far} of {len(errors)} rows are within {tolerance:.0%}.")
    return 1 if far or not errors else 0


def measured_peak(row):
    run = subprocess.run([sys.executable, __file__, "peak", json.dumps(row)], stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else None


def measure(options):
    kept = pathlib.Path(options.output) if options.output else None
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    known = {key_of(row) for row in rows}
    wanted = []
    for line in pathlib.Path(options.predictions).read_text().splitlines():
        row = json.loads(line)
        if key_of(row) not in known and (not options.only or row["model"] in options.only.split(",")):
            wanted.append(row)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row, measured in zip(wanted, pool.map(measured_peak, wanted)):
            if measured is None:
                print(f"failed: {key_of(row)}", file=sys.stderr)
                continue
            rows.append({**row, "measured": measured})
            if kept:
                with kept.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return report(rows, options.tolerance)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_predict = commands.add_parser("predict")
    of_predict.add_argument("--output", default="predictions.jsonl")
    of_predict.add_argument("--program", default="build/ridgepoint")
    of_predict.add_argument("--card", default="h200")
    of_measure = commands.add_parser("measure")
    of_measure.add_argument("predictions")
    of_measure.add_argument("--output", help="keeps the rows, and goes on where it ended")
    of_measure.add_argument("--only", help="models, separated by commas")
    of_measure.add_argument("--jobs", type=int, default=1, help="processes at once; their peaks must fit together")
    of_measure.add_argument("--tolerance", type=float, default=0.03, help="default 0.03")
    commands.add_parser("peak").add_argument("row")
    options = parser.parse_args()
    if options.command == "predict":
        return predict(options)
    return peak(json.loads(options.row)) if options.command == "peak" else measure(options)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
