"""Which kernel torch.nn.functional.scaled_dot_product_attention runs on a card: the rules of PyTorch 2.11 for CUDA
(aten/src/ATen/native/transformers/cuda/sdp_utils.cpp), and its call (attention.cpp)."""

import math

from .versions import release

WIDEST_FLASH, WIDEST_CUDNN = 256, 128
PREFERS_CUDNN = (2, 9)


def has_rows(*tensors):
    return all(tensor.stride(-1) == 1 or tensor.shape[-1] == 1 for tensor in tensors)


def takes_flash(torch, capability, q, k, v, mask, is_causal, shares_heads):
    fits = (torch.backends.cuda.flash_sdp_enabled() and capability >= 80 and mask is None
            and q.dim() == k.dim() == v.dim() == 4 and q.dtype in (torch.float16, torch.bfloat16)
            and q.shape[-1] == k.shape[-1] == v.shape[-1] <= WIDEST_FLASH and q.shape[-2] > 0 and k.shape[-2] > 0)
    if not fits or not has_rows(q, k, v) or (is_causal and q.shape[-2] != k.shape[-2]):
        return False
    return q.shape[1] == k.shape[1] == v.shape[1] or (shares_heads and q.shape[1] % k.shape[1] == 0)


def takes_cudnn(torch, capability, q, k, v, mask, is_causal, shares_heads):
    """PyTorch prefers cuDNN on Hopper and data-centre Blackwell."""
    if release(torch.__version__) < PREFERS_CUDNN or capability not in (90, 100):
        return False
    if not torch.backends.cuda.cudnn_sdp_enabled() or not has_rows(q, k, v) or not q.dim() == k.dim() == v.dim() == 4:
        return False
    heads = q.shape[1] == k.shape[1] == v.shape[1] or (shares_heads and q.shape[1] % k.shape[1] == 0)
    if mask is not None and mask.requires_grad:
        return False
    return (heads and q.dtype in (torch.float16, torch.bfloat16) and not (mask is not None and is_causal)
            and all(x.shape[-1] % 8 == 0 and x.shape[-1] <= WIDEST_CUDNN for x in (q, v)) and k.shape[-2] > 1)


def takes_efficient(torch, capability, q, k, v, mask, shares_heads):
    if not (torch.backends.cuda.mem_efficient_sdp_enabled() and q.dim() == k.dim() == v.dim() == 4 and has_rows(q, k, v)
            and q.dtype in (torch.float32, torch.float16, torch.bfloat16) and q.shape[-2] > 0 and k.shape[-2] > 0):
        return False
    multiple = 8 if q.element_size() == 2 else 4
    return (q.shape[1] == k.shape[1] == v.shape[1] and q.shape[-1] == k.shape[-1]
            and q.shape[-1] % multiple == v.shape[-1] % multiple == 0)


def cast_as_autocast_does(torch, tensors):
    if not torch.is_autocast_enabled("cuda"):
        return tensors
    dtype = torch.get_autocast_dtype("cuda")
    return [tensor.to(dtype) if tensor is not None and tensor.dtype == torch.float32 else tensor for tensor in tensors]


def additive(torch, mask, dtype):
    """A boolean mask as one of 0 and -inf."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    made = torch.zeros_like(mask, dtype=dtype)
    return made.masked_fill_(mask.logical_not(), -math.inf)


def padded(torch, mask, q, k):
    """Rows of a multiple of 16 elements, expanded to all heads."""
    multiple = 16
    rest = mask.shape[-1] % multiple
    if rest:
        mask = torch.nn.functional.pad(mask, (0, multiple - rest))[..., :mask.shape[-1]]
    return mask.expand(q.shape[0], q.shape[1], q.shape[-2], k.shape[-2])


def call(torch, capability, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
         enable_gqa=False):
    """scaled_dot_product_attention by the ops that it calls on a card of this compute capability."""
    q, k, v, mask = cast_as_autocast_does(torch, [query, key, value, attn_mask])
    aten = torch.ops.aten
    mask = additive(torch, mask, q.dtype)
    keeps = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if takes_cudnn(torch, capability, q, k, v, mask, is_causal, enable_gqa):
        return aten._scaled_dot_product_cudnn_attention(q, k, v, mask, keeps, dropout_p, is_causal, False,
                                                        scale=scale)[0]
    if takes_flash(torch, capability, q, k, v, mask, is_causal, enable_gqa):
        width = q.shape[-1]
        scale = 1 / math.sqrt(width) if scale is None else scale
        if width % 8:
            q, k, v = (torch.nn.functional.pad(x, (0, 8 - width % 8)) for x in (q, k, v))
        result = aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
        return result[..., :width] if result.shape[-1] != width else result
    if takes_efficient(torch, capability, q, k, v, mask, enable_gqa):
        if mask is not None:
            mask = padded(torch, mask, q, k)
        return aten._scaled_dot_product_efficient_attention(q, k, v, mask, keeps, dropout_p, is_causal, scale=scale)[0]
    return aten._scaled_dot_product_attention_math(q, k, v, mask, dropout_p, is_causal, None, scale=scale,
                                                   enable_gqa=enable_gqa)[0]
