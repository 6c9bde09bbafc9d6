"""PyTorch itself, which this package imports when something needs it, and the versions that were tried."""

import warnings

# Memory was compared with measured peaks on 2.11. The tests run on 2.6 and 2.14, too.
TRIED = ("2.6", "2.11", "2.14")
OLDEST = (2, 4)


class EstimateError(RuntimeError):
    """Something that cannot be estimated: the sentence says what, where, and what to do."""


def release(version):
    """The two numbers of a version such as 2.11.0+cu130."""
    return tuple(int("".join(character for character in part if character.isdigit()) or 0)
                 for part in version.split("+")[0].split(".")[:2])


def remark_on(version):
    """A sentence where this version of PyTorch was not tried, otherwise None."""
    if ".".join(map(str, release(version))) in TRIED:
        return None
    return (f"PyTorch {version} was not tried; {', '.join(TRIED[:-1])} and {TRIED[-1]} were. What its kernels allocate "
            "may differ from the estimate")


def require_torch():
    """The module torch. Raises ImportError without it, and EstimateError where it is too old."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("ridgepoint.torch runs your step under PyTorch's fake tensors, and PyTorch is not installed; "
                          "install torch (the build for the CPU is enough), or plan the model by its config.json: "
                          "ridgepoint plan --model FILE --as torch") from error
    if release(torch.__version__) < OLDEST:
        raise EstimateError(f"PyTorch {torch.__version__} is too old for an estimate, which needs "
                            f"{'.'.join(map(str, OLDEST))} or later")
    remark = remark_on(torch.__version__)
    if remark:
        warnings.warn(remark, stacklevel=3)
    return torch
