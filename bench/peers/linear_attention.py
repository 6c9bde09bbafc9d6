"""Times linear attention in PyTorch: the chunked forms composed of its own ops, eager and by torch.compile, and the Triton
kernels of fla and mamba_ssm where they are installed. The layers are those of bench/hand_written_kernel_times.cpp
(`hand_written_kernel_times linear_attention`): 8,192 tokens in bf16, decays in fp32.

    python3 bench/peers/linear_attention.py [eager,torch.compile,triton [TOKENS_OF_A_CHUNK]]

A chunk has 64 tokens unless said otherwise. Compiling 128 chunks takes minutes, 32 chunks of 256 tokens fewer. One line
each: milliseconds of forward, and of forward with backward (medians of 9), and the MiB at the peak above the operands."""

import statistics
import sys

import torch

TOKENS = 8192
CHUNK = int(sys.argv[2]) if len(sys.argv) > 2 else 64
LAYERS = {"Qwen3-Next": (16, 32, 128, 128, True), "Nemotron-H 8B": (8, 128, 128, 64, False)}


def chunked(q, k, v, g, beta, scale, delta):
    """q and k [B,N,S,Dk], v [B,H,S,Dv], g and beta [B,H,S]; products in the type of v, the state in fp32."""
    group = v.shape[1] // k.shape[1]
    q, k = (x.repeat_interleave(group, 1).unflatten(2, (-1, CHUNK)) for x in (q, k))
    v, g, beta = (x.unflatten(2, (-1, CHUNK)) for x in (v, g, beta))
    sums = g.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=v.device).tril()
    decay = torch.where(lower, (sums[..., :, None] - sums[..., None, :]).masked_fill(~lower, 0).exp(), 0)
    scores = (q @ k.mT).float() * decay
    if delta:
        a = ((k @ k.mT).float() * decay).tril(-1) * beta[..., None, :]
        eye = torch.eye(CHUNK, device=v.device)
        inverse = torch.linalg.solve_triangular(a + eye, eye.expand_as(a), upper=False, unitriangular=True).to(v.dtype)
    factor, to_end = sums.exp()[..., None], (sums[..., -1:] - sums).exp()[..., None]
    state = torch.zeros(*v.shape[:2], k.shape[-1], v.shape[-1], device=v.device)
    results = []
    for i in range(v.shape[2]):
        own, w = state.to(v.dtype), v[:, :, i]
        if delta:
            w = inverse[:, :, i] @ (w - factor[:, :, i] * (k[:, :, i] @ own)).to(v.dtype)
        u = w * beta[:, :, i, :, None]
        o = factor[:, :, i] * (q[:, :, i] @ own) + scores[:, :, i].to(v.dtype) @ u.to(v.dtype)
        results.append((scale * o).to(v.dtype))
        state = state * factor[:, :, i, -1:] + k[:, :, i].mT @ (to_end[:, :, i] * u).to(v.dtype)
    return torch.stack(results, 2).flatten(2, 3)


def triton_kernel(delta):
    """The same arguments by a library's kernel; None where it is not installed."""
    try:
        if delta:
            from fla.ops.gated_delta_rule import chunk_gated_delta_rule

            def run(q, k, v, g, beta, scale, _):
                group = v.shape[1] // k.shape[1]
                q, k = (x.repeat_interleave(group, 1) for x in (q, k))
                rows = [x.transpose(1, 2) for x in (q, k, v, g, beta)]
                return chunk_gated_delta_rule(*rows[:3], g=rows[3], beta=rows[4], scale=scale)[0].transpose(1, 2)
        else:
            from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

            def run(q, k, v, g, beta, _, __):
                c, b, x, dt = (rows.transpose(1, 2) for rows in (q, k, v, beta))
                a = -torch.ones(x.shape[2], device=x.device)
                return mamba_chunk_scan_combined(x, dt, a, b, c, chunk_size=256).transpose(1, 2)
        return run
    except ImportError:
        return None


def measure(run, operands, gradient):
    def step(backward):
        o = run(*operands)
        if backward:
            torch.autograd.grad(o, operands[:5], gradient, allow_unused=True)

    line = []
    for backward in (False, True):
        step(backward)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(9):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step(backward)
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        line.append(f"{statistics.median(times):9.3f} ms {peak:8.0f} MiB")
    return "   ".join(line)


def main():
    torch.manual_seed(1)
    print(torch.cuda.get_device_name(), torch.__version__)
    for model, (key_heads, heads, key_width, width, delta) in LAYERS.items():
        def rows(count, size, factor):
            made = factor * torch.randn(1, TOKENS, count, size, device="cuda", dtype=torch.bfloat16)
            return made.transpose(1, 2).requires_grad_()

        q, k, v = rows(key_heads, key_width, 1), rows(key_heads, key_width, key_width**-0.5), rows(heads, width, 1)
        beta = torch.rand(1, heads, TOKENS, device="cuda").requires_grad_()
        g = (-0.1 * torch.rand(1, heads, TOKENS, device="cuda")).requires_grad_()
        operands = (q, k, v, g, beta, key_width**-0.5, delta)
        ways = {"eager": chunked, "torch.compile": torch.compile(chunked), "triton": triton_kernel(delta)}
        for way, run in ways.items():
            if run is not None and (len(sys.argv) < 2 or way in sys.argv[1].split(",")):
                print(f"{model:14} {way:14}", measure(run, operands, torch.randn_like(v)), flush=True)


if __name__ == "__main__":
    main()
