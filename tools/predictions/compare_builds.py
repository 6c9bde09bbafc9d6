#!/usr/bin/env python3
"""Checks that two builds of the program predict the same, to the byte: with a CUDA toolkit and without, for instance.

    tools/predictions/compare_builds.py build/ridgepoint build-nocuda/ridgepoint

Both plan the same lists of models, cards, number types, compile levels, attention, ways to train and shardings. What
they print must be equal but for the time of day and the commit. Prints each command whose results differ, with the first
difference, and the number of plans that agree. The exit code is 1 if one differs.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARDS = "t4,a100,a10,l4,l40s,rtx 4090,h100,h100 pcie,h20,h200,rtx 5090,b200"
FAST = ["--dtype", "bf16", "--compile", "full", "--attention", "flash"]
RANKS = ["--model", "small", "--card", "a100,h100,h200", *FAST]
STEP = ["--model", "tiny", "--card", "a100,h100"]

COMMANDS = [
    ["--model", "tiny", "--card", "a100,rtx 4090,h200,b200", "--dtype", "fp32,tf32,bf16,fp16,fp8",
     "--compile", "off,fuse,full", "--attention", "naive,composite,softmax,weights,recompute,flash"],
    ["--model", "small,2.7b", "--card", CARDS, *FAST],
    ["--model", "medium", "--card", CARDS, "--context", "1024", "--dtype", "fp32,bf16"],
    [*STEP, "--mode", "forward,training_forward,forward_backward,step", "--checkpoint", "none,attention,selective,block"],
    ["--model", "tiny", "--dtype", "fp32,bf16", "--compile", "off,full"],  # of this machine's processor
    ["--model", "2.7b", "--card", "a100,h100", *FAST, "--context", "1024", "--fit", "batch"],
    ["--model", "2.7b", "--card", "l4,h100", *FAST, "--context", "1024", "--checkpoint", "auto"],
    ["--model", "llama-3.2-1b", "--card", "h100", "--dtype", "bf16", "--as", "ridgepoint,torch,torch-fused"],
    [*STEP, "--optimizer", "adamw-8bit"],
    [*STEP, "--optimizer", "sgd", "--momentum", "0.9"],
    [*STEP, "--dtype", "bf16", "--master-weights", "off"],
    [*STEP, "--accumulate", "2", "--loss-chunk", "64"],
    [*STEP, "--lora", "r=4,targets=q_proj,w1"],
    [*RANKS, "--parallel", "data=8", "--shard", "none,optimizer,gradients,parameters,auto"],
    [*RANKS, "--parallel", "data=8,bucket=auto", "--shard", "none,auto", "--network", "8x PCIe 20 GB/s"],
    *(["--model", str(config), "--card", "a100,h200", "--dtype", "fp32,bf16", "--compile", "off,full",
       "--attention", "composite,flash", "--context", "10"] for config in sorted(ROOT.glob("tests/golden/families/*/config.json"))),
]
# Facts of a run and of a commit, not of a plan.
OTHER_FACTS = re.compile(r'("(?:timestamp|revision)":")[^"]*')


def planned(program, words):
    """The exit code, what was printed, and the warnings of a plan."""
    ran = subprocess.run([program, "plan", *words, "--format", "json"], capture_output=True, text=True, check=False)
    return ran.returncode, OTHER_FACTS.sub(r"\1", ran.stdout), ran.stderr


def first_difference(left, right):
    at = next((i for i, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))
    return f"  {left[max(at - 60, 0):at + 60]}\n  {right[max(at - 60, 0):at + 60]}"


def compare(programs, commands):
    """The number of plans that agree, and a text for each command whose results differ."""
    agree, faults = 0, []
    for words in commands:
        left, right = (planned(program, words) for program in programs)
        if left == right and left[0] == 0:
            agree += len(json.loads(left[1]))
            continue
        which = next((i for i in range(3) if left[i] != right[i]), 2)
        problem = first_difference(str(left[which]), str(right[which])) if left != right else f"  both fail: {left[2]}"
        faults.append(f"plan {' '.join(words)}\n{problem}")
    return agree, faults


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: compare_builds.py PROGRAM PROGRAM")
    agree, faults = compare(sys.argv[1:], COMMANDS)
    for fault in faults:
        print(fault)
    print(f"{agree} plans agree, {len(faults)} commands differ")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
