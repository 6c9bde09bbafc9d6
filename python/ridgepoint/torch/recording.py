"""The context in which PyTorch runs on tensors without memory: what is replaced in it, and what is put back."""

import contextlib

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules import module as module_hooks
from torch.overrides import TorchFunctionMode

from . import gpu
from .recorder import SDPA

SET_DATA = torch.Tensor.data.__set__
METHOD = type(SET_DATA)
LINEAR = torch._C._nn.linear


def backward(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


class Functions(TorchFunctionMode):
    """Calls that PyTorch decides above its ops: attention by the card's rules, and what fake tensors cannot do."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.backward:
            with self:  # a mode is off while it handles a function, and backward may run forward again
                return backward(*args, **kwargs)
        if func is SDPA:
            return self.recorder.attend(*args, **kwargs)
        if type(func) is METHOD and func == SET_DATA and all(isinstance(tensor, FakeTensor) for tensor in args):
            func(*args)
            args[0].fake_device = args[1].fake_device
            return None
        if func is torch.Tensor.__deepcopy__ and isinstance(args[0], FakeTensor):
            return deep_copy(*args)
        return func(*args, **kwargs)


def linear(x, weight, bias=None):
    """Of what is not contiguous the bias is added in place; for tensors of a subclass it would not be."""
    if bias is None or not isinstance(x, FakeTensor) or x.dim() <= 2 or x.is_contiguous():
        return LINEAR(x, weight, bias)
    result = LINEAR(x, weight)
    return result.add_(bias.to(result.dtype))


def deep_copy(tensor, memo):
    if id(tensor) not in memo:
        with torch.no_grad():
            made = tensor.detach().clone()
        made.requires_grad_(tensor.requires_grad)
        if getattr(tensor, "_is_param", False):
            made._is_param = True
        memo[id(tensor)] = made
    return memo[id(tensor)]


def _never(*_, **__):
    raise NotImplementedError("fake tensors have no kernels")


def kernels_of_a_gpu():
    """Builds for the CPU have no kernels for CUDA, and so decompose ops that have one. Returns the kernels' owner."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    library = torch.library.Library("aten", "IMPL")
    for name in torch._C._dispatch_get_all_op_names():
        if (name.startswith("aten::") and has(name, "CompositeImplicitAutograd") and has(name, "CPU")
                and not has(name, "CUDA")):
            library.impl(name[len("aten::"):], _never, "CUDA")
    return library


@contextlib.contextmanager
def recording(recorder):
    """Within, CUDA tensors are fake and recorded, and torch.cuda is the recorder's card."""
    from torch.optim import optimizer as optimizers

    gpu.set_device_guard(torch)
    gpu.Stream.current, gpu.Stream.count = None, 0
    new_parameter = torch.nn.Parameter.__new__
    resize = torch.UntypedStorage.resize_

    def parameter(kind, data=None, requires_grad=True, *rest, **more):
        if type(data) is torch.Tensor and data.device.type == "cpu":
            with torch.no_grad():
                data = recorder.fake.from_tensor(data.detach())
        return new_parameter(kind, data, requires_grad, *rest, **more)

    swap_tensors = torch.utils.swap_tensors

    def swap(first, second):
        recorder.fake.fake_tensor_converter.meta_converter.tensor_memo.clear()  # whose weak references forbid it
        return swap_tensors(first, second)

    def resize_(storage, size):
        result = resize(storage, size)
        recorder.resized(storage, size)
        return result

    pairs = [(torch.cuda, name, value) for name, value in gpu.answers(torch, recorder.card, recorder).items()]
    pairs.append((torch._C, "_get_accelerator", lambda *_: torch.device("cuda")))
    if hasattr(torch, "accelerator"):
        pairs += [(torch.accelerator, name, value) for name, value in
                  (("is_available", lambda: True), ("current_accelerator", lambda *_, **__: torch.device("cuda")),
                   ("current_device_index", lambda: 0), ("device_count", lambda: 1), ("synchronize", lambda *_: None),
                   ("current_stream", gpu.current_stream)) if hasattr(torch.accelerator, name)]
    pairs += [(fake_tensor, name, lambda *_: None) for name in ("init_gpu_context", "init_cuda_context")
              if hasattr(fake_tensor, name)]
    pairs += [(FakeTensorMode, "avoid_device_init", True), (torch.nn.Parameter, "__new__", staticmethod(parameter)),
              (torch.UntypedStorage, "resize_", resize_), (torch.utils, "swap_tensors", swap),
              (torch.nn.functional, "scaled_dot_product_attention", recorder.attend),
              (torch.nn.functional, "linear", linear),
              (fake_tensor.log, "disabled", True)]  # the error has what it says
    supported = optimizers._foreach_supported_types
    handles = [module_hooks.register_module_forward_pre_hook(recorder.enter_module),
               module_hooks.register_module_forward_hook(recorder.leave_module, always_call=True),
               optimizers.register_optimizer_step_pre_hook(recorder.begin_optimizer),
               optimizers.register_optimizer_step_post_hook(recorder.end_optimizer)]
    supported.append(FakeTensor)
    library = kernels_of_a_gpu()
    was_threaded = torch.autograd.is_multithreading_enabled()
    torch.autograd.set_multithreading_enabled(False)
    try:
        with recorder.undo, gpu.replaced(pairs), recorder.fake, recorder, Functions(recorder):
            yield recorder
    finally:
        torch.autograd.set_multithreading_enabled(was_threaded)
        supported.remove(FakeTensor)
        library._destroy()
        for handle in handles:
            handle.remove()
