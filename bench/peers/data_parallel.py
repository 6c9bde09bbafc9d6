"""Steps of data parallel training in PyTorch, as a peer of tools/measure_ranks.py, on the GPUs of one host:

    torchrun --nproc-per-node 4 bench/peers/data_parallel.py --models small,large --kinds ddp,fsdp

Prints a line of JSON for each row: model, kind (alone: no other rank; ddp: DistributedDataParallel; fsdp: fully_shard, a
block at a time; alone_whole and ddp_whole: the model compiled as one), the slowest rank's median step in ms, and the peak of
allocated bytes. Steps are those of `ridgepoint bench --dtype bf16`: bf16 autocast (fsdp: bf16 parameters, fp32 reduction),
fp32 masters, fused AdamW. The other kinds compile each block and the loss, as torchtitan does. The course's models are those
of bench/peers/pytorch; gpt2 (without dropout) and llama-3.2-1b need transformers.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import sys
import time

import torch
from torch import distributed
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "pytorch"))
from model import Transformer  # noqa: E402

VOCABULARY = 10000
# Batch and context are those of measure_ranks.py.
COURSE = {"small": ((16, 512), (12, 768, 3072, 12)), "large": ((16, 512), (36, 1280, 5120, 20)), "xl": ((8, 512), (48, 1600, 6400, 25))}
class WithLogits(torch.nn.Module):
    """transformers' model as one that returns logits alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens).logits


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                                         intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True,
                                         max_position_embeddings=8192, attn_implementation="sdpa", use_cache=False))
    return WithLogits(model), model.model.layers, 128256


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa",
                                       use_cache=False))
    return WithLogits(model), model.transformer.h, 50257


TRANSFORMERS = {"llama-3.2-1b": ((4, 2048), llama), "gpt2": ((32, 1024), gpt2)}


def course(name, context, device):
    layers, width, inner, heads = COURSE[name][1]
    sizes = {"layers": layers, "d_model": width, "d_ff": inner, "heads": heads, "vocab": VOCABULARY, "context": context}
    model = Transformer(sizes, "sdpa", device)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02) if parameter.dim() == 2 else torch.nn.init.ones_(parameter)
    return model, model.layers, VOCABULARY


def measure(name, kind, device, steps):
    torch.manual_seed(0)
    (batch, context), make = {**COURSE, **TRANSFORMERS}[name]
    model, blocks, vocabulary = make() if name in TRANSFORMERS else course(name, context, device)
    model.to(device)
    for block in [] if kind.endswith("whole") else blocks:
        block.compile()
    if kind == "fsdp":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    elif kind.startswith("ddp"):
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if kind.endswith("whole"):
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, vocabulary, (batch, context), device=device)
    loss_of = torch.compile(lambda logits: functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()))

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=kind != "fsdp"):
            logits = model(tokens)
        loss_of(logits).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(steps):
        distributed.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    slowest = torch.tensor(statistics.median(times), device=device)
    distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
    return {"model": name, "batch": batch, "context": context, "kind": kind, "ranks": distributed.get_world_size(),
            "step_ms": slowest.item() * 1e3, "peak_bytes": torch.cuda.max_memory_allocated()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="small,large,xl,llama-3.2-1b")
    parser.add_argument("--kinds", default="alone,ddp,fsdp")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl", device_id=device)
    for name in options.models.split(","):
        for kind in options.kinds.split(","):
            row = measure(name, kind, device, options.steps)
            if distributed.get_rank() == 0:
                print(json.dumps(row), flush=True)
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
