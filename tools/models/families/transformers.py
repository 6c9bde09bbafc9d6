"""The families of docs/models.md as `transformers` 5 computes them: eager attention, fp32, on the CPU, no dropout."""

import json
import pathlib
import re
import tempfile

import torch
import transformers

from .decoders import BUFFERS, INDEXER
from .optimizer import train_steps
from .table import ENCODERS, TRAITS
from make_golden import read

VERSION = f"transformers {transformers.__version__}, torch {torch.__version__}"


def class_of(family):
    return (transformers.AutoModelForMaskedLM if family in ENCODERS else
            transformers.AutoModelForImageClassification if family == "vit" else transformers.AutoModelForCausalLM)


def prepared(model):
    if any("experts" in name for name, _ in model.named_parameters()):
        model.set_experts_implementation("eager")  # grouped_mm, the default, asks for strides of 16 bytes
    return model.eval()


def attention_of(config):
    """Eager attention of Falcon adds ALiBi to the scores, and again with the mask."""
    return "sdpa" if config["model_type"] == "falcon" and config["alibi"] else "eager"


def make_model(config):
    fields = {name: value for name, value in config.items() if name != "model_type"}
    settings = transformers.AutoConfig.for_model(config["model_type"], **fields)
    settings.use_cache = False
    return prepared(class_of(config["model_type"]).from_config(settings, attn_implementation=attention_of(config),
                                                               dtype=torch.float32))


VIT = (("vit.layers.", "vit.encoder.layer."), (".attention.q_proj.", ".attention.attention.query."),
       (".attention.k_proj.", ".attention.attention.key."), (".attention.v_proj.", ".attention.attention.value."),
       (".attention.o_proj.", ".attention.output.dense."), (".mlp.fc1.", ".intermediate.dense."),
       (".mlp.fc2.", ".output.dense."))
# The names of DeepSeek V4 in `transformers`, and in its published files.
DEEPSEEK_V4 = ((r"^model\.embed_tokens\.", "embed."), (r"^lm_head\.", "head."), (r"^model\.hc_head\.hc_", "hc_head_"),
               (r"^model\.", ""), (r"\.input_layernorm\.", ".attn_norm."), (r"\.post_attention_layernorm\.", ".ffn_norm."),
               (r"\.(attn|ffn)_hc\.", r".hc_\1_"), (r"\.self_attn\.", ".attn."), (r"\.mlp\.", ".ffn."),
               (r"\.attn\.sinks$", ".attn.attn_sink"), (r"\.q_a_norm\.", ".q_norm."),
               (r"\.compressor\.indexer\.(kv_norm|position_bias|kv_proj|gate_proj)", r".indexer.compressor.\1"),
               (r"\.compressor\.indexer\.(scorer\.)?", ".indexer."), (r"\.compressor\.kv_norm\.", ".compressor.norm."),
               (r"\.position_bias$", ".ape"), (r"(\.attn\..*)gate_proj\.", r"\1wgate."), (r"\.kv_proj\.", ".wkv."),
               (r"\.(q|o)_(a|b)_proj\.", r".w\1_\2."), (r"\.gate\.e_score_correction_bias$", ".gate.bias"),
               (r"\.shared_experts\.gate_proj\.", ".shared_experts.w1."), (r"\.shared_experts\.up_proj\.", ".shared_experts.w3."),
               (r"\.shared_experts\.down_proj\.", ".shared_experts.w2."))
MIXTRAL = ("mixtral", "minimax_m2", "phimoe")


def published(name, tensor, family, unpacks=False):
    """The names and parts (views) of one of the model's parameters in published files. `transformers` 5 keeps the
    weights of a layer's experts in one parameter, the files of most families one by one."""
    if family in MIXTRAL:
        name = name.replace(".mlp.", ".block_sparse_moe.").replace(".router.", ".gate.")
    if family == "nemotron_h":
        name = re.sub(r"^model\.", "backbone.", name)
    if family == "ernie4_5_moe":
        name = name.replace(".gate.moe_statics.", ".moe_statics.")
    if family in ("granitemoe", "granitemoehybrid"):
        name = name.replace(".router.weight", ".router.layer.weight").replace(".experts.down_proj", ".output_linear.weight")
        name = name.replace(".experts.gate_up_proj", ".input_linear.weight")
    if family == "gpt_neox":
        name = name.replace("lm_head.weight", "embed_out.weight")
    if family == "vit":
        for ours, theirs in VIT:
            name = name.replace(ours, theirs)
    if family == "deepseek_v4":
        for theirs, ours in DEEPSEEK_V4:
            name = re.sub(theirs, ours, name)
    has_numbers = family in (*MIXTRAL, "lfm2_moe", "deepseek_v4")
    gate, up, down = ("w1", "w3", "w2") if has_numbers else ("gate_proj", "up_proj", "down_proj")
    found = re.fullmatch(r"(.*\.experts)\.(gate_up_proj|up_proj|down_proj)(?:\.weight)?", name)
    is_packed = family in TRAITS and TRAITS[family].packed
    if found is None or tensor.dim() != 3 or (is_packed and not unpacks):
        return {name: tensor}
    prefix, what = found.groups()
    parts = {}
    for i, expert in enumerate(tensor):
        if what == "down_proj":
            parts[f"{prefix}.{i}.{down}.weight"] = expert
        elif what == "up_proj":  # without a gate
            parts[f"{prefix}.{i}.{up}.weight"] = expert
        else:
            parts[f"{prefix}.{i}.{gate}.weight"], parts[f"{prefix}.{i}.{up}.weight"] = expert.chunk(2, dim=0)
    return parts


def load(model, weights, family):
    """Fills the model's parameters; save_pretrained() must then write the same tensors under the same names."""
    buffers = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith(BUFFERS)]
    for name, tensor in [*model.named_parameters(), *buffers]:
        for part, values in published(name, tensor.data, family).items():
            values.copy_(weights[part])
    if family == "deepseek_v4":  # save_pretrained() of transformers 5.17 mixes its own names and the published ones
        return
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = read(pathlib.Path(folder) / "model.safetensors")
    if "lm_head.weight" not in weights:
        saved.pop("lm_head.weight", None)
        for tied in ("embed_out.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                     "lm_head.decoder.weight", "lm_head.decoder.bias"):
            if tied not in weights:
                saved.pop(tied, None)
    if family == "qwen3_5_moe_text":  # published in one tensor, saved one by one
        weights = {part: values for name, tensor in weights.items()
                   for part, values in published(name, tensor, family, True).items()}
    if saved.keys() != weights.keys():
        raise SystemExit(f"save_pretrained() has other names: {sorted(saved.keys() ^ weights.keys())}")
    for name, tensor in saved.items():
        if not torch.equal(tensor, weights[name]):
            raise SystemExit(f"save_pretrained() has another {name}")


def image_of(patches, config):
    """Pixels whose rows and columns beyond the last whole patch are 0."""
    size, patch, channels = config["image_size"], config["patch_size"], config["num_channels"]
    side = size // patch
    grid = patches.unflatten(1, (side, side)).unflatten(-1, (channels, patch, patch)).permute(0, 3, 1, 4, 2, 5)
    pixels = torch.zeros(len(patches), channels, size, size)
    pixels[:, :, : side * patch, : side * patch] = grid.flatten(4).flatten(2, 3)
    return pixels


def outputs_of(model, inputs, config):
    if config["model_type"] == "vit":
        return model(pixel_values=image_of(inputs, config))
    if config["model_type"] == "roberta":  # otherwise tokens that are the padding's have its position
        return model(input_ids=inputs, position_ids=config["pad_token_id"] + 1 + torch.arange(inputs.shape[1])[None])
    return model(input_ids=inputs) if config["model_type"] in ENCODERS else model(input_ids=inputs, use_cache=False)


def loss_of(model, config, inputs, targets):
    """(logits, loss) as compute() has them."""
    outputs = outputs_of(model, inputs, config)
    loss = torch.nn.functional.cross_entropy(outputs.logits.flatten(0, -2), targets.flatten())
    if config.get("output_router_logits"):
        loss = loss + config["router_aux_loss_coef"] * outputs.aux_loss
    return outputs.logits, loss


def trained(model):
    return {name: parameter for name, parameter in model.named_parameters() if not name.endswith(BUFFERS)}


def gradients_of(model, family):
    gradients = {}
    for name, parameter in trained(model).items():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients |= {f"grad.{part}": values for part, values in published(name, gradient, family).items()}
    return gradients


def compute(config, weights, inputs, targets):
    """(config.json as `transformers` writes it, results by name) of a model in fp32: `logits`, `loss`, and `grad.NAME`
    of every weight."""
    model = make_model(config)
    load(model, weights, config["model_type"])
    logits, loss = loss_of(model, config, inputs, targets)
    loss.backward()
    results = {"logits": logits.detach(), "loss": loss.detach()} | gradients_of(model, config["model_type"])
    return json.loads(model.config.to_json_string()), results


def train(config, weights, inputs, targets, steps):
    """compute()'s results of the first of `steps` steps of torch.optim.AdamW, `loss.K` of each, and `param.NAME` after
    the last."""
    family = config["model_type"]
    model = make_model(config)
    load(model, weights, family)
    moved = [parameter for name, parameter in trained(model).items() if INDEXER not in name]
    return train_steps(moved, lambda: loss_of(model, config, inputs, targets),
                       lambda: gradients_of(model, family),
                       lambda: {part: values for name, parameter in trained(model).items()
                                for part, values in published(name, parameter.data, family).items()}, steps)
