"""The peaks of a step on this machine's GPU."""

import gc


def arguments(build):
    """What a step gets: a tuple that `build` returns is several arguments."""
    made = build() if build is not None else ()
    return made if isinstance(made, tuple) else () if made is None else (made,)


def measure(torch, step, build, iterations):
    """Builds and runs the step for real. Raises nothing of its own; without a GPU the result is None."""
    if not torch.cuda.is_available():
        return None
    gc.collect()
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    made = arguments(build)
    for _ in range(iterations):
        step(*made)
    torch.cuda.synchronize()
    return {"peak_allocated": torch.cuda.max_memory_allocated() - before[0],
            "peak_reserved": torch.cuda.max_memory_reserved() - before[1], "card": torch.cuda.get_device_name()}
