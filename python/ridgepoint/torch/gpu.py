"""A GPU that is not there: what torch.cuda answers about a card, streams that only have a number, and the device guard
that autograd asks for."""

import atexit
import contextlib
import ctypes
import mmap
import pathlib
import platform
import re
import types

from . import program
from .versions import EstimateError, require_torch

GIB = 1 << 30
# Compute capability and multiprocessors where a card is only a size of memory.
HOPPER = (90, 132)


class Card:
    """A GPU by name: its memory as CUDA reports it, what of it a run may take, and its compute capability."""

    def __init__(self, name, memory_bytes=None, capacity_bytes=None, capability=HOPPER[0], multiprocessors=HOPPER[1]):
        self.name, self.memory_bytes, self.capacity_bytes = name, memory_bytes, capacity_bytes
        self.capability, self.multiprocessors = capability, multiprocessors


def size(text):
    """The bytes of 80GiB, 24GB, 512MiB; None for anything else."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT])(i?)B\s*", str(text))
    if not found:
        return None
    return int(float(found[1]) * (1024 if found[3] else 1000) ** ("KMGT".index(found[2]) + 1))


def _card_of(row):
    return Card(row["name"], row["total_memory_bytes"], row["capacity_bytes"],
                int(row["compute_capability"].replace(".", "")), row["multiprocessors"])


def cards():
    """All cards that the program knows."""
    return [_card_of(row) for row in program.documents("devices", "--card", "all")]


def card(name):
    """The card of a name such as "h100", or one with so much memory: "80GiB". Without a name a Hopper of any size."""
    if name is None or isinstance(name, Card):
        return name or Card("a GPU of compute capability 9.0")
    if size(name) is not None:
        return Card(str(name), size(name), size(name))
    return _card_of(program.documents("devices", "--card", name)[0])


# Of c10/core/DeviceType.h.
CPU, CUDA, META = 0, 1, 14
# Places among the virtual functions of c10/core/impl/DeviceGuardImplInterface.h; the second ones return a type, a
# device or a stream.
GET_DEVICE = 2
RETURN_PLACES = (0, 1, 2, 5, 6, 7, 8, 9)
# Machine code by the name of the processor: returns 1 and 0 in two registers. Read as a Stream, that is the default
# stream of device 0 of type CUDA; as a Device and a DeviceType, these.
RETURN_CUDA_0 = {"x86_64": bytes.fromhex("b801000000 31d2 c3"), "aarch64": bytes.fromhex("200080d2 010080d2 c0035fd6")}
# Of ATen/detail/AcceleratorHooksInterface.h: after two words, two destructors, isBuilt and isAvailable.
HAS_PRIMARY_CONTEXT = 6
_hooks = []  # what PyTorch's hooks point to
_kept = []  # what C++ points to


def has_device_guard(torch):
    """Whether backward runs for fake tensors on "cuda": builds with CUDA set a guard on machines without a GPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(), torch.autograd.set_multithreading_enabled(False):
            x = torch.empty(2, device="cuda", requires_grad=True)
            (x * x + x).sum().backward()
            return x.cpu().to("cuda").is_cuda
    except RuntimeError:
        return False


def set_device_guard(torch):
    """Autograd asks the guard of a device for its streams. Where there is none, it becomes that of the device meta,
    which does nothing, with another current device. Some versions have no default stream: then it is the current
    one."""
    if torch.cuda.is_available():
        torch.empty(1, device="cuda")  # the GPU needs a context
        return
    if _kept:
        return
    guards = _guards(torch)
    if guards[CUDA]:
        set_primary_context(torch)
        if has_device_guard(torch):
            return
    words, word = 32, ctypes.sizeof(ctypes.c_void_p)

    def functions(guard):
        return (ctypes.c_void_p * words).from_address(ctypes.c_void_p.from_address(guard).value - 2 * word)

    table = (ctypes.c_void_p * words)(*functions(guards[META]))
    # What a guard does not define is the same function in another one. getStream stands before getDefaultStream,
    # getStreamFromGlobalPool and others that a guard without streams does not define.
    shared = [mine is not None and mine == other for mine, other in zip(table, functions(guards[CPU]))]
    first = next((i for i in range(4, words - 1) if shared[i] and shared[i + 1] and not shared[i - 1]), None)
    if first is None:
        raise EstimateError(f"the device guards of PyTorch {torch.__version__} are not known, which autograd needs")
    table[first] = table[first - 1]
    # Device getDevice() const: a byte for the type, and one for the index.
    get_device = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)(lambda _: CUDA)
    table[2 + GET_DEVICE] = ctypes.cast(get_device, ctypes.c_void_p).value
    made = ctypes.c_void_p(ctypes.addressof(table) + 2 * word)
    _kept.extend((table, made, get_device))
    guards[CUDA] = ctypes.addressof(made)
    if not has_device_guard(torch):
        set_accelerator(torch)
        set_primary_context(torch)
        return_cuda_0(table)


def return_cuda_0(table):
    """Autograd of PyTorch 2.14 looks streams up by the index of their device, which that of meta has not."""
    code = RETURN_CUDA_0.get(platform.machine())
    if code is None:
        return
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    held = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)
    for place in RETURN_PLACES:
        table[2 + place] = ctypes.addressof(held)
    _kept.append(held)


def set_accelerator(torch):
    """Autograd of PyTorch 2.14 asks the hooks of CUDA whether that is the machine's accelerator, by one of their first
    functions: the one that makes PyTorch say so."""
    hooks = _hooks_of_cuda(torch)
    if hooks is None or not hasattr(torch, "accelerator"):
        return
    place, functions = hooks
    before = place.value
    yes = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda _: True)
    for index in range(4, 40):
        table = type(functions)(*functions)
        table[index] = ctypes.cast(yes, ctypes.c_void_p).value
        place.value = ctypes.addressof(table) + 2 * ctypes.sizeof(ctypes.c_void_p)
        if str(torch.accelerator.current_accelerator()) == "cuda":
            _hooks.extend((table, yes))
            atexit.register(setattr, place, "value", before)  # PyTorch asks once more when the process ends
            return
    place.value = before


def set_primary_context(torch):
    """Autograd of builds with CUDA asks their hooks whether a GPU has a context, which fails without a GPU. Now the
    first one has."""
    hooks = _hooks_of_cuda(torch)
    if hooks is None:
        return
    place, functions = hooks
    function = _symbol(torch, "torch_cuda", "_ZNK2at4cuda6detail9CUDAHooks17hasPrimaryContextEa")
    address = ctypes.cast(function, ctypes.c_void_p).value if function is not None else None
    found = [i for i in range(2, len(functions)) if functions[i] == address]
    index = HAS_PRIMARY_CONTEXT if address is None else next(iter(found), None)
    if index is None:
        return
    table = type(functions)(*functions)
    has_context = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda _, device: device == 0)
    table[index] = ctypes.cast(has_context, ctypes.c_void_p).value
    place.value = ctypes.addressof(table) + 2 * ctypes.sizeof(ctypes.c_void_p)
    _hooks.extend((table, has_context))


def _hooks_of_cuda(torch):
    """The pointer of PyTorch's hooks of CUDA to their virtual functions, and these with the two words before them."""
    hooks = _symbol(torch, "torch_cpu", "_ZN2at6detail12getCUDAHooksEv")
    if hooks is None:
        return None
    hooks.restype = ctypes.c_void_p
    place = ctypes.c_void_p.from_address(hooks())
    return place, (ctypes.c_void_p * 160).from_address(place.value - 2 * ctypes.sizeof(ctypes.c_void_p))


def _symbol(torch, library, name):
    """A function of a library of PyTorch; None if there is none of that name."""
    for file in sorted((pathlib.Path(torch.__file__).parent / "lib").glob(f"lib{library}.*")):
        with contextlib.suppress(OSError, AttributeError):
            return getattr(ctypes.CDLL(str(file)), name)
    return None


def _guards(torch):
    """PyTorch's table of device guards."""
    folder = pathlib.Path(torch.__file__).parent / "lib"
    for name in [*map(str, sorted(folder.glob("libc10.*"))), "libc10.so", "libc10.dylib"]:
        with contextlib.suppress(OSError, ValueError):
            return (ctypes.c_void_p * (META + 1)).in_dll(ctypes.CDLL(name),
                                                         "_ZN3c104impl26device_guard_impl_registryE")
    raise EstimateError("PyTorch's library libc10 was not found, in which autograd looks for the guard of a GPU; use a "
                        "build of PyTorch with CUDA")


class Stream:
    """torch.cuda.Stream without a GPU."""

    count = 0
    current = None  # None: the default stream

    def __init__(self, device=None, priority=0, stream_id=None, **_):
        if stream_id is None:
            Stream.count += 1
        self.device, self.priority = device, priority
        self.stream_id = self.cuda_stream = Stream.count if stream_id is None else stream_id

    def __eq__(self, other):
        return isinstance(other, Stream) and self.stream_id == other.stream_id

    def __hash__(self):
        return self.stream_id

    def record_event(self, event=None):
        return event or Event()

    def query(self):
        return True

    def is_capturing(self):
        return False

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass

    def synchronize(self):
        pass

    def __enter__(self):
        self.outer, Stream.current = Stream.current, self
        return self

    def __exit__(self, *_):
        Stream.current = self.outer


class Event:
    """torch.cuda.Event without a GPU."""

    def __init__(self, *_, **__):
        pass

    def record(self, stream=None):
        pass

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return 1.0


def current_stream(device=None):
    return Stream.current or Stream(stream_id=0)


def within(stream):
    return stream if stream is not None else contextlib.nullcontext()


def answers(torch, which, levels):
    """What functions of torch.cuda return. `levels` has allocated and peak, in bytes."""
    major, minor = divmod(which.capability, 10)
    total = which.memory_bytes or 80 * GIB
    properties = types.SimpleNamespace(name=which.name, major=major, minor=minor, total_memory=total,
                                       multi_processor_count=which.multiprocessors, warp_size=32, gcnArchName="",
                                       max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
                                       shared_memory_per_block=49152, L2_cache_size=50 << 20, is_integrated=False)

    def always(value):
        return lambda *_, **__: value

    nothing = always(None)
    return {
        "is_available": always(True), "is_initialized": always(True), "_lazy_init": nothing, "init": nothing,
        "device_count": always(1), "current_device": always(0), "set_device": nothing,
        "get_device_name": always(which.name), "get_device_capability": always((major, minor)),
        "get_device_properties": always(properties), "is_bf16_supported": always(which.capability >= 80),
        "synchronize": nothing, "empty_cache": nothing, "ipc_collect": nothing,
        "memory_allocated": lambda *_: levels.allocated, "max_memory_allocated": lambda *_: levels.peak,
        "memory_reserved": lambda *_: levels.allocated, "max_memory_reserved": lambda *_: levels.peak,
        "memory_stats": always({}), "reset_peak_memory_stats": nothing, "reset_max_memory_allocated": nothing,
        "is_current_stream_capturing": always(False),
        "mem_get_info": lambda *_: (total - levels.allocated, total),
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8), "set_rng_state": nothing,
        "manual_seed": nothing, "manual_seed_all": nothing,
        "Stream": Stream, "Event": Event, "current_stream": current_stream,
        "default_stream": always(Stream(stream_id=0)), "stream": within,
        "set_stream": lambda stream: setattr(Stream, "current", stream),
    }


@contextlib.contextmanager
def replaced(pairs):
    """Sets attributes, (owner, name, value) each, and sets back what was there."""
    absent = object()
    before = []
    try:
        for owner, name, value in pairs:
            before.append((owner, name, owner.__dict__.get(name, absent)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            delattr(owner, name) if value is absent else setattr(owner, name, value)
