"""Training steps for tools/pytorch/torch_estimate.py: each makes its model and optimizer on "cuda", and runs one step."""

import dataclasses
import functools
import importlib
import math
import typing

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

CASES = {}
WIDTH, LAYERS, HEADS, VOCABULARY, BATCH, CONTEXT = 1024, 8, 16, 32000, 4, 1024


@dataclasses.dataclass
class Case:
    make: typing.Callable  # returns step, build
    ranks: int = 1


def case(ranks=1):
    def add(make):
        CASES[make.__name__] = Case(make, ranks)
        return make
    return add


# Models in plain PyTorch

class Attention(nn.Module):
    def __init__(self, width, heads, is_causal=True):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.q, self.k, self.v, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, other=None):
        other = x if other is None else other
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for layer, y in ((self.q, x), (self.k, other), (self.v, other)))
        return self.output(functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
                           .transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        inner = 8 * width // 3 // 64 * 64
        self.gate, self.up, self.down = (nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False),
                                         nn.Linear(inner, width, bias=False))

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """`checkpoints(i)`: whether layer i is checkpointed."""

    def __init__(self, width=WIDTH, layers=LAYERS, heads=HEADS, checkpoints=lambda i: False, use_reentrant=False):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.checkpoints, self.use_reentrant = checkpoints, use_reentrant

    def forward(self, tokens):
        x = self.embedding(tokens)
        for i, layer in enumerate(self.layers):
            if self.checkpoints(i):
                x = checkpoint(layer, x, use_reentrant=self.use_reentrant)
            else:
                x = layer(x)
        return self.head(self.norm(x))


def tokens(batch=BATCH, context=CONTEXT):
    return torch.randint(0, VOCABULARY, (batch, context), device="cuda")


def cross_entropy(logits, targets):
    return functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())


def language_step(dtype=None):
    """Forward in autocast if `dtype` is given, backward, optimizer."""
    def step(model, optimizer, inputs):
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = cross_entropy(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def adamw(model, **options):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, **options)


def decoder(prepare=lambda model: None, dtype=None, optimizer=adamw, **options):
    def build():
        with torch.device("cuda"):
            model = Decoder(**options)
        if dtype is not None:
            model.to(dtype)
        prepare(model)
        return model, optimizer(model), tokens()
    return build


# LoRA as peft's Linear has it

class LoraLinear(nn.Module):
    def __init__(self, base, rank=16, alpha=32, dropout=0.05):
        super().__init__()
        self.base = base
        device = base.weight.device
        self.lora_A = nn.Linear(base.in_features, rank, bias=False, device=device)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False, device=device)
        nn.init.zeros_(self.lora_B.weight)
        self.dropout, self.scaling = nn.Dropout(dropout), alpha / rank

    def forward(self, x):
        result = self.base(x)
        dtype = result.dtype
        x = x.to(self.lora_A.weight.dtype)
        return (result + self.lora_B(self.lora_A(self.dropout(x))) * self.scaling).to(dtype)


def add_lora(model, names=("q", "v")):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if name in names and isinstance(part, nn.Linear):
                setattr(module, name, LoraLinear(part))


@case()
def lora_bf16_base():
    return language_step(torch.bfloat16), decoder(add_lora, torch.bfloat16)


@case()
def lora_fp32_all_projections():
    names = ("q", "k", "v", "output", "gate", "up", "down")
    return language_step(torch.bfloat16), decoder(functools.partial(add_lora, names=names))


@case()
def lora_checkpointed():
    def prepare(model):
        add_lora(model)
        model.embedding.register_forward_hook(lambda _, __, output: output.requires_grad_(True))
    return language_step(torch.bfloat16), decoder(prepare, torch.bfloat16, checkpoints=lambda i: True)


@case()
def lora_peft():
    import peft
    import transformers.models.llama.modeling_llama  # noqa: F401
    from transformers import AutoModelForCausalLM, LlamaConfig

    def build():
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(LlamaConfig(**LLAMA, vocab_size=VOCABULARY), dtype=torch.bfloat16)
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
        return model.train(), adamw(model), tokens()

    def step(model, optimizer, inputs):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=inputs, labels=inputs, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, build


# Optimizers

class AdamW8bit(torch.optim.Optimizer):
    """Moments of one byte an element, with a scale for each block of 256."""

    BLOCK = 256

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def quantized(self, x):
        blocks = functional.pad(x.flatten(), (0, -x.numel() % self.BLOCK)).view(-1, self.BLOCK)
        scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-12)
        return (blocks / scale * 127).round().to(torch.int8), scale

    def restored(self, pair, like):
        return (pair[0].float() * (pair[1] / 127)).flatten()[:like.numel()].view_as(like)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    for name in ("first", "second"):
                        codes, scale = self.quantized(torch.zeros_like(p, dtype=torch.float32))
                        state[name], state[name + "_scale"] = codes, scale
                state["step"] += 1
                gradient = p.grad.float()
                first = self.restored((state["first"], state["first_scale"]), p).lerp_(gradient, 1 - group["betas"][0])
                second = self.restored((state["second"], state["second_scale"]), p)
                second.mul_(group["betas"][1]).addcmul_(gradient, gradient, value=1 - group["betas"][1])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.addcdiv_(first, second.sqrt().add_(group["eps"]), value=-group["lr"])
                for name, value in (("first", first), ("second", second)):
                    codes, scale = self.quantized(value)
                    state[name].copy_(codes)
                    state[name + "_scale"].copy_(scale)


@case()
def eight_bit_optimizer():
    return language_step(torch.bfloat16), decoder(optimizer=lambda model: AdamW8bit(model.parameters()))


@case()
def bitsandbytes_optimizer():
    import bitsandbytes

    return (language_step(torch.bfloat16),
            decoder(optimizer=lambda model: bitsandbytes.optim.AdamW8bit(model.parameters())))


@case()
def bf16_parameters_foreach():
    return language_step(), decoder(dtype=torch.bfloat16, optimizer=functools.partial(adamw, foreach=True))


@case()
def bf16_parameters_fused():
    return language_step(), decoder(dtype=torch.bfloat16, optimizer=functools.partial(adamw, fused=True))


@case()
def sgd_with_momentum():
    return language_step(torch.bfloat16), decoder(optimizer=lambda model: torch.optim.SGD(
        model.parameters(), 0.1, momentum=0.9, nesterov=True))


@case()
def adafactor():
    return language_step(torch.bfloat16), decoder(optimizer=lambda model: torch.optim.Adafactor(model.parameters()))


@case()
def fp16_scaler_and_clipping():
    build = decoder(optimizer=functools.partial(adamw, fused=True))

    def with_scaler():
        return (*build(), torch.amp.GradScaler("cuda"))

    def step(model, optimizer, inputs, scaler):
        with torch.autocast("cuda", torch.float16):
            loss = cross_entropy(model(inputs), inputs)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    return step, with_scaler


# Parts

@case()
def frozen_first_half():
    def prepare(model):
        model.embedding.requires_grad_(False)
        for layer in model.layers[:LAYERS // 2]:
            layer.requires_grad_(False)
    return language_step(torch.bfloat16), decoder(prepare)


@case()
def frozen_but_the_head():
    def prepare(model):
        model.requires_grad_(False)
        model.head.requires_grad_(True)
    return language_step(), decoder(prepare, torch.bfloat16)


@case()
def accumulation():
    def step(model, optimizer, inputs):
        for part in inputs.chunk(4):
            with torch.autocast("cuda", torch.bfloat16):
                loss = cross_entropy(model(part), part) / 4
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, decoder(optimizer=functools.partial(adamw, fused=True))


@case()
def accumulation_bf16_and_logged():
    def step(model, optimizer, inputs):
        total = 0.0
        for part in inputs.chunk(2):
            loss = cross_entropy(model(part), part)
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, decoder(dtype=torch.bfloat16)


@case()
def checkpoint_every_other_layer():
    return language_step(torch.bfloat16), decoder(checkpoints=lambda i: i % 2 == 0,
                                                  optimizer=functools.partial(adamw, fused=True))


@case()
def checkpoint_reentrant():
    return language_step(torch.bfloat16), decoder(checkpoints=lambda i: i < 6, use_reentrant=True)


# Ranks

@case(ranks=2)
def fsdp_mixed_precision():
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    def shard(model):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    return language_step(), decoder(shard)


@case(ranks=2)
def fsdp_fp32_checkpointed():
    from torch.distributed.fsdp import fully_shard

    def shard(model):
        for layer in model.layers:
            fully_shard(layer, reshard_after_forward=False)
        fully_shard(model)
    return language_step(), decoder(shard, checkpoints=lambda i: True,
                                    optimizer=functools.partial(adamw, fused=True))


def data_parallel(**options):
    build = decoder()

    def built():
        model, _, inputs = build()
        model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()], **options)
        return model, adamw(model), inputs
    return built


@case(ranks=2)
def ddp():
    return language_step(torch.bfloat16), data_parallel()


@case(ranks=2)
def ddp_bucket_views():
    return language_step(torch.bfloat16), data_parallel(gradient_as_bucket_view=True, bucket_cap_mb=100)


# Other models

class VisionTransformer(nn.Module):
    def __init__(self, width=768, layers=12, heads=12, image=224, patch=16, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def image_step(dtype=None):
    def step(model, optimizer, images, labels):
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def on_images(make, batch=32, optimizer=adamw, channels_last=False):
    def build():
        with torch.device("cuda"):
            model = make()
        images = torch.randn(batch, 3, 224, 224, device="cuda")
        if channels_last:
            model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
        return model, optimizer(model), images, torch.randint(0, 1000, (batch,), device="cuda")
    return build


@case()
def vision_transformer_bf16():
    return image_step(torch.bfloat16), on_images(VisionTransformer, 64)


@case()
def vision_transformer_fp32():
    return image_step(), on_images(VisionTransformer, 32, functools.partial(adamw, fused=True))


@case()
def encoder_decoder():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 768)
            self.transformer = nn.Transformer(768, 12, 6, 6, 3072, 0.1, "gelu", batch_first=True, norm_first=True)
            self.head = nn.Linear(768, VOCABULARY, bias=False)

        def forward(self, source, target):
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
            x = self.transformer(self.embedding(source), self.embedding(target), tgt_mask=mask, tgt_is_causal=True)
            return self.head(x)

    def build():
        with torch.device("cuda"):
            model = Model()
        return model, adamw(model), tokens(8, 512), tokens(8, 256)

    def step(model, optimizer, source, target):
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(model(source, target), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, build


@case()
def encoder_decoder_t5():
    from transformers import T5Config, T5ForConditionalGeneration

    def build():
        config = T5Config(vocab_size=VOCABULARY, d_model=768, d_kv=64, d_ff=2048, num_layers=6, num_heads=12,
                          feed_forward_proj="gated-gelu", dropout_rate=0.0, use_cache=False, decoder_start_token_id=0)
        with torch.device("cuda"):
            model = T5ForConditionalGeneration(config).train()
        return model, adamw(model), tokens(8, 512), tokens(8, 256)

    def step(model, optimizer, source, target):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=source, labels=target).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, build


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(functional.silu(self.norm1(x))) + self.time(functional.silu(t))[:, :, None, None]
        return self.conv2(functional.silu(self.norm2(h))) + self.skip(x)


class AttentionBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(32, channels), Attention(channels, channels // 64, False)

    def forward(self, x):
        y = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(y).transpose(1, 2).unflatten(2, x.shape[2:])


class UNet(nn.Module):
    """As denoising diffusion models have it."""

    def __init__(self, channels=128, multiples=(1, 2, 4), time=512):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.channels = channels
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        kept, width = [channels], channels
        for i, multiple in enumerate(multiples):
            for _ in range(2):
                parts = [ResidualBlock(width, channels * multiple, time)]
                width = channels * multiple
                if i == len(multiples) - 1:
                    parts.append(AttentionBlock(width))
                self.down.append(nn.ModuleList(parts))
                kept.append(width)
            if i + 1 < len(multiples):
                self.down.append(nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1)]))
                kept.append(width)
        self.middle = nn.ModuleList([ResidualBlock(width, width, time), AttentionBlock(width),
                                     ResidualBlock(width, width, time)])
        for i, multiple in reversed(list(enumerate(multiples))):
            for j in range(3):
                parts = [ResidualBlock(width + kept.pop(), channels * multiple, time)]
                width = channels * multiple
                if i == len(multiples) - 1:
                    parts.append(AttentionBlock(width))
                if i and j == 2:
                    parts += [nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)]
                self.up.append(nn.ModuleList(parts))
        self.norm, self.last = nn.GroupNorm(32, width), nn.Conv2d(width, 3, 3, padding=1)

    @staticmethod
    def run(parts, x, t):
        for part in parts:
            x = part(x, t) if isinstance(part, ResidualBlock) else part(x)
        return x

    def forward(self, x, steps):
        half = self.channels // 2
        frequencies = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = steps[:, None] * frequencies
        t = self.time(torch.cat((angles.sin(), angles.cos()), -1))
        x = self.first(x)
        kept = [x]
        for parts in self.down:
            x = self.run(parts, x, t)
            kept.append(x)
        x = self.run(self.middle, x, t)
        for parts in self.up:
            x = self.run(parts, torch.cat((x, kept.pop()), 1), t)
        return self.last(functional.silu(self.norm(x)))


def unet(dtype=None, channels_last=False):
    def build():
        with torch.device("cuda"):
            model = UNet()
        images = torch.randn(16, 3, 64, 64, device="cuda")
        if channels_last:
            model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
        return model, adamw(model), images

    def step(model, optimizer, images):
        noise, steps = torch.randn_like(images), torch.randint(0, 1000, (len(images),), device="cuda")
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = functional.mse_loss(model(images + noise, steps), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, build


@case()
def diffusion_unet_fp32():
    return unet()


@case()
def diffusion_unet_bf16():
    return unet(torch.bfloat16)


@case()
def diffusion_unet_channels_last():
    return unet(torch.bfloat16, True)


@case()
def convolutional_network():
    import torchvision

    return image_step(torch.bfloat16), on_images(torchvision.models.resnet50, 32, lambda model: torch.optim.SGD(
        model.parameters(), 0.1, momentum=0.9), channels_last=True)


# Families of transformers: four steps each.

LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4, "num_attention_heads": 16,
         "num_key_value_heads": 4, "max_position_embeddings": 2048}
FAMILIES = {
    "llama": LLAMA, "qwen2": LLAMA, "qwen3": {**LLAMA, "head_dim": 64}, "gemma2": {**LLAMA, "head_dim": 64},
    "olmo2": LLAMA, "granite": LLAMA,
    "gpt2": {"n_embd": 1024, "n_layer": 4, "n_head": 16, "n_positions": 2048},
    "opt": {"hidden_size": 1024, "word_embed_proj_dim": 1024, "ffn_dim": 4096, "num_hidden_layers": 4,
            "num_attention_heads": 16, "max_position_embeddings": 2048},
}
STEPS = {"sdpa_bf16": ("sdpa", torch.bfloat16, False, True), "eager_fp32": ("eager", None, False, False),
         "sdpa_bf16_checkpointed": ("sdpa", torch.bfloat16, True, True), "eager_bf16": ("eager", torch.bfloat16, False,
                                                                                       False)}


def family(name, attention, dtype, checkpoints, fused):
    from transformers import AutoConfig, AutoModelForCausalLM

    importlib.import_module(f"transformers.models.{name}.modeling_{name}")  # outside of fake tensors

    def build():
        config = AutoConfig.for_model(name, **FAMILIES[name], vocab_size=VOCABULARY)
        config.use_cache = False
        for field, value in list(vars(config).items()):
            if isinstance(value, float) and "drop" in field:
                setattr(config, field, 0.0)
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
        if checkpoints:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model.train(), adamw(model, fused=fused, foreach=not fused), tokens()

    def step(model, optimizer, inputs):
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype is not None):
            loss = model(input_ids=inputs, labels=inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, build


for _family in FAMILIES:
    for _name, _settings in STEPS.items():
        CASES[f"family_{_family}_{_name}"] = Case(functools.partial(family, _family, *_settings))
