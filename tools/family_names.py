"""Families that `transformers` has no code for, by `model_type`: their models come with code of their own."""

OWN_CODE = ("deepseek", "minicpm", "minicpm3", "internlm", "internlm2", "qwen", "baichuan", "orion", "chatglm",
            "hf_olmo", "molmo", "openmoe")
