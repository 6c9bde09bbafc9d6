#!/usr/bin/env python3
"""Plans the runs of records again, without the GPU that ran them, and compares the memory to the byte.

    ridgepoint bench --device cuda ... --format jsonl --output rows.jsonl     on a machine with the GPU
    tools/predictions/compare_plan.py --card h200 rows.jsonl                  anywhere

Prints each run whose peak allocated, peak reserved or before backward differs from `ridgepoint plan`, and how many runs
agree. With --card, runs on several ranks also have a line with the median of the slowest rank beside the predicted time;
--network names their links, as plan takes it. Runs that failed, runs with a memory limit, whose allocator makes room as
it goes, and runs of a config.json that is not in the catalogue as it is are left out. The exit code is 1 if one differs.
`plan` takes as many iterations as it needs until memory repeats; a run of few may take less.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = ("peak_allocated", "peak_reserved", "before_backward")
SAME_NAME = ("batch", "context", "mode", "dtype", "compile", "allocator", "attention", "checkpoint")
SIZES = ("layers", "d_model", "d_ff", "heads", "vocab")


def model_words(model):
    if model["family"]:
        return ["--model", model["name"]]
    return [word for name in SIZES for word in ("--" + name.replace("_", "-"), str(model[name]))]


def training_words(record):
    """How the run trains, where it is not as plan trains without options."""
    words = []
    if record["mode"] in ("forward_backward", "backward", "step"):
        words += ["--loss-chunk", str(record["loss_chunk_rows"] or "off"), "--accumulate", str(record["accumulate"])]
    if record["mode"] == "step":
        words += ["--optimizer", record["optimizer"], "--weight-decay", str(record["weight_decay"])]
    if record["momentum"]:
        words += ["--momentum", str(record["momentum"])]
    if not record["master_weights"]:
        words += ["--master-weights", "off"]
    if record["frozen"]:
        words += ["--frozen", ",".join(record["frozen"])]
    return words + (["--lora", record["lora"]] if record["lora"] else [])


def rank_words(parallel, options):
    if parallel["data"] is None:
        return []
    overlap = "off" if parallel.get("overlap") is False else "on"
    keys = {"data": parallel["data"], "bucket": parallel["bucket_bytes"], "reduce": parallel["reduce_dtype"] or "auto",
            "overlap": overlap}
    words = ["--parallel", ",".join(f"{key}={value}" for key, value in keys.items()), "--shard", parallel["shard"]]
    return words + (["--network", options.network] if options.network else [])


def plan_of(record, options):
    """The record of the plan; None where the model of the run is not known."""
    words = [options.program, "plan", "--format", "json"] + (["--card", options.card] if options.card else [])
    for name in SAME_NAME:
        words += ["--" + name, str(record[name])]
    words += model_words(record["model"]) + training_words(record) + rank_words(record["parallel"], options)
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if result.returncode != 0 and record["model"]["family"]:
        return None
    if result.returncode != 0:
        sys.exit(result.stderr)
    plan = json.loads(result.stdout)[0]
    return plan if plan["model"]["parameters"] == record["model"]["parameters"] else None


def differences(plan, run):
    return [f"{name} {run[name]}, planned {plan[name]}" for name in FIGURES if plan[name] != run[name]]


def name_of(record):
    words = [record["model"]["name"], *(str(record[name]) for name in SAME_NAME)]
    parallel = record["parallel"]
    if parallel["data"] is not None:
        words.append(f"{parallel['data']} ranks, sharded {parallel['shard']}")
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", help="files of records, JSON Lines")
    parser.add_argument("--card", help="the GPU of the records, as plan takes it (default: this machine's processor)")
    parser.add_argument("--network", help="the links between ranks")
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"), help="default: build/ridgepoint")
    options = parser.parse_args()
    agree = differ = 0
    for path in options.records:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["status"] != "ok" or record["engine"] != "ridgepoint":
                continue
            if record["device"]["memory_limit_bytes"] is not None:
                continue
            plan = plan_of(record, options)
            if plan is None:
                print(f"{name_of(record)}: not the model of that name; left out")
                continue
            found = differences(plan["memory_bytes"], record["memory_bytes"])
            agree, differ = agree + (not found), differ + bool(found)
            if found:
                print(f"{name_of(record)}: {'; '.join(found)}")
            slowest_ms = record["parallel"]["slowest_ms"]
            if slowest_ms and plan["predicted_ms"]:
                error = plan["predicted_ms"] / slowest_ms - 1
                print(f"{name_of(record)}: {slowest_ms:.4g} ms, predicted {plan['predicted_ms']:.4g} ({error:+.1%})")
    print(f"{agree} runs agree to the byte, {differ} differ.")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
