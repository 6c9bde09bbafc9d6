"""Graphs: built from text or op by op, compiled, and run on arrays."""

import contextlib
import numbers
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple, Union

from ridgepoint import _core

Program = _core.Program


class Tensor:
    """A value of a graph, which has no elements yet."""

    __slots__ = ("graph", "id")
    __array_priority__ = 1000

    def __init__(self, graph: "Graph", id: int):
        self.graph = graph
        self.id = id

    @property
    def dtype(self) -> str:
        return self.graph._builder.type(self.id)[0]

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.graph._builder.type(self.id)[1]

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})"

    def _with(self, op: str, other: Any, is_reversed: bool = False) -> "Tensor":
        if isinstance(other, numbers.Real):
            other = self.graph.constant(other, self.dtype)
        if not isinstance(other, Tensor):
            return NotImplemented
        operands = (other, self) if is_reversed else (self, other)
        return getattr(self.graph, op)(*operands)

    def __add__(self, other): return self._with("add", other)
    def __radd__(self, other): return self._with("add", other, True)
    def __sub__(self, other): return self._with("sub", other)
    def __rsub__(self, other): return self._with("sub", other, True)
    def __mul__(self, other): return self._with("mul", other)
    def __rmul__(self, other): return self._with("mul", other, True)
    def __truediv__(self, other): return self._with("div", other)
    def __rtruediv__(self, other): return self._with("div", other, True)
    def __matmul__(self, other): return self._with("matmul", other)
    def __neg__(self): return self.graph.neg(self)


class Graph:
    """A static graph. Every op of Ridgepoint is a method, whose operands are tensors and whose keywords are the
    attributes of the op in the text form:

        graph = ridgepoint.Graph()
        x = graph.input("x", "fp32", [4, 8])
        w = graph.parameter("w", "fp32", [8, 2])
        graph.output("y", graph.softmax(x @ w))
        program = graph.compile()
        program["w"] = weights
        y = program(x=array)["y"]

    An op of several results returns a tuple. `Graph(text)` reads the text form, which str(graph) gives.
    """

    def __init__(self, text: Optional[str] = None, *, name: str = "graph"):
        self._builder = _core.GraphBuilder(name) if text is None else _core.GraphBuilder.parse(text)

    def __str__(self) -> str:
        return self._builder.text()

    def __getattr__(self, op: str):
        if op.startswith("_"):
            raise AttributeError(op)

        def add(*operands: Tensor, **attributes: Any) -> Union[Tensor, Tuple[Tensor, ...]]:
            for operand in operands:
                if not isinstance(operand, Tensor) or operand.graph is not self:
                    raise _core.UsageError(f"{op}: {operand!r} is not a tensor of this graph")
            ids = self._builder.add(op, [operand.id for operand in operands], list(attributes.items()))
            made = tuple(Tensor(self, id) for id in ids)
            return made[0] if len(made) == 1 else made

        if op not in _core.ops:
            import difflib

            near = difflib.get_close_matches(op, _core.ops, 1)
            raise AttributeError(f"there is no op '{op}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return add

    def __dir__(self):
        return [*super().__dir__(), *_core.ops]

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Tensor:
        """Data, which every run is given."""
        return Tensor(self, self._builder.input(name, dtype, list(shape), "data"))

    def parameter(self, name: str, dtype: str, shape: Sequence[int]) -> Tensor:
        """A weight, which stays from run to run and has a gradient."""
        return Tensor(self, self._builder.input(name, dtype, list(shape), "parameter"))

    def state(self, name: str, dtype: str, shape: Sequence[int]) -> Tensor:
        """What stays from run to run without a gradient; update() changes it."""
        return Tensor(self, self._builder.input(name, dtype, list(shape), "state"))

    def constant(self, value: float, dtype: str) -> Tensor:
        """A number."""
        is_integer = dtype in ("int64", "int32")
        number = int(value) if is_integer else float(value)
        return Tensor(self, self._builder.add("constant", [], [("value", number), ("dtype", dtype)])[0])

    def output(self, name: str, tensor: Tensor) -> None:
        self._builder.output(name, tensor.id, "result")

    def loss(self, tensor: Tensor, name: str = "loss") -> None:
        """The output whose gradients the modes of training compute: one number."""
        self._builder.output(name, tensor.id, "loss")

    def update(self, state: Tensor, value: Tensor) -> None:
        """After a run, `state` has the value."""
        self._builder.update(state.id, value.id)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes that are made within are of this module, in that of the scopes around it."""
        before = self._builder.scope
        self._builder.scope = f"{before}.{name}" if before else name
        try:
            yield
        finally:
            self._builder.scope = before

    def set_phase(self, phase: str) -> None:
        """The phase of the nodes that follow: "forward" or "loss"."""
        self._builder.set_phase(phase)

    @property
    def inputs(self) -> Dict[str, Tensor]:
        return {name: Tensor(self, id) for name, id in self._builder.inputs()}

    @property
    def outputs(self) -> Dict[str, Tensor]:
        return {name: Tensor(self, id) for name, id in self._builder.outputs()}

    def compile(self, *, device: str = "cpu", mode: str = "forward", dtype: str = "fp32", compile: str = "fuse",
                optimizer: str = "adamw", threads: int = 0) -> Program:
        """A program for a device. The settings are those of the commands: mode "forward", "forward_backward" (the
        gradients are outputs "grad.NAME") or "step" (it updates the parameters)."""
        return Program(self._builder, device, mode, dtype, compile, optimizer, threads)

    def run(self, *, device: str = "cpu", **arrays: Any) -> Dict[str, Any]:
        """Compiles the graph and runs it once: data, parameters and state by name. Use compile() to run it often."""
        program = self.compile(device=device)
        data = {}
        for name, array in arrays.items():
            if name in self.inputs and self._is_kept(name):
                program[name] = array
            else:
                data[name] = array
        return program(**data)

    def _is_kept(self, name: str) -> bool:
        return self._builder.role(name) != "data"
