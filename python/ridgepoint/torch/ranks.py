"""Ranks that do not exist: PyTorch's process group "fake", whose collectives take no time and send nothing."""

import contextlib

from . import gpu


@contextlib.contextmanager
def among(count):
    if count == 1:
        yield
        return
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        yield
        return
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    # DistributedDataParallel compares the shapes of parameters among ranks by reading them from the GPU.
    places = [place for place in (dist, dist.utils) if hasattr(place, "_verify_params_across_processes")]
    pairs = [(place, "_verify_params_across_processes", lambda *_: None) for place in places]
    # It times its first iterations by events of CUDA.
    pairs += [(dist.Reducer, "prepare_for_forward", lambda _: None),
              (dist.Logger, "set_runtime_stats_and_log", lambda _: None)]
    try:
        with gpu.replaced(pairs):
            yield
    finally:
        dist.destroy_process_group()
