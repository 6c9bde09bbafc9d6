"""What CUDA kernels allocate beside their results: the table workspaces.def, which `ridgepoint plan --as torch` reads,
and what the names in its expressions stand for in a call of an op."""

import ast
import functools
import operator
import pathlib
import re

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
    return ast.parse(text.replace("&&", " and ").replace("||", " or ").strip(), mode="eval").body


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


# What the names stand for, by op of aten and its arguments.
def _softmax_backward(gradient, result, *_):
    return "softmax_backward", result.element_size(), {"count": result.numel()}


def _embedding_backward(gradient, indices, table_rows, *_):
    count = indices.numel()
    return "embedding_backward", gradient.element_size(), {
        "count": count, "rows": table_rows, "width": gradient.shape[-1], "segments": min(count, table_rows)}


def _attention(op, gradient, q, k, v, forward):
    batch, heads, count, width = q.shape
    copies = [not x.transpose(1, 2).is_contiguous() for x in (gradient, forward)]
    return op, q.element_size(), {"batch": batch, "heads": heads, "key_heads": k.shape[1], "rows": count,
                                  "keys": k.shape[2], "width": width, "is_low": q.element_size() == 2,
                                  "copies_gradient": copies[0], "copies_forward": copies[1]}


OPS = {
    "_softmax_backward_data": _softmax_backward,
    "embedding_dense_backward": _embedding_backward,
    "_scaled_dot_product_flash_attention_backward":
        lambda gradient, q, k, v, forward, *_: _attention("flash_attention_backward", gradient, q, k, v, forward),
    "_scaled_dot_product_efficient_attention_backward":
        lambda gradient, q, k, v, bias, forward, *_: _attention("efficient_attention_backward", gradient, q, k, v, forward),
}
# Ops that ask for a handle of cuBLAS.
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_scaled_mm", "_int_mm",
            "_addmm_activation"}


def of_call(op, args):
    """(name, is_first, bytes) of each block that this call of an op of aten takes."""
    describe = OPS.get(op)
    if describe is None:
        return []
    name, result_bytes, names = describe(*args)
    return list(rows(name, result_bytes, **names))
