"""Writes tests/golden/data/toy_model/bf16.json: the toy model under PyTorch's bf16 autocast on the CPU.

    python3 tools/models/make_toy_golden.py tests/golden/data/toy_model/bf16.json

Numbers are the same formulas as in tests/golden/toy_model_test.cpp. PyTorch's CPU policy leaves layer norm where it is,
and Debian's PyTorch 1.13 then refuses bf16 beside fp32 weights; its CUDA policy computes layer norm in fp32, which is
what stands here.
"""

import pathlib
import sys

import dense_json
import torch
from torch import nn
from torch.nn import functional

BATCH, INPUTS, HIDDEN, OUTPUTS = 16, 20, 10, 5


def wave(shape, step, scale):
    count = 1
    for size in shape:
        count *= size
    return (torch.sin(torch.arange(count, dtype=torch.float64) * step) * scale).float().reshape(shape)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(INPUTS, HIDDEN, bias=False)
        self.ln = nn.LayerNorm(HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, OUTPUTS, bias=False)

    def forward(self, x, seen):
        seen["fc1"] = self.fc1(x)
        seen["relu"] = functional.relu(seen["fc1"])
        with torch.autocast("cpu", enabled=False):
            seen["ln"] = self.ln(seen["relu"].float())
        seen["fc2"] = self.fc2(seen["ln"])
        return seen["fc2"]


def main():
    model = ToyModel()
    with torch.no_grad():
        model.fc1.weight.copy_(wave((HIDDEN, INPUTS), 0.7, 0.4))
        model.ln.weight.copy_(1 + wave((HIDDEN,), 1.3, 0.2))
        model.ln.bias.copy_(wave((HIDDEN,), 2.1, 0.1))
        model.fc2.weight.copy_(wave((OUTPUTS, HIDDEN), 0.9, 0.5))
    x = wave((BATCH, INPUTS), 0.31, 1.5)
    targets = torch.arange(BATCH) % OUTPUTS
    seen = {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x, seen)
        seen["loss"] = functional.cross_entropy(logits, targets)
    seen["loss"].backward()
    names = {torch.float32: "fp32", torch.bfloat16: "bf16"}
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    result = {
        "torch": torch.__version__,
        "parameters": {name: names[parameter.dtype] for name, parameter in model.named_parameters()},
        "values": {name: names[value.dtype] for name, value in seen.items()},
        "gradients": {name: names[gradient.dtype] for name, gradient in gradients.items()},
        "loss": seen["loss"].item(),
        "logits": logits.float().flatten().tolist(),
        "gradient_norms": {name: gradient.norm().item() for name, gradient in gradients.items()},
    }
    dense_json.write(pathlib.Path(sys.argv[1]), result)


if __name__ == "__main__":
    main()
