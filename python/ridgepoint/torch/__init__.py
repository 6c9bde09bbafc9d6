"""The memory of any training step of PyTorch on a GPU that need not be there, and where the time of a step goes.

    import ridgepoint.torch

    with ridgepoint.torch.fake("h100"):
        model = Model().cuda()
        optimizer = torch.optim.AdamW(model.parameters())

        def step():
            loss = model(torch.randint(50000, (4, 1024), device="cuda")).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        print(ridgepoint.torch.estimate(step))

docs/interfaces/python_torch.md says what is exact and what is assumed.
"""

import contextlib
import os
import tempfile

from . import gpu, program
from .versions import EstimateError, require_torch

__all__ = ["EstimateError", "estimate", "fake", "profile"]

# In the errors of what reads the memory of a tensor, or starts a kernel.
READS_MEMORY = ("data pointer", "data_ptr", ".numpy()", "active driver", "CUDA driver", "CUDA error", "no CUDA")

_current = []  # the recorder of the innermost fake()


@contextlib.contextmanager
def fake(device=None, ranks=1, assume=None):
    """Within, a tensor on "cuda" has no memory, and what PyTorch would ask the allocator for is recorded.

    device   the card: "h100", "rtx 4090", or a size, "80GiB"; without it a Hopper of any size
    ranks    more than 1: torch.distributed is initialised with so many ranks that do not exist; this one is rank 0
    assume   a function of an op and a tensor on the GPU: the value that the step reads from it, or how many of its
             elements are true. None: a float is 0, and anything else is an error
    """
    require_torch()
    from . import ranks as process_groups
    from .recorder import Recorder
    from .recording import recording

    recorder = Recorder(gpu.card(device), assume)
    with recording(recorder), process_groups.among(ranks):
        _current.append(recorder)
        try:
            yield recorder
        finally:
            _current.pop()


def estimate(step, build=None, *, device=None, iterations=2, ranks=1, assume=None, measure=False):
    """What `step` needs on a GPU, as a result.Estimate. Within `fake`, `step` uses what was made there. Outside,
    `build` makes what the step gets as its arguments (a tuple: several), or the step makes everything itself.

    iterations   how often the step runs: the first one also allocates the optimizer's state
    measure      also runs the step on this machine's GPU, if it has one (not within `fake`)
    """
    torch = require_torch()
    if not _current:
        with fake(device, ranks, assume):
            found = estimate(step, build, iterations=iterations)
        if measure:
            from .measure import measure as measured
            found.measured = measured(torch, step, build, iterations)
        return found
    if device is not None or ranks != 1 or assume is not None or measure:
        raise EstimateError("within ridgepoint.torch.fake, device, ranks and assume are arguments of fake; measure "
                            "needs an estimate outside of it")
    from .measure import arguments
    from .result import Estimate

    recorder = _current[-1]
    made = arguments(build)
    for module in made:
        if isinstance(module, torch.nn.Module):
            recorder.name_modules(module)
    for _ in range(iterations):
        recorder.iteration += 1
        _run(recorder, step, made)
        recorder.mark_known()
    return Estimate(recorder, torch.__version__, iterations)


def _run(recorder, step, made):
    recorder.show_phase(None)
    recorder.annotations.append(("step", "START", len(recorder.events)))
    try:
        step(*made)
    except EstimateError:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if any(text in message for text in READS_MEMORY):
            message += (". A fake tensor has no memory to read: leave out what needs values on the CPU, and make a "
                        "kernel that is called without PyTorch's dispatcher (Triton, pybind11) an op with "
                        "torch.library.custom_op and register_fake")
        op = f" after {recorder.failed_op}" if recorder.failed_op is not None else ""
        raise EstimateError(f"the step failed under fake tensors{op}: {message}") from error
    recorder.show_phase(None)
    recorder.annotations.append(("step", "END", len(recorder.events)))


def profile(step, *, warmup=3, steps=3, words=()):
    """Where the time of `step` goes: PyTorch's profiler around it, read by `ridgepoint trace`. Returns the documents
    that --format json prints. `words`: more arguments of `ridgepoint trace`, such as ("--by", "scope")."""
    torch = require_torch()
    from torch.profiler import ProfilerActivity, schedule

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    plan = schedule(wait=0, warmup=warmup, active=steps, repeat=1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        with torch.profiler.profile(activities=activities, schedule=plan, record_shapes=True, with_stack=False,
                                    on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
            for _ in range(warmup + steps):
                step()
                profiler.step()
        return program.documents("trace", path, *words)
