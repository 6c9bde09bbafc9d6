"""How PyTorch's kernels for reductions divide their work among blocks of threads: setReduceConfig() of
aten/src/ATen/native/cuda/Reduce.cuh, for types of up to 8 bytes on a GPU of 132 multiprocessors unless told."""

WARP, MOST_THREADS, THREADS_OF_A_MULTIPROCESSOR = 32, 512, 2048
LEAST_VALUES, MOST_VALUES, VECTOR = 16, 256, 4
multiprocessors = 132


def _up(value, divisor):
    return -(-value // divisor)


def _power(value, most):
    return 1 << (value.bit_length() - 1) if value < most else most


def reduction(shape, strides, axes=None):
    """{outputs, blocks, lanes, grid} of a reduction over these axes (all without), or None where there is none."""
    count = len(shape)
    axes = range(count) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
    reduced = {axis % count for axis in axes} if count else set()
    axes_of = sorted((strides[axis], shape[axis], axis in reduced) for axis in range(count) if shape[axis] != 1)
    inner = [(stride, size) for stride, size, is_reduced in axes_of if is_reduced]
    outer = [(stride, size) for stride, size, is_reduced in axes_of if not is_reduced]
    outputs = inputs = 1
    for _, size in inner:
        inputs *= size
    for _, size in outer:
        outputs *= size
    if inputs <= 1 or outputs == 0:
        return None
    is_fastest = not outer or inner[0][0] < outer[0][0]
    is_dense = (inner if is_fastest else outer)[0][0] == 1
    width, height = (inputs, outputs) if is_fastest else (outputs, inputs)
    vector = 1
    if is_dense and is_fastest and width > 128 and not outer and _is_one_run(inner):
        width //= VECTOR
    elif is_dense and not is_fastest:
        vector = VECTOR
        steps = [outer[0][1]] + [stride for stride, _ in (*inner, *outer[1:])]
        while any(step % vector for step in steps):
            vector //= 2
        width //= vector
    most = MOST_THREADS // vector
    width_power, height_power = _power(max(width, 1), most), _power(max(height, 1), most)
    block_width = min(width_power, WARP)
    block_height = min(height_power, most // block_width)
    block_width = min(width_power, most // block_height)
    step_input, step_output = (block_width, 1) if is_fastest else (1, block_width)
    values = _up(inputs, step_input)
    splits_rows = values >= block_height * 16 or values >= MOST_VALUES
    if splits_rows:
        step_input *= block_height
    else:
        step_output *= block_height
    values = _up(inputs, step_input)
    grid = _up(outputs // vector, step_output)
    target = multiprocessors * (THREADS_OF_A_MULTIPROCESSOR // (block_width * block_height))
    blocks = 1
    if splits_rows and values >= MOST_VALUES and grid <= target:
        blocks = max(min(_up(target, grid), _up(values, LEAST_VALUES)), _up(values, MOST_VALUES))
    lanes = 1 if is_fastest else block_width * vector
    return {"outputs": outputs, "blocks": blocks, "lanes": lanes, "grid": grid}


def _is_one_run(axes):
    """Whether neighbours continue one another."""
    return all(stride * size == following for (stride, size), (following, _) in zip(axes, axes[1:]))
