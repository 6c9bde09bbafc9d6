"""What CUDA kernels allocate beside their results: the table workspaces.def, which `ridgepoint plan --as torch` reads,
and what the names in its expressions stand for in a call of an op."""

import ast
import functools
import operator
import pathlib
import re

from . import launch

# Beside this file where the package is installed, otherwise in the source.
PLACES = (pathlib.Path(__file__).with_name("workspaces.def"),
          pathlib.Path(__file__).resolve().parents[3] / "src/predict/torch/functions/workspaces.def")
BYTES = {"uint8": 1, "int32": 4, "int64": 8, "fp32": 4}
BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv}
COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
               ast.Gt: operator.gt, ast.GtE: operator.ge}


def round_up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


FUNCTIONS = {"round_up": round_up, "min": min, "max": max}


def evaluate(node, names):
    """The value of an expression of the table: what both C++ and Python mean by it, and nothing else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return True if node.id == "true" else names[node.id]
    if isinstance(node, ast.BinOp):
        return BINARY[type(node.op)](evaluate(node.left, names), evaluate(node.right, names))
    if isinstance(node, ast.BoolOp):
        values = (evaluate(value, names) for value in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare):
        return COMPARISONS[type(node.ops[0])](evaluate(node.left, names), evaluate(node.comparators[0], names))
    if isinstance(node, ast.Call):
        return FUNCTIONS[node.func.id](*(evaluate(argument, names) for argument in node.args))
    raise ValueError(f"workspaces.def: an expression has {ast.dump(node)}")


def expression(text):
    return ast.parse(" ".join(text.replace("&&", " and ").replace("||", " or ").split()), mode="eval").body


def arguments(text):
    """Splits at the commas that are in no parentheses."""
    depth, parts = 0, [""]
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def parse(text):
    """The rows of each op: (name, is_first, element type, condition, number of elements)."""
    table = {}
    for op, row in re.findall(r"^TORCH_(\w+)\((.*?)\)$", text, re.MULTILINE | re.DOTALL):
        name, order, dtype, condition, elements = arguments(row)
        table.setdefault(op.lower(), []).append(
            (name, order == "first", dtype, expression(condition), expression(elements)))
    return table


@functools.lru_cache(maxsize=None)
def table():
    return parse(next(place for place in PLACES if place.exists()).read_text(encoding="utf-8"))


def rows(op, result_bytes, **names):
    """(name, is_first, bytes) of each block that the op takes. `result_bytes`: of an element of its result."""
    for name, is_first, dtype, condition, elements in table()[op]:
        if evaluate(condition, names):
            yield name, is_first, evaluate(elements, names) * BYTES.get(dtype, result_bytes)


def cublas_bytes(capability):
    return next(size for _, _, size in rows("cublas", 1, capability=capability))


# What the names stand for in a call of an op of aten: (op of the table, bytes of an element of the result, names).
def _softmax_backward(gradient, result, *_):
    yield "softmax_backward", result.element_size(), {"count": result.numel()}


def _embedding_backward(gradient, indices, table_rows, *_):
    count = indices.numel()
    yield "embedding_backward", gradient.element_size(), {
        "count": count, "rows": table_rows, "width": gradient.shape[-1], "segments": min(count, table_rows)}


def _attention_backward(op, gradient, q, k, forward, copies=None):
    batch, heads, count, width = q.shape
    if copies is None:
        copies = [not x.transpose(1, 2).is_contiguous() for x in (gradient, forward)]
    yield op, q.element_size(), {"batch": batch, "heads": heads, "key_heads": k.shape[1], "rows": count,
                                 "keys": k.shape[2], "width": width, "is_low": q.element_size() == 2,
                                 "copies_gradient": copies[0], "copies_forward": copies[1]}


def _flash_backward(gradient, q, k, v, forward, *_):
    return _attention_backward("flash_attention_backward", gradient, q, k, forward)


def _efficient_backward(gradient, q, k, v, bias, forward, *_):
    return _attention_backward("efficient_attention_backward", gradient, q, k, forward)


def _cudnn_backward(gradient, q, k, v, forward, *_):
    return _attention_backward("cudnn_attention_backward", gradient, q, k, forward,
                               [gradient.stride() != forward.stride(), False])


def _layer_norm_backward(gradient, x, *_):
    yield "layer_norm_backward", gradient.element_size(), {
        "copies_gradient": not gradient.is_contiguous(), "copies_input": not x.is_contiguous(), "count": x.numel()}


def _reduction(x, axes=None, *_):
    if axes is not None and not isinstance(axes, (int, list, tuple)):
        axes = None
    names = launch.reduction(x.shape, x.stride(), axes)
    if names is not None:
        yield "reduction", max(4, x.element_size()) if x.dtype.is_floating_point else 8, names


def _norm(x, order=2, axes=None, *_):
    return _reduction(x, axes)


def _dimensions(x, dim=None, *_):
    return _reduction(x, dim)


def _convolution_names(x, output_shape, weight):
    multiple = max(1, 16 // x.element_size())

    def padded(shape):
        count = round_up(shape[1], multiple)
        for extent in (shape[0], *shape[2:]):
            count *= extent
        return count

    is_last = any(_is_channels_last(tensor) for tensor in (x, weight))
    return {"input": padded(x.shape), "output": padded(output_shape), "weight": padded(weight.shape),
            "copies_input": is_last and not _is_channels_last(x),
            "transposes": not is_last and max(weight.shape[2:]) > 1, "is_low": x.element_size() == 2,
            "pads": is_last and x.shape[1] % multiple != 0}


def _is_channels_last(x):
    import torch

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.dim() in formats and x.is_contiguous(memory_format=formats[x.dim()]) and not x.is_contiguous()


def _convolution(x, weight, bias, stride, padding, dilation, is_transposed, *_):
    if is_transposed or x.dim() not in (4, 5):
        return
    extents = [(size + 2 * pad - step * (kernel - 1) - 1) // by + 1 for size, pad, step, kernel, by in
               zip(x.shape[2:], padding, dilation, weight.shape[2:], stride)]
    yield "convolution", x.element_size(), _convolution_names(x, [x.shape[0], weight.shape[0], *extents], weight)


def _convolution_backward(gradient, x, weight, bias_sizes, stride, padding, dilation, is_transposed, output_padding,
                          groups, wanted):
    if not is_transposed and x.dim() in (4, 5):
        names = _convolution_names(x, gradient.shape, weight)
        is_last = any(_is_channels_last(tensor) for tensor in (x, weight))
        names["copies_gradient"] = not (_is_channels_last(gradient) or not is_last and gradient.is_contiguous())
        yield "convolution_backward", x.element_size(), names
    if wanted[2]:  # the gradient of the bias is a sum
        yield from _reduction(gradient, [axis for axis in range(gradient.dim()) if axis != 1])


OPS = {
    "_softmax_backward_data": _softmax_backward,
    "embedding_dense_backward": _embedding_backward,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "native_layer_norm_backward": _layer_norm_backward,
    "convolution": _convolution, "convolution_backward": _convolution_backward,
    "sum": _reduction, "mean": _reduction, "amax": _dimensions, "amin": _dimensions, "var": _dimensions,
    "std": _dimensions, "linalg_vector_norm": _norm,
}
# Ops that ask for a handle of cuBLAS.
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_scaled_mm", "_int_mm",
            "_addmm_activation"}


def of_call(op, args):
    """What this call of an op of aten takes: lists of (name, is_first, bytes), one after the other."""
    describe = OPS.get(op)
    try:
        return [] if describe is None else [list(rows(*found[:2], **found[2])) for found in describe(*args)]
    except TypeError:  # given by keywords
        return []
