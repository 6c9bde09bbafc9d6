"""One iteration of a mode (forward, training_forward, forward_backward, step), as a training script in PyTorch would write it
for speed: autocast, fused AdamW, torch.compile of forward and loss (whose backward it then compiles too)."""

import torch
from torch.nn import functional

from model import Transformer, has_sdpa
from safetensors_file import SafetensorsFile

LOW_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
LOSS_SCALE = 65536.0  # the initial one, as Ridgepoint's


class Unsupported(Exception):
    """A request that this PyTorch or this machine cannot run."""


def torch_version():
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def require_support(request, device):
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Unsupported(f"torch {torch.__version__} finds no GPU that it can use")
    if request["compile"] != "eager" and torch_version() < (2, 0):
        raise Unsupported(f"torch {torch.__version__} has no torch.compile; ask for torch:eager")
    if request["dtype"] == "fp16" and device.type == "cpu" and torch_version() < (2, 3):
        raise Unsupported(f"autocast of torch {torch.__version__} has no fp16 on the CPU")


def compiled(function, how):
    if how == "eager":
        return function
    mode = {} if how == "compile" else {"mode": how}
    return torch.compile(function, fullgraph=True, dynamic=False, **mode)


def make_optimizer(parameters, device):
    settings = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    parameters = list(parameters)
    try:
        return torch.optim.AdamW(parameters, fused=True, **settings)
    except (TypeError, RuntimeError, ValueError):  # an older PyTorch, or a device without the fused kernel
        return torch.optim.AdamW(parameters, foreach=device.type == "cuda", **settings)


def make_scaler(device):
    """Dynamic loss scaling; without an effect unless it is enabled."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, init_scale=LOSS_SCALE)
    return torch.cuda.amp.GradScaler(init_scale=LOSS_SCALE)


class Iteration:
    """Calling it runs one iteration."""

    def __init__(self, request):
        self.device = torch.device(request["device"])
        require_support(request, self.device)
        torch.set_float32_matmul_precision("high" if request["dtype"] == "tf32" else "highest")
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device.index or 0)
        else:
            torch.set_num_threads(request["threads"])
        self.mode, self.how, self.low = request["mode"], request["compile"], LOW_TYPES.get(request["dtype"])
        self.attention = "sdpa" if request["attention"] == "sdpa" and has_sdpa else "naive"
        self.model = Transformer(request["model"], self.attention, self.device)
        self.model.load(SafetensorsFile(request["weights"]))
        self.expected = SafetensorsFile(request["expected"])
        self.inputs = self.expected["inputs"].to(self.device)
        self.has_loss = self.mode in ("forward_backward", "step")
        self.targets = self.expected["targets"].to(self.device) if self.has_loss else None
        self.compiled_logits = compiled(self.logits, self.how)
        self.compiled_loss = compiled(self.loss, self.how)
        self.scaler = make_scaler(self.device) if request["dtype"] == "fp16" and self.has_loss else None
        self.optimizer = make_optimizer(self.model.parameters(), self.device) if self.mode == "step" else None

    def logits(self, inputs):
        with torch.autocast(self.device.type, dtype=self.low or torch.bfloat16, enabled=self.low is not None):
            return self.model(inputs)

    def loss(self, inputs, targets):
        return functional.cross_entropy(self.logits(inputs).flatten(0, 1).float(), targets.flatten())

    def begin(self):
        """Says that the results of the previous iteration may be overwritten."""
        mark = getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin", None)
        if mark is not None and self.how != "eager":
            mark()

    def forward(self):
        self.begin()
        with torch.set_grad_enabled(self.mode == "training_forward"):
            return self.compiled_logits(self.inputs)

    def backward(self):
        self.begin()
        self.model.zero_grad(set_to_none=True)
        loss = self.compiled_loss(self.inputs, self.targets)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        return loss

    def update(self):
        if self.scaler is None:
            return self.optimizer.step()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def __call__(self):
        self.without_update()
        if self.mode == "step":
            self.update()

    def without_update(self):
        """What is timed, except the update of a step. Returns the logits of modes without a loss, otherwise the loss."""
        return self.backward() if self.has_loss else self.forward()

    def results(self, output):
        """Pairs of a name and a tensor: logits, loss, grad.NAME, after without_update() returned `output`. The logits of
        modes with a backward come from the model before compilation, because the timed function returns none."""
        if not self.has_loss:
            yield "logits", output.detach()
            return
        yield "loss", output.detach()
        for name, parameter in self.model.named_parameters():
            yield "grad." + name, parameter.grad if self.scaler is None else parameter.grad / LOSS_SCALE
        self.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            yield "logits", self.logits(self.inputs)
