#!/usr/bin/env python3
"""Peaks of `transformers` on a GPU beside those that `ridgepoint plan --as torch` predicts.

    tools/models/transformers_memory.py predict --output predictions.jsonl     here, without a GPU
    tools/models/transformers_memory.py measure predictions.jsonl              on the card's machine: torch and transformers
    tools/models/transformers_memory.py predict --families --output families.jsonl
    tools/models/transformers_memory.py measure families.jsonl --share-process --jobs 10 --tolerance 0.02

`predict` plans the grid below and writes a line of JSON for each configuration, with the fields of its config.json;
--families plans the golden models of tests/golden/families that `plan --as torch` knows, with sizes that memory shows:
4 layers of width 1024. `measure` makes each model at random on the GPU, a process each, runs training steps (dropout
off, no cache, tokens as labels) and prints measured and predicted peaks. With --share-process the rows of a model run
one after the other in one process. It exits 1 if an error is above --tolerance. --output keeps the rows; rows that the
file has already are not measured again.
"""

import argparse
import concurrent.futures
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from families.table import OWN_CODE

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRID = {"model": ["gpt2", "gpt2-medium", "llama-3.2-1b", "qwen2.5-0.5b"], "context": [512, 2048], "batch": [4],
        "dtype": ["bf16", "fp32"], "attention": ["flash", "softmax"], "checkpoint": ["none", "block"],
        "as": ["torch", "torch-fused"]}
NAMES = list(GRID)
WARMUP, STEPS = 3, 3

# Of the models of --families. Gradient checkpointing is planned with sdpa in bf16 alone.
FAMILIES = {**GRID, "context": [512, 1024], "as": ["torch-fused"]}
LAYERS, HEADS = 4, 8
LARGER = {"vocab_size": 4096, "hidden_size": 1024, "n_embd": 1024, "word_embed_proj_dim": 1024,
          "intermediate_size": 2816, "n_inner": 2816, "ffn_dim": 2816, "moe_intermediate_size": 512,
          "shared_expert_intermediate_size": 512, "num_hidden_layers": LAYERS, "n_layer": LAYERS, "num_layers": LAYERS,
          "num_attention_heads": HEADS, "n_head": HEADS, "head_dim": 128, "rotary_dim": 64, "rotary_pct": 0.5,
          "partial_rotary_factor": 0.5, "query_pre_attn_scalar": 128, "max_position_embeddings": 2048,
          "n_positions": 2048, "sliding_window": 256, "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8,
          "moe_num_experts": 8, "no_rope_layers": [1] * (LAYERS - 1) + [0],
          "num_heads": HEADS, "window_size": 256, "attention_types": [[["global", "local"], LAYERS // 2]],
          "global_head_dim": 256, "vocab_size_per_layer_input": 4096, "hidden_size_per_layer_input": 64,
          "short_factor": [1.0] * 64, "long_factor": [1.0] * 64}


def catalogue():
    path = ROOT / "data/models/catalogue.jsonl"
    return {row["name"]: row["config"] for row in map(json.loads, path.read_text().splitlines())}


def enlarged(config):
    """A golden model's config with sizes that memory shows. Heads of keys stay fewer than those of queries."""
    heads = config.get("num_attention_heads", HEADS)

    def larger(fields):
        return {name: larger(value) if isinstance(value, dict) else value if value is None else LARGER.get(name, value)
                for name, value in fields.items()}

    config = larger(config)
    for name in ("num_key_value_heads", "num_kv_heads"):
        if config.get(name) is not None:
            config[name] = 2 if config[name] < heads else HEADS
    if {"num_experts", "num_local_experts"} & config.keys() and "moe_intermediate_size" not in config:
        config["intermediate_size"] = LARGER["moe_intermediate_size"]
    if config.get("layer_types"):
        kinds = config["layer_types"]
        config["layer_types"] = [kinds[i % len(kinds)] for i in range(LAYERS)]
    return config


def golden_configs():
    for path in sorted((ROOT / "tests/golden/families").glob("*/config.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] not in OWN_CODE:
            yield path.parent.name, config


def plan(options, model, config, context, grid=GRID):
    """`model` is what --model takes."""
    words = [options.program, "plan", "--model", model, "--context", str(context), "--card", options.card,
             "--format", "jsonl"]
    for name in ("batch", "dtype", "attention", "checkpoint", "as"):
        words += ["--" + name, ",".join(map(str, grid[name]))]
    if config.get("n_positions", context) < context:
        words += ["--config-override", f"n_positions={context}"]
        config = {**config, "n_positions": context}
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    records = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 and not records:
        raise RuntimeError(run.stderr.strip())
    for record in records:
        if record["status"] != "ok":
            continue
        settings = {name: record[name] for name in NAMES if name != "model"}
        yield {"model": model, **settings, "config": config,
               "predicted": {name: record["memory_bytes"][name] for name in ("peak_allocated", "peak_reserved")}}


def plan_families(options):
    for name, golden in golden_configs():
        config = enlarged(golden)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps(config), encoding="utf-8")
            try:
                rows = [row for context in FAMILIES["context"]
                        for row in plan(options, str(path), config, context, FAMILIES)]
            except RuntimeError as refusal:
                print(f"{name}: {refusal}", file=sys.stderr)
                continue
        yield from ({**row, "model": name} for row in rows
                    if row["checkpoint"] == "none" or (row["dtype"], row["attention"]) == ("bf16", "flash"))


def predict(options):
    if options.families:
        rows = list(plan_families(options))
    else:
        configs = catalogue()
        rows = [row for model in GRID["model"] for context in GRID["context"]
                for row in plan(options, model, configs[model], context)]
    pathlib.Path(options.output).write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} predictions in {options.output}")


def make_model(row):
    import torch
    from transformers import AutoConfig

    from families.transformers import class_of

    fields = dict(row["config"])
    family = fields.pop("model_type")
    config = AutoConfig.for_model(family, **fields)
    config.use_cache = False
    for name, value in list(vars(config).items()):
        if isinstance(value, float) and ("drop" in name or "jitter" in name):
            setattr(config, name, 0.0)
    kind = "sdpa" if row["attention"] == "flash" else "eager"
    with torch.device("cuda"):
        model = class_of(family).from_config(config, attn_implementation=kind, dtype=torch.float32)
    if row["checkpoint"] == "block":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.cuda().train()


def run_steps(row):
    import torch

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
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved()}


def peaks(rows):
    """Prints a line with the peaks of each row, in a process that runs nothing else."""
    import torch
    import transformers

    about = {"torch": torch.__version__, "transformers": transformers.__version__,
             "card": torch.cuda.get_device_name()}
    for row in rows:
        try:
            measured = run_steps(row)
        except torch.cuda.OutOfMemoryError:
            measured = {"peak_allocated": None}
        except Exception as problem:  # of any kind: the other rows are measured too
            measured = {"failed": f"{type(problem).__name__}: {problem}"}
        print(json.dumps({**about, **measured}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()


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
    print("\n| model | rows | measured, MiB | largest error |\n|---|---:|---:|---:|")
    for model in dict.fromkeys(row["model"] for row in rows):
        of_model = [row for row in rows if row["model"] == model]
        sizes = sorted(row["measured"]["peak_allocated"] / 2**20 for row in of_model)
        print(f"| {model} | {len(of_model)} | {sizes[0]:.0f} to {sizes[-1]:.0f} | "
              f"{max(map(error_of, of_model), key=abs):+.2%} |")
    errors = [abs(error_of(row)) for row in rows]
    far = sum(error > tolerance for error in errors)
    print(f"\n{len(errors) - far} of {len(errors)} rows are within {tolerance:.0%}.")
    return 1 if far or not errors else 0


def measured_peaks(rows):
    """The rows with what was measured, in a process of their own."""
    run = subprocess.run([sys.executable, __file__, "peaks"], input=json.dumps(rows), stdout=subprocess.PIPE, text=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    found = [{**row, "measured": json.loads(line)} for row, line in zip(rows, lines)]
    for row in [row for row in found if "failed" in row["measured"]]:
        print(f"failed: {key_of(row)}: {row['measured']['failed']}", file=sys.stderr)
    for row in rows[len(lines):]:
        print(f"failed: {key_of(row)}", file=sys.stderr)
    return [row for row in found if "failed" not in row["measured"]]


def in_processes(rows, share_process):
    groups = {}
    for row in rows:
        groups.setdefault(row["model"] if share_process else key_of(row), []).append(row)
    return list(groups.values())


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
        for found in pool.map(measured_peaks, in_processes(wanted, options.share_process)):
            rows += found
            if kept:
                with kept.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
    missing = len(known) + len(wanted) - len(rows)
    return report(rows, options.tolerance) or (1 if missing else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_predict = commands.add_parser("predict")
    of_predict.add_argument("--output", default="predictions.jsonl")
    of_predict.add_argument("--program", default="build/ridgepoint")
    of_predict.add_argument("--card", default="h200")
    of_predict.add_argument("--families", action="store_true", help="small models of the families, not the grid")
    of_measure = commands.add_parser("measure")
    of_measure.add_argument("predictions")
    of_measure.add_argument("--output", help="keeps the rows, and goes on where it ended")
    of_measure.add_argument("--only", help="models, separated by commas")
    of_measure.add_argument("--jobs", type=int, default=1, help="processes at once; their peaks must fit together")
    of_measure.add_argument("--share-process", action="store_true", help="for all rows of a model; saves its start")
    of_measure.add_argument("--tolerance", type=float, default=0.03, help="default 0.03")
    commands.add_parser("peaks")  # of rows of JSON on stdin
    options = parser.parse_args()
    if options.command == "predict":
        return predict(options)
    return peaks(json.load(sys.stdin)) if options.command == "peaks" else measure(options)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
