"""Runs PyTorch's own code on tensors without memory, and records each storage on the GPU: when it is made and when it
is released, by which op, in which module, phase and line."""

import contextlib
import os
import sys
import weakref

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from . import attention, gpu, snapshot_file, workspaces
from .versions import EstimateError

aten = torch.ops.aten
SDPA = torch._C._nn.scaled_dot_product_attention
FAKE = torch._C._TorchDispatchModeKey.FAKE
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
MOST_FRAMES = 24

# Tensors on the CPU are real, so that a step may read them; those that parameters are made of are fake.
FACTORIES = {"empty", "empty_strided", "zeros", "ones", "full", "rand", "randn", "normal", "eye", "tril_indices",
             "triu_indices", "randint", "randperm", "arange", "linspace"}
FILLED_LATER = {"empty", "empty_strided", "zeros", "ones", "full", "rand", "randn", "normal"}
LARGEST_REAL = 1 << 16  # elements
REVERSED = {"native_dropout"}  # whose last result is allocated first
READS = {aten._local_scalar_dense.default, aten.item.default}
CHECKS = {"all": True, "any": False}  # what is asked of masks, and of values that may be infinite
COUNTS = {aten.nonzero.default, aten.masked_select.default}


class Block:
    """A storage on the GPU, from its allocation to its release."""

    __slots__ = ("size", "stream", "category", "phase", "iteration", "module", "op", "frames", "begin", "end", "note",
                 "__weakref__")

    def __init__(self, size, stream, phase, iteration, module, op, frames, begin):
        self.size, self.stream, self.phase, self.iteration = size, stream, phase, iteration
        self.module, self.op, self.frames, self.begin = module, op, frames, begin
        self.category, self.end = None, None


class Place:
    """The module and the line that called an op in forward."""

    __slots__ = ("module", "frames")

    def __init__(self, module, frames):
        self.module, self.frames = module, frames


class Recorder(TorchDispatchMode):
    """`card`: gpu.Card. `assume(op, tensor)`: what is read from a tensor, or how many elements are true."""

    def __init__(self, card, assume=None):
        super().__init__()
        self.card, self.assume = card, assume
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.fake.allow_meta = True
        self.events = []  # (is_allocation, Block)
        self.annotations = []  # (name, START or END, number of events)
        self.notes = {}  # what was assumed, each once
        self.allocated = self.peak = 0
        self.iteration = 0
        self.in_optimizer = 0
        self.modules = []  # whose forward runs, names
        self.module_names = weakref.WeakKeyDictionary()
        self.roots = weakref.WeakSet()
        self.blocks = {}  # live, by the storage's address
        self.references = {}
        self.emptied = {}  # storages whose block was given back, by address
        self.places = {}  # Place by the number of a node of autograd
        self.handles = set()  # of cuBLAS: (is of autograd, stream)
        self.parameter_names = {}  # of the module, by id
        self.phase_shown = None
        self.stacks = {}
        self.failed_op = None
        self.undo = contextlib.ExitStack()
        self.knows_transformers = False

    # What happened

    def phase(self):
        if torch._C._current_graph_task_id() != -1:
            return "recompute" if self.modules and torch.is_grad_enabled() else "backward"
        return "optimizer" if self.in_optimizer else "forward" if self.iteration else "build"

    def show_phase(self, phase):
        """Annotations of forward, backward and optimizer; a recomputation is in backward."""
        shown = "backward" if phase == "recompute" else phase
        if shown == self.phase_shown:
            return
        if self.phase_shown is not None:
            self.annotations.append((self.phase_shown, "END", len(self.events)))
        if shown is not None:
            self.annotations.append((shown, "START", len(self.events)))
        self.phase_shown = shown

    def allocate(self, size, op, category=None, place=None):
        phase = self.phase()
        self.show_phase(phase)
        place = place or self.place(phase)
        block = Block(size, gpu.current_stream().stream_id, phase, self.iteration, place.module, op, place.frames,
                      len(self.events))
        block.category = category
        self.events.append((True, block))
        self.allocated += snapshot_file.block_bytes(size)
        self.peak = max(self.peak, self.allocated)
        return block

    def release(self, block):
        block.end = len(self.events)
        self.events.append((False, block))
        self.allocated -= snapshot_file.block_bytes(block.size)

    def forget(self, address, block):
        """Called when a storage is gone."""
        if self.blocks.get(address) is block:
            del self.blocks[address]
        self.references.pop(id(block), None)
        if block.end is None:
            self.release(block)

    def hold(self, storage, size, op, place=None):
        block = self.allocate(size, op, place=place)
        address = storage._cdata
        self.blocks[address] = block
        self.references[id(block)] = weakref.ref(storage, lambda _: self.forget(address, block))

    def resized(self, storage, size):
        """UntypedStorage.resize_, by which FSDP frees and allocates parameters, is no op."""
        address = storage._cdata
        block = self.blocks.pop(address, None)
        if block is not None:
            self.references.pop(id(block), None)
            self.release(block)
            self.emptied[address] = weakref.ref(storage, lambda _: self.emptied.pop(address, None))
        if size and address in self.emptied:
            self.hold(storage, size, "resize_")

    # Where it happened

    def frames(self):
        """(name, file, line) of Python's frames, innermost first, without this package."""
        frame, found = sys._getframe(1), []
        while frame is not None and len(found) < MOST_FRAMES:
            code = frame.f_code
            if not code.co_filename.startswith(HERE) and "_python_dispatch" not in code.co_filename:
                found.append((code.co_qualname if hasattr(code, "co_qualname") else code.co_name, code.co_filename,
                              frame.f_lineno))
            frame = frame.f_back
        found = tuple(found)
        return self.stacks.setdefault(found, found)

    def place(self, phase):
        """In backward the module and the line are those that called the op in forward."""
        if phase == "backward":
            node = torch._C._current_autograd_node()
            known = self.places.get(node._sequence_nr()) if node is not None else None
            return known or Place(self.modules[-1] if self.modules else "", self.frames())
        return Place(self.modules[-1] if self.modules else "", self.frames())

    def name_modules(self, module):
        if module in self.module_names:
            return
        self.roots.add(module)
        for name, part in module.named_modules():
            self.module_names.setdefault(part, name or type(module).__name__)

    def enter_module(self, module, _):
        self.name_modules(module)
        if "transformers" in sys.modules and not self.knows_transformers:
            self.knows_transformers = True
            self.teach_transformers()
        self.modules.append(self.module_names[module])

        if type(module).__name__ == "DistributedDataParallel" and not module._comm_hooks:
            module.register_comm_hook(None, summed)

    def teach_transformers(self):
        """The library builds masks that it need not for tensors that are fake, and asks whether masks hide anything."""
        def fast_all(_):
            self.note("transformers asks whether a mask hides nothing, which is taken to be so")
            return True

        answers = {"is_tracing": lambda *_, **__: False, "fast_all": fast_all}
        self.undo.enter_context(gpu.replaced(
            [(part, name, answers[name]) for path, part in list(sys.modules.items())
             if path.startswith("transformers.") for name in answers.keys() & vars(part).keys()]))

    def leave_module(self, module, *_):
        if self.modules:
            self.modules.pop()

    def begin_optimizer(self, optimizer, *_):
        self.in_optimizer += 1
        self.mark_known()
        self.mark_gradients(parameter for group in optimizer.param_groups for parameter in group["params"])

    def end_optimizer(self, optimizer, *_):
        self.in_optimizer -= 1
        for parameter, state in optimizer.state.items():
            name = self.parameter_names.get(id(parameter))
            self.mark([parameter], "parameter", name)
            self.mark(state.values() if isinstance(state, dict) else [], "optimizer_state", name)

    # What it is

    def mark(self, tensors, category, module=None):
        for tensor in tensors:
            for part in parts_of(tensor):
                block = self.blocks.get(part.untyped_storage()._cdata)
                if block is not None and block.category in (None, "gradient"):
                    block.category, block.module = category, module or block.module

    def mark_gradients(self, parameters):
        for parameter in parameters:
            name = self.parameter_names.get(id(parameter))
            self.mark([parameter], "parameter", name)
            for part in parts_of(parameter.grad):
                block = self.blocks.get(part.untyped_storage()._cdata)
                if block is not None and block.category is None:
                    block.category, block.module = "gradient", name or block.module

    def mark_known(self):
        for root in list(self.roots):
            for name, parameter in root.named_parameters():
                self.parameter_names[id(parameter)] = name.rpartition(".")[0] or type(root).__name__
            self.mark_gradients(root.parameters())
            for name, module in root.named_modules():
                self.mark(module._buffers.values(), "parameter", name or type(root).__name__)

    def categorize(self):
        """What no rule named is a temporary, or an activation if it was there from forward into backward."""
        self.mark_known()
        backward = [time for name, stage, time in self.annotations if (name, stage) == ("backward", "START")]
        for _, block in self.events:
            if block.category is not None:
                continue
            end = len(self.events) if block.end is None else block.end
            if block.phase in ("forward", "recompute") and any(block.begin < time < end for time in backward):
                block.category = "activation"
            elif block.phase == "recompute":
                block.category = "activation"
            elif block.phase == "build" or block.op == "_to_copy from the CPU":
                block.category = "data"
            else:
                block.category = "temporary"

    # Ops

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].device
        if torch._C._get_dispatch_mode(FAKE) is not self.fake:  # DTensor asks for shapes
            return func(*args, **kwargs)
        for kind in types:
            if hasattr(kind, "__tensor_flatten__") and not issubclass(kind, FakeTensor):
                return NotImplemented
        name = func._overloadpacket.__name__
        tensors = tensors_in(args, kwargs)
        device = kwargs.get("device")
        is_on_gpu = device is not None and torch.device(device).type == "cuda"
        is_fake = any(isinstance(tensor, FakeTensor) for tensor in tensors)
        if not is_fake and not is_on_gpu:
            return self.on_cpu(func, name, tensors, args, kwargs)
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if func in READS:
            return self.read(func, args[0])
        if func in COUNTS:
            return self.count(func, args)
        if name == "is_pinned":
            return False
        if name in ("_pin_memory", "pin_memory"):
            return args[0]
        self.failed_op = func
        if func.namespace == "c10d":
            return self.communicate(func, name, args, kwargs)
        if not is_fake and name == "_to_copy":
            return self.to_gpu(args[0], kwargs)
        if name in ("copy_", "set_data") and not isinstance(args[0], FakeTensor):
            return args[0]
        if name == "copy_" and not isinstance(args[1], FakeTensor):
            return args[0]
        if name == "index":
            args = (args[0], [index for part in args[1] for index in self.indices(part)])
        return self.run(func, name, args, kwargs)

    def run(self, func, name, args, kwargs):
        taken = workspaces.of_call(name, args)
        temporaries = [self.allocate(size, f"{name} ({part})", "workspace")
                       for part, is_first, size in (taken[0] if taken else []) if is_first]
        place = None
        if torch._C._current_graph_task_id() == -1 and torch.is_grad_enabled():
            place = self.place("forward")
            self.places[torch._C._autograd._get_sequence_nr() - 1] = place
        result = self.call(func, args, kwargs)
        self.record(result, name, place)
        if name in CHECKS:
            result.is_check = name
        if name in workspaces.PRODUCTS:
            self.use_cublas()
        for group in taken:
            temporaries += [self.allocate(size, f"{name} ({part})", "workspace")
                            for part, is_first, size in group if not is_first]
            for block in temporaries:
                self.release(block)
            temporaries = []
        return result

    def record(self, result, name, place=None):
        tensors = tensors_in((result,), {})
        if name in REVERSED:
            tensors.reverse()
        for tensor in tensors:
            if tensor.device.type != "cuda":
                continue
            storage = tensor.untyped_storage()
            if storage._cdata not in self.blocks and storage.nbytes():
                self.hold(storage, storage.nbytes(), name, place)

    def call(self, func, args, kwargs):
        try:
            return func(*args, **kwargs)
        except fake_tensor.DynamicOutputShapeException as error:
            raise EstimateError(f"{self.where(func)}: how large its result is depends on the values of a tensor on the "
                                "GPU, which has none here; give assume=, a function that says") from error
        except fake_tensor.DataDependentOutputException as error:
            raise EstimateError(f"{self.where(func)}: its result depends on the values of a tensor on the GPU, which "
                                "has none here; give assume=, a function that says") from error
        except (fake_tensor.UnsupportedOperatorException, NotImplementedError):
            return self.without_meta(func, args, kwargs)

    def without_meta(self, func, args, kwargs):
        """An op that does not say what it returns: arguments that it writes are returned, and other results are
        assumed to be as its first tensor."""
        tensors = tensors_in(args, kwargs)
        written = {argument.name: value for argument, value in zip(func._schema.arguments, args)
                   if argument.alias_info is not None and argument.alias_info.is_write}
        aliases = list(written.values())
        results = []
        for returned in func._schema.returns:
            if returned.alias_info is not None and aliases:
                results.append(aliases.pop(0))
                continue
            if not tensors:
                raise EstimateError(f"{self.where(func)}: it has no meta function, and no tensor that its result "
                                    "could be like; register one with torch.library.register_fake")
            self.note(f"{func} has no meta function: its result is assumed to be as its first tensor, and its kernel "
                      "to allocate nothing else; torch.library.register_fake says what it returns")
            results.append(torch.empty_like(tensors[0]))
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def communicate(self, func, name, args, kwargs):
        """A collective: that of one element on the CPU has the same Work, and the tensors are those that it writes. Of
        two tensors, one with a part for each rank, the sizes keep their ratio."""
        given, small = [], []
        least = min((tensor.numel() for tensor in tensors_in(args, kwargs)), default=1) if "_base_" in name else None

        def shrunk(value):
            if isinstance(value, (list, tuple)):
                return [shrunk(part) for part in value]
            if not isinstance(value, torch.Tensor):
                return value
            given.append(value)
            small.append(torch.zeros(value.numel() // least if least else 1))
            return small[-1]

        def restored(value):
            if isinstance(value, (list, tuple)):
                return type(value)(restored(part) for part in value)
            if not isinstance(value, torch.Tensor):
                return value
            return next((whole for whole, part in zip(given, small)
                         if part.untyped_storage()._cdata == value.untyped_storage()._cdata), value)

        with unset_fake_temporarily():
            return restored(func(*shrunk(args), **kwargs))

    def on_cpu(self, func, name, tensors, args, kwargs):
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        device = kwargs.get("device")
        is_meta = device is not None and torch.device(device).type == "meta"
        if not is_meta and not tensors and name in FACTORIES and self.is_made_up(name, args, kwargs):
            return func(*args, **kwargs)
        if name == "_pin_memory":
            return args[0]
        with unset_fake_temporarily():
            return func(*args, **kwargs)

    def is_made_up(self, name, args, kwargs):
        count = 1
        if args and isinstance(args[0], (list, tuple)):
            for extent in args[0]:
                count *= extent
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        return count > LARGEST_REAL or (count > 1 and name in FILLED_LATER and dtype.is_floating_point)

    def to_gpu(self, tensor, kwargs):
        with unset_fake_temporarily():
            strides = torch.empty_like(tensor, device="meta").stride()
        made = aten.empty_strided.default(list(tensor.shape), list(strides), dtype=kwargs.get("dtype") or tensor.dtype,
                                          device=kwargs["device"])
        self.record(made, "_to_copy from the CPU")
        return made

    def use_cublas(self):
        stream = gpu.current_stream().stream_id
        handle = (torch._C._current_graph_task_id() != -1, stream)
        if handle in self.handles:
            return
        self.handles.add(handle)
        size = workspaces.cublas_bytes(self.card.capability)
        self.allocate(size, "workspace of cuBLAS", "workspace", Place("", self.frames()))

    def indices(self, part):
        """A mask as the places where it is true, one tensor for each of its axes."""
        if not isinstance(part, FakeTensor) or part.dtype not in (torch.bool, torch.uint8):
            return [part]
        places = self.count(aten.nonzero.default, (part,))
        return [aten.select.int(places, 1, axis) for axis in range(part.dim())]

    def count(self, func, args):
        """An op with as many results as elements of a tensor are true."""
        tensor = args[-1]
        number = self.assume(func, tensor) if self.assume else None
        if number is None:
            raise EstimateError(f"{self.where(func)}: how large its result is depends on the values of a tensor on the "
                                "GPU, which has none here; give assume=, a function of the op and the tensor that "
                                "returns how many elements are true")
        name = func._overloadpacket.__name__
        size = [number, tensor.dim()] if name == "nonzero" else [number]
        made = aten.empty.memory_format(size, dtype=torch.int64 if name == "nonzero" else args[0].dtype,
                                        device=tensor.device)
        self.record(made, name)
        return made

    def read(self, func, tensor):
        """A value of a tensor on the GPU. Losses and norms are read for a log, so floats are 0 unless `assume` says."""
        value = self.assume(func, tensor) if self.assume else None
        if value is not None:
            return value
        check = CHECKS.get(getattr(tensor, "is_check", None))
        if check is not None:
            self.note(f"{self.line()} asks whether {tensor.is_check}() holds for a tensor on the GPU, which is taken "
                      f"to be {check}")
            return check
        if tensor.dtype.is_floating_point:
            self.note(f"{self.line()} reads a value of a tensor on the GPU, which is taken to be 0")
            return 0.0
        raise EstimateError(f"{self.where(func)}: the step reads a value of a tensor on the GPU, which has none here; "
                            "give assume=, a function of the op and the tensor that returns the value")

    def attend(self, query, *args, **kwargs):
        """scaled_dot_product_attention, which chooses its kernel above PyTorch's ops."""
        if query.device.type != "cuda":
            return SDPA(query, *args, **kwargs)
        return attention.call(torch, self.card.capability, query, *args, **kwargs)

    # Sentences

    def note(self, sentence):
        self.notes.setdefault(sentence, True)

    def line(self):
        frames = self.frames()
        user = [frame for frame in frames if not frame[1].startswith(TORCH)] or frames
        return f"{os.path.basename(user[0][1])}:{user[0][2]}" if user else "the step"

    def where(self, func):
        module = f" in {self.modules[-1]}" if self.modules else ""
        return f"{func} at {self.line()}{module}"


def summed(_, bucket):
    """The all-reduce of a bucket in place, whose Work has no result where there are no other ranks."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def parts_of(value):
    """The plain tensors of a tensor, a DTensor too."""
    if not isinstance(value, torch.Tensor):
        return
    if hasattr(type(value), "__tensor_flatten__") and not isinstance(value, FakeTensor):
        for name in value.__tensor_flatten__()[0]:
            yield from parts_of(getattr(value, name))
    elif value.device.type == "cuda":
        yield value


def tensors_in(args, kwargs):
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for part in value:
                if isinstance(part, torch.Tensor):
                    found.append(part)
                elif isinstance(part, (list, tuple)):
                    found += (item for item in part if isinstance(item, torch.Tensor))
    return found
