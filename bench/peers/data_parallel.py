"""Steps of data parallel training in PyTorch, as a peer of tools/predictions/measure_ranks.py, on the GPUs of one host:

    torchrun --nproc-per-node 4 bench/peers/data_parallel.py --models small,large --kinds ddp,fsdp

Prints a line of JSON for each row: model, kind, the slowest rank's median step in ms, and the peak of allocated bytes.

    alone                   no other rank
    ddp                     DistributedDataParallel
    fsdp                    fully_shard, a block at a time
    alone_whole, ddp_whole  the model compiled as one; the other kinds compile each block and the loss, as torchtitan does
    offload                 fully_shard with CPUOffloadPolicy: parameters, gradients and states are in the host's memory,
                            where the optimizer runs
    lora                    adapters of q_proj and v_proj by peft, r = 16, in fp32 beside frozen bf16 weights; of the Llamas

Steps are those of `ridgepoint bench --dtype bf16`: bf16 autocast (fsdp and offload: bf16 parameters, fp32 reduction), fp32
masters, fused AdamW. The course's models are those of bench/peers/pytorch; gpt2 (without dropout) and the Llamas need
transformers. --recompute checkpoints each block; --weights bf16 keeps weights, gradients and states in bf16, for a host
without room for fp32.
"""

import argparse
import functools
import gc
import json
import os
import pathlib
import statistics
import sys
import time

import torch
from torch import distributed
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "pytorch"))
from model import Transformer  # noqa: E402

VOCABULARY = 10000
# Batch and context of models that measure_ranks.py has are its own.
COURSE = {"small": ((16, 512), (12, 768, 3072, 12)), "large": ((16, 512), (36, 1280, 5120, 20)),
          "xl": ((8, 512), (48, 1600, 6400, 25))}
class WithLogits(torch.nn.Module):
    """transformers' model as one that returns logits alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens).logits


def llama(width, layers, inner, tied):
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=32,
                                         num_key_value_heads=8, intermediate_size=inner, vocab_size=128256,
                                         tie_word_embeddings=tied, max_position_embeddings=8192,
                                         attn_implementation="sdpa", use_cache=False))
    return WithLogits(model), model.model.layers, 128256


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa",
                                       use_cache=False))
    return WithLogits(model), model.transformer.h, 50257


TRANSFORMERS = {"llama-3.2-1b": ((4, 2048), lambda: llama(2048, 16, 8192, True)),
                "llama-3.1-8b": ((2, 4096), lambda: llama(4096, 32, 14336, False)), "gpt2": ((32, 1024), gpt2)}


def course(name, context, device):
    layers, width, inner, heads = COURSE[name][1]
    sizes = {"layers": layers, "d_model": width, "d_ff": inner, "heads": heads, "vocab": VOCABULARY, "context": context}
    model = Transformer(sizes, "sdpa", device)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02) if parameter.dim() == 2 else torch.nn.init.ones_(parameter)
    return model, model.layers, VOCABULARY


def of_transformers(make, home, dtype):
    """The model with values that are made on the card, a parameter at a time, wherever it is kept."""
    with torch.device("meta"):
        model, blocks, vocabulary = make()
    model.to(dtype).to_empty(device=home)
    for parameter in model.parameters():
        made = torch.randn(parameter.shape, device="cuda") * 0.02 if parameter.dim() > 1 else torch.ones(parameter.shape)
        parameter.data.copy_(made)
    model.model.tie_weights()
    body = model.model.model
    body.rotary_emb = type(body.rotary_emb)(body.config).to("cuda")  # its table is no parameter
    return model, blocks, vocabulary


def with_adapters(model):
    from peft import LoraConfig, get_peft_model
    model.model = get_peft_model(model.model, LoraConfig(r=16, lora_alpha=16, target_modules=["q_proj", "v_proj"]))


def measure(name, kind, device, options):
    torch.manual_seed(0)
    (batch, context), make = {**COURSE, **TRANSFORMERS}[name]
    batch, context = options.batch or batch, options.context or context
    dtype = torch.bfloat16 if kind == "lora" or options.weights == "bf16" else torch.float32
    if name in COURSE:
        model, blocks, vocabulary = course(name, context, device)
        model.to(dtype)
    elif name == "gpt2":
        model, blocks, vocabulary = make()
        model.to(device, dtype)
    else:
        model, blocks, vocabulary = of_transformers(make, "cpu" if kind == "offload" else device, dtype)
    if kind == "lora":
        with_adapters(model)
    for block in blocks if options.recompute else []:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    for block in [] if kind.endswith("whole") else blocks:
        block.compile()
    if kind in ("fsdp", "offload"):
        policy = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=dtype),
                  "offload_policy": CPUOffloadPolicy() if kind == "offload" else OffloadPolicy()}
        for block in blocks:
            fully_shard(block, **policy)
        fully_shard(model, **policy)
    elif kind.startswith("ddp"):
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if kind.endswith("whole"):
        model = torch.compile(model)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], fused=True)
    tokens = torch.randint(0, vocabulary, (batch, context), device=device)
    loss_of = torch.compile(lambda logits: functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()))

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=kind not in ("fsdp", "offload")):
            logits = model(tokens)
        loss_of(logits).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(options.warmup):
        step()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.steps):
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
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--batch", type=int, help="default: that of the model")
    parser.add_argument("--context", type=int, help="default: that of the model")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--weights", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl", device_id=device)
    for name in options.models.split(","):
        for kind in options.kinds.split(","):
            row = measure(name, kind, device, options)
            if distributed.get_rank() == 0:
                print(json.dumps(row), flush=True)
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
