"""Steps of torch.optim.AdamW on a model of the families of docs/models.md, whatever computes it."""

import torch


def train_steps(parameters, loss_of, gradients_of, values_of, steps):
    """Results by name: `logits`, `loss` and `grad.NAME` of the first step, `loss.K` of each, `param.NAME` after the
    last. `loss_of` returns (logits, loss); `gradients_of` and `values_of` return tensors by name."""
    parameters = list(parameters)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    results = {}
    for step in range(steps):
        for parameter in parameters:  # zeros, not None, so that a weight without a gradient decays
            parameter.grad = torch.zeros_like(parameter)
        logits, loss = loss_of()
        loss.backward()
        if step == 0:
            results |= {"logits": logits.detach(), "loss": loss.detach()}
            results |= {name: gradient.clone() for name, gradient in gradients_of().items()}
        results[f"loss.{step + 1}"] = loss.detach()
        optimizer.step()
    return results | {"param." + name: value.detach().clone() for name, value in values_of().items()}
