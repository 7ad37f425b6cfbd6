"""Exports models of transformers, timm and torchvision that no other test has, with random weights.

`python write_torch.py FOLDER [NAME …]` writes NAME.pt2 and NAME.npz: of each call its inputs
(`CALL/in/N`) and what the model returns eagerly (`CALL/out/PATH`). Runs where torch is installed.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "pytorch"))

import inputs
import numpy as np
import torch
from make_models import settled
from record import as_numpy, export, results, seed

type Case = tuple[torch.nn.Module, Callable[[], dict[str, Any]]]

CASES: dict[str, Callable[[], Case]] = {}

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
SEQUENCES = {
    "vocab_size": 100,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


def tokens() -> dict[str, Any]:
    mask = (torch.rand(2, 11) > 0.3).to(torch.int64)
    mask[:, 0] = 1
    return {"input_ids": torch.randint(3, 90, (2, 11)), "attention_mask": mask}


def decoder() -> dict[str, Any]:
    return {**tokens(), "use_cache": False}


def pair() -> dict[str, Any]:
    return {**decoder(), "decoder_input_ids": torch.randint(3, 90, (2, 6))}


def pixels(size: int = 32, batch: int = 2) -> Callable[[], dict[str, Any]]:
    return lambda: {"pixel_values": torch.randn(batch, 3, size, size)}


def sound() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400)}


def hf(
    name: str, model: str, config: str, given: Callable[[], dict[str, Any]], **options: Any
) -> None:
    def make() -> Case:
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        return made, given

    CASES[f"hf_{name}"] = make


def timm(name: str, size: int = 64, **options: Any) -> None:
    def make() -> Case:
        import timm as library

        made = library.create_model(name, pretrained=False, num_classes=10, **options)
        return settled(made), lambda: {"x": torch.randn(2, 3, size, size)}

    CASES[f"timm_{name}"] = make


def vision(name: str, size: int = 64, **options: Any) -> None:
    def make() -> Case:
        import torchvision

        made = getattr(torchvision.models, name)(weights=None, num_classes=10, **options)
        return settled(made), lambda: {"x": torch.randn(2, 3, size, size)}

    CASES[f"torchvision_{name}"] = make


for _name, _options in {
    "Falcon": {"num_kv_heads": 2, "new_decoder_architecture": True},
    "GPTJ": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "StableLm": {},
    "Phi3": {},
    "Gemma2": {"head_dim": 8, "sliding_window": 4},
    "Olmo": {},
    "Olmo2": {},
    "Starcoder2": {},
    "Cohere": {},
    "Granite": {},
    "Glm": {"head_dim": 8},
    "SmolLM3": {},
    "Nemotron": {},
    "Persimmon": {},
}.items():
    hf(_name.lower(), f"{_name}ForCausalLM", f"{_name}Config", decoder, **{**GROUPED, **_options})
_MOE = {"experts_implementation": "batched_mm", "num_experts_per_tok": 2}
hf(
    "mixtral",
    "MixtralForCausalLM",
    "MixtralConfig",
    decoder,
    num_local_experts=4,
    **GROUPED,
    **_MOE,
)
hf(
    "qwen2_moe",
    "Qwen2MoeForCausalLM",
    "Qwen2MoeConfig",
    decoder,
    num_experts=4,
    moe_intermediate_size=16,
    shared_expert_intermediate_size=32,
    **GROUPED,
    **_MOE,
)
hf(
    "mamba",
    "MambaForCausalLM",
    "MambaConfig",
    lambda: {"input_ids": tokens()["input_ids"], "use_cache": False},
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    state_size=4,
)
for _name, _options in {
    "ModernBert": {"global_attn_every_n_layers": 2, "local_attention": 4, "pad_token_id": 0},
    "XLMRoberta": {},
    "RoFormer": {},
    "ConvBert": {},
    "SqueezeBert": {"embedding_size": 32},
    "MobileBert": {"embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "Nystromformer": {"num_landmarks": 4, "segment_means_seq_len": 11},
    "Esm": {"pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "rotary"},
    "Ernie": {},
    "MegatronBert": {},
    "Splinter": {},
    "LayoutLM": {},
}.items():
    hf(_name.lower(), f"{_name}Model", f"{_name}Config", tokens, **{**SMALL, **_options})
hf("fnet", "FNetModel", "FNetConfig", lambda: {"input_ids": tokens()["input_ids"]}, **SMALL)
hf(
    "xlnet",
    "XLNetModel",
    "XLNetConfig",
    lambda: {**tokens(), "use_mems": False},
    vocab_size=100,
    d_model=32,
    n_layer=2,
    n_head=4,
    d_inner=64,
)
hf(
    "funnel",
    "FunnelModel",
    "FunnelConfig",
    tokens,
    vocab_size=100,
    block_sizes=[1, 1],
    d_model=32,
    n_head=4,
    d_head=8,
    d_inner=64,
)
for _name in ("Pegasus", "MBart", "M2M100", "Blenderbot", "Marian"):
    hf(_name.lower(), f"{_name}Model", f"{_name}Config", pair, **SEQUENCES)
hf(
    "umt5",
    "UMT5Model",
    "UMT5Config",
    pair,
    vocab_size=100,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
)
_SOUND = {
    **{key: value for key, value in SMALL.items() if key != "max_position_embeddings"},
    "conv_dim": [16, 16],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
hf("hubert", "HubertModel", "HubertConfig", sound, **_SOUND)
hf("wavlm", "WavLMModel", "WavLMConfig", sound, num_buckets=32, max_bucket_distance=80, **_SOUND)
hf("beit", "BeitModel", "BeitConfig", pixels(), **VISION)
hf(
    "yolos",
    "YolosModel",
    "YolosConfig",
    pixels(),
    **{**VISION, "image_size": [32, 32]},
    num_detection_tokens=5,
)
hf("siglip_vision", "SiglipVisionModel", "SiglipVisionConfig", pixels(), **VISION)
hf("ijepa", "IJepaModel", "IJepaConfig", pixels(), **VISION)
hf(
    "vit_hybrid_dpt",
    "DPTForDepthEstimation",
    "DPTConfig",
    pixels(),
    **{**VISION, "num_hidden_layers": 4},
    backbone_out_indices=[0, 1, 2, 3],
    neck_hidden_sizes=[8, 16, 16, 16],
    fusion_hidden_size=16,
    reassemble_factors=[4, 2, 1, 0.5],
)
hf(
    "mobilenet_v1",
    "MobileNetV1Model",
    "MobileNetV1Config",
    pixels(),
    depth_multiplier=0.25,
    min_depth=8,
)
hf(
    "regnet",
    "RegNetModel",
    "RegNetConfig",
    pixels(),
    embedding_size=8,
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
    groups_width=8,
)
hf(
    "convnextv2",
    "ConvNextV2Model",
    "ConvNextV2Config",
    pixels(),
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
)
hf(
    "cvt",
    "CvtModel",
    "CvtConfig",
    pixels(64),
    embed_dim=[8, 16, 24],
    num_heads=[1, 2, 3],
    depth=[1, 1, 1],
)
hf(
    "pvt_v2",
    "PvtV2Model",
    "PvtV2Config",
    pixels(64),
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 1, 2, 2],
)
hf(
    "focalnet",
    "FocalNetModel",
    "FocalNetConfig",
    pixels(32),
    embed_dim=16,
    depths=[1, 1],
    focal_levels=[2, 2],
    focal_windows=[3, 3],
    image_size=32,
)
hf(
    "glpn",
    "GLPNModel",
    "GLPNConfig",
    pixels(64),
    depths=[1, 1, 1, 1],
    hidden_sizes=[8, 16, 24, 32],
    num_attention_heads=[1, 1, 2, 2],
    decoder_hidden_size=16,
)
hf(
    "videomae",
    "VideoMAEModel",
    "VideoMAEConfig",
    lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)},
    num_frames=4,
    **VISION,
)
hf(
    "patchtst",
    "PatchTSTForPrediction",
    "PatchTSTConfig",
    lambda: {"past_values": torch.randn(2, 32, 3)},
    num_input_channels=3,
    context_length=32,
    prediction_length=8,
    patch_length=4,
    patch_stride=4,
    d_model=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    ffn_dim=32,
)
hf(
    "patchtsmixer",
    "PatchTSMixerForPrediction",
    "PatchTSMixerConfig",
    lambda: {"past_values": torch.randn(2, 32, 3)},
    num_input_channels=3,
    context_length=32,
    prediction_length=8,
    patch_length=4,
    patch_stride=4,
    d_model=16,
    num_layers=2,
)
for _name, _size in (
    ("densenet121", 64),
    ("ese_vovnet19b_dw", 64),
    ("rexnet_100", 64),
    ("mixnet_s", 64),
    ("tinynet_e", 64),
    ("hrnet_w18_small", 64),
    ("repghostnet_050", 64),
    ("starnet_s1", 64),
    ("efficientvit_b0", 64),
    ("convmixer_768_32", 32),
    ("mobileone_s0", 64),
    ("hgnetv2_b0", 64),
    ("selecsls42b", 64),
    ("dla34", 64),
    ("skresnet18", 64),
    ("resnetblur50", 64),
    ("botnet26t_256", 128),
    ("crossvit_tiny_240", 240),
    ("visformer_tiny", 224),
    ("convit_tiny", 224),
    ("tnt_s_legacy_patch16_224", 224),
    ("efficientformer_l1", 224),
    ("tiny_vit_5m_224", 224),
    ("mobilenetv5_base", 64),
    ("shvit_s1", 128),
):
    timm(_name, _size)
vision("googlenet", 64, aux_logits=False, init_weights=True)
vision("shufflenet_v2_x1_0", 64)


def arrays(given: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    return [value.numpy() for value in given.values() if isinstance(value, torch.Tensor)]


def write(folder: Path, name: str) -> None:
    seed(name)
    module, given = CASES[name]()
    module = module.eval()
    first = given()
    calls = inputs.every(arrays(first), arrays(given()))
    recorded: dict[str, np.ndarray[Any, Any]] = {}
    with torch.no_grad():
        for call, values in calls.items():
            tensors = iter(torch.from_numpy(value.copy()) for value in values)
            passed = {
                key: next(tensors) if isinstance(value, torch.Tensor) else value
                for key, value in first.items()
            }
            found = results(module(**passed))
            recorded |= {f"{call}/in/{i:03}": value for i, value in enumerate(values)}
            recorded |= {f"{call}/out/{path}": as_numpy(value) for path, value in found.items()}
        export(folder, name, module, (), first)
    np.savez(folder / f"{name}.npz", **recorded)


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or CASES:
        if (folder / f"{name}.npz").exists():
            continue
        try:
            write(folder, name)
            print(name, "written", flush=True)
        except Exception as error:  # noqa: BLE001  what torch cannot export is told
            line = traceback.format_exception_only(error)[-1].strip().splitlines()[0][:200]
            print(name, "not exported:", line, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(Path(sys.argv[1]), sys.argv[2:])
