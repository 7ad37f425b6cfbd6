"""Exports whole models, made from configurations with random weights.

`python -m scripts.models.torch_models FOLDER [NAME …]` writes NAME.pt2 and NAME.npz there
(`torch_recording.py`) and `failed.json` with what torch itself could not export.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from scripts.models.torch_recording import record, record_steps, seed

# timm imports torchvision, whose compiled operators fit a single torch. It insists on two of them.
try:
    import torchvision
except RuntimeError:
    _library = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for _module in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[_module]
    import torchvision

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]

CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def image(size: int = 64, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def vision(name: str, size: int = 64, **options: Any) -> None:
    def make() -> Case:
        model = getattr(torchvision.models, name)(weights=None, num_classes=10, **options)
        return settled(model), (image(size),), {}

    CASES[f"torchvision_{name}"] = make


def pytorch_image(name: str, size: int = 64, **options: Any) -> None:
    def make() -> Case:
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=10, **options)
        return settled(model), (image(size),), {}

    CASES[f"timm_{name}"] = make


def settled(model: nn.Module) -> nn.Module:
    """Set statistics of normalization as training does, and no weight to 0: it hides its input."""
    for parameter in model.parameters():
        if not parameter.detach().any():
            nn.init.normal_(parameter, 0, 0.05)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model


for _name in (
    *("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5"),
    *("mnasnet0_5", "efficientnet_b0", "regnet_y_400mf", "shufflenet_v2_x1_0"),
):
    vision(_name)
vision("googlenet", aux_logits=False, init_weights=True)

for _size, _names in {
    32: ("convmixer_768_32",),
    64: (
        *("test_resnet", "test_efficientnet", "test_efficientnet_gn", "test_efficientnet_ln"),
        *("test_efficientnet_evos", "test_byobnet", "test_convnext", "test_convnext2"),
        *("test_convnext3", "test_nfnet", "test_mambaout", "mobilevit_xxs", "edgenext_xx_small"),
        *("ghostnet_050", "repvgg_a0", "hardcorenas_a", "mobilenetv4_conv_small_050", "fastvit_t8"),
        *("lcnet_050", "res2net50_26w_4s", "xcit_nano_12_p16_224", "pvt_v2_b0", "poolformer_s12"),
        *("densenet121", "ese_vovnet19b_dw", "rexnet_100", "mixnet_s", "tinynet_e"),
        *("hrnet_w18_small", "repghostnet_050", "starnet_s1", "efficientvit_b0", "mobileone_s0"),
        *("hgnetv2_b0", "selecsls42b", "dla34", "skresnet18", "resnetblur50", "mobilenetv5_base"),
    ),
    128: ("shvit_s1",),
    160: ("test_vit", "test_vit2", "test_vit3"),
    224: (
        *("levit_128s", "coatnet_pico_rw_224", "convit_tiny"),
        *("tnt_s_legacy_patch16_224", "efficientformer_l1", "tiny_vit_5m_224"),
    ),
    240: ("crossvit_tiny_240",),
}.items():
    for _name in _names:
        pytorch_image(_name, _size)
NARROW = {"embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)}
pytorch_image("mixer_s32_224", img_size=64)
pytorch_image("gmlp_ti16_224", img_size=64)
pytorch_image("swin_tiny_patch4_window7_224", 56, img_size=56, **NARROW)
pytorch_image("swinv2_tiny_window8_256", img_size=64, **NARROW)
pytorch_image("beit_base_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=4)
pytorch_image("cait_xxs24_224", img_size=64, depth=2)
pytorch_image("eva02_tiny_patch14_224", 56, img_size=56, depth=2)


@case
def resnet18_batch() -> Case:
    x = image()
    options = {"dynamic": {"x": {0: Dim("batch", min=1, max=64)}}, "other": (image(batch=5),)}
    return settled(torchvision.models.resnet18(num_classes=10)), (x,), options


@case
def deeplab() -> Case:
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=5
    )
    return settled(model), (image(),), {}


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = self.double(3, 8), self.double(8, 16)
        self.middle = self.double(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.left2, self.left1 = self.double(32, 16), self.double(16, 8)
        self.last = nn.Conv2d(8, 4, 1)

    def double(self, i: int, o: int) -> nn.Module:
        steps = [
            (nn.Conv2d(size, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True)) for size in (i, o)
        ]
        return nn.Sequential(*steps[0], *steps[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(nn.functional.max_pool2d(a, 2))
        c = self.middle(nn.functional.max_pool2d(b, 2))
        b = self.left2(torch.cat([self.up2(c), b], 1))
        return self.last(self.left1(torch.cat([self.up1(b), a], 1)))


@case
def unet() -> Case:
    return settled(UNet()), (image(32),), {}


class Tagger(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 12, padding_idx=0)
        self.rnn = kind(12, 10, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(20, 5)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, Any]:
        y, state = self.rnn(self.embedding(ids))
        return self.head(y), state


@case
def lstm() -> Case:
    ids = torch.randint(0, 50, (3, 7))
    shapes = {"ids": {0: Dim("batch", min=1, max=16)}}
    return Tagger(nn.LSTM), (ids,), {"dynamic": shapes, "other": (torch.randint(0, 50, (6, 7)),)}


@case
def gru() -> Case:
    return Tagger(nn.GRU), (torch.randint(0, 50, (3, 7)),), {}


@case
def rnn() -> Case:
    return Tagger(nn.RNN), (torch.randint(0, 50, (3, 7)),), {}


@case
def encoder() -> Case:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    shapes = {"src": {0: Dim("batch", max=16), 1: Dim("seq", min=2, max=64)}}
    return model, (torch.randn(2, 9, 32),), {"dynamic": shapes, "other": (torch.randn(3, 17, 32),)}


@case
def transformer() -> Case:
    model = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    given = {"tgt_mask": mask, "tgt_is_causal": True}
    return model, (torch.randn(2, 9, 32), torch.randn(2, 5, 32)), {"kwargs": given}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(40, 16), nn.Linear(16, 40, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(ids)))


@case
def tied() -> Case:
    return Tied(), (torch.randint(0, 40, (2, 5)),), {}


@case
def bfloat16() -> Case:
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    return model.bfloat16(), (torch.randn(3, 16).bfloat16(),), {}


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x).relu(), (x,))


@case
def branch() -> Case:
    return Branch(), (torch.randn(4, 8),), {"other": (-torch.randn(4, 8).abs(),)}


def text(name: str, kind: str, given: Callable[[], dict[str, Any]], **options: Any) -> None:
    """Add a model of transformers.

    kind: its class; the configuration is named like it.  given: the arguments of a call.
    """

    def make() -> Case:
        import transformers

        library = re.match(r".*?(?=Model$|For[A-Z]|LMHead|Encoder)", kind)[0]
        config = getattr(transformers, f"{library}Config")(**options)
        return getattr(transformers, kind)(config), (), {"kwargs": given()}

    CASES[f"hf_{name}"] = make


def ids() -> dict[str, Any]:
    mask = torch.ones(2, 11, dtype=torch.int64)
    mask[1, 8:] = 0
    return {"input_ids": torch.randint(3, 90, (2, 11)), "attention_mask": mask}


def decoder_ids() -> dict[str, Any]:
    return {**ids(), "use_cache": False}


def both_ids() -> dict[str, Any]:
    return {**decoder_ids(), "decoder_input_ids": torch.randint(3, 90, (2, 6))}


def pixels(size: int = 32, batch: int = 2) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def sound() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400)}


LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {**LAYERS, "intermediate_size": 64}
SMALL = {**WIDE, "vocab_size": 100, "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
ViT = {**WIDE, "image_size": 32, "patch_size": 8}
GPT = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
T5 = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
LAYER = {"encoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
PAIRS = {"d_model": 32, **LAYER, **{k.replace("en", "de", 1): v for k, v in LAYER.items()}}
SPOKEN = {"vocab_size": 100, "max_position_embeddings": 64, "pad_token_id": 0, **PAIRS}
SOUND = {**WIDE, "vocab_size": 100, "conv_dim": [16, 16], "conv_stride": [5, 2]}
SOUND |= {"conv_kernel": [10, 3], "num_feat_extract_layers": 2}
SOUND |= {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
SEGMENTS = {**STAGES, "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32}
EXPERTS = {**GROUPED, "experts_implementation": "batched_mm", "num_experts_per_tok": 2}

OF_TEXT = (
    *("Bert", "Roberta", "MPNet", "Ernie", "XLMRoberta", "RoFormer", "ConvBert"),
    *("MegatronBert", "Splinter", "LayoutLM"),
)
for _kind, _options in {
    **{kind: {} for kind in OF_TEXT},
    "Electra": {"embedding_size": 16},
    "Albert": {"embedding_size": 16},
    "SqueezeBert": {"embedding_size": 32},
    "DebertaV2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "ModernBert": {"global_attn_every_n_layers": 2, "local_attention": 4, "pad_token_id": 0},
    "MobileBert": {"embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "Esm": {"pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "rotary"},
}.items():
    text(_kind.lower(), f"{_kind}Model", ids, **{**SMALL, **_options})
DECODERS = (
    *("Llama", "Qwen2", "Phi", "GPTNeoX", "StableLm", "Phi3", "Olmo", "Olmo2", "Starcoder2"),
    *("Cohere", "Granite", "SmolLM3", "Nemotron", "Persimmon"),
)
for _kind, _options in {
    **{kind: {} for kind in DECODERS},
    **{kind: {"head_dim": 8} for kind in ("Qwen3", "Gemma", "Glm")},
    "Gemma2": {"head_dim": 8, "sliding_window": 4},
    "Mistral": {"sliding_window": 4},
    "Falcon": {"num_kv_heads": 2, "new_decoder_architecture": True},
}.items():
    text(_kind.lower(), f"{_kind}ForCausalLM", decoder_ids, **GROUPED, **_options)
for _kind in ("Pegasus", "MBart", "M2M100", "Blenderbot", "Marian", "Bart"):
    text(_kind.lower(), f"{_kind}Model", both_ids, **SPOKEN)
for _kind in ("ViT", "DeiT", "Dinov2", "Beit", "SiglipVision", "IJepa"):
    text(_kind.lower(), f"{_kind}Model", pixels, **ViT)
_only_ids = lambda: {"input_ids": ids()["input_ids"]}  # noqa: E731
_four = {"n_layers": 2, "n_heads": 4}
text("distilbert", "DistilBertModel", ids, vocab_size=100, dim=32, **_four, hidden_dim=64)
text("fnet", "FNetModel", _only_ids, **SMALL)
text("gpt2", "GPT2LMHeadModel", decoder_ids, **GPT)
text("gptj", "GPTJForCausalLM", decoder_ids, **GPT, rotary_dim=4)
text("bloom", "BloomForCausalLM", decoder_ids, **{**GPT, "hidden_size": 32})
text("opt", "OPTForCausalLM", decoder_ids, **SMALL, ffn_dim=64, word_embed_proj_dim=32)
text("mixtral", "MixtralForCausalLM", decoder_ids, **EXPERTS, num_local_experts=4)
_moe = {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 32}
text("qwen2_moe", "Qwen2MoeForCausalLM", decoder_ids, **EXPERTS, **_moe)
_mamba = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
text("mamba", "MambaForCausalLM", lambda: {**_only_ids(), "use_cache": False}, **_mamba)
_xl = {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}
text("xlnet", "XLNetModel", lambda: {**ids(), "use_mems": False}, **_xl)
text("funnel", "FunnelModel", ids, **_xl, block_sizes=[1, 1], d_head=8)
text("t5_encoder", "T5EncoderModel", ids, **T5)
text("t5", "T5Model", both_ids, **T5)
text("umt5", "UMT5Model", both_ids, **T5)
_swin = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4]}
text("swin", "SwinModel", pixels, **_swin, window_size=4)
text("convnext", "ConvNextModel", pixels, **STAGES)
text("convnextv2", "ConvNextV2Model", pixels, **STAGES)
text("segformer", "SegformerForSemanticSegmentation", lambda: pixels(64, 1), **SEGMENTS)
text("glpn", "GLPNModel", lambda: pixels(64), **{**SEGMENTS, "num_attention_heads": [1, 1, 2, 2]})
text("pvt_v2", "PvtV2Model", lambda: pixels(64), **STAGES, num_attention_heads=[1, 1, 2, 2])
text("regnet", "RegNetModel", pixels, **STAGES, embedding_size=8, groups_width=8)
text("mobilenet_v1", "MobileNetV1Model", pixels, depth_multiplier=0.25, min_depth=8)
_focal = {"embed_dim": 16, "depths": [1, 1], "focal_levels": [2, 2], "focal_windows": [3, 3]}
text("focalnet", "FocalNetModel", pixels, **_focal, image_size=32)
text("yolos", "YolosModel", pixels, **{**ViT, "image_size": [32, 32]}, num_detection_tokens=5)
_frames = lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)}  # noqa: E731
text("videomae", "VideoMAEModel", _frames, **ViT, num_frames=4)
_dpt = {"backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 16, 16, 16]}
_dpt |= {**ViT, "num_hidden_layers": 4, "fusion_hidden_size": 16}
text("dpt", "DPTForDepthEstimation", pixels, **_dpt, reassemble_factors=[4, 2, 1, 0.5])
text("wav2vec2", "Wav2Vec2Model", sound, **SOUND)
text("hubert", "HubertModel", sound, **SOUND)
text("wavlm", "WavLMModel", sound, **SOUND, num_buckets=32, max_bucket_distance=80)
_past = lambda: {"past_values": torch.randn(2, 32, 3)}  # noqa: E731
_times = {"num_input_channels": 3, "context_length": 32, "prediction_length": 8, "d_model": 16}
_times |= {"patch_length": 4, "patch_stride": 4}
_heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 32}
text("patchtst", "PatchTSTForPrediction", _past, **_times, **_heads)
text("patchtsmixer", "PatchTSMixerForPrediction", _past, **_times, num_layers=2)


@case
def hf_whisper_encoder() -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    options = {**LAYER, "encoder_layers": 2, "max_source_positions": 20, "pad_token_id": 0}
    config = WhisperConfig(vocab_size=100, num_mel_bins=16, d_model=32, **options)
    return WhisperEncoder(config), (torch.randn(2, 16, 40),), {}


@case
def hf_clip() -> Case:
    from transformers import CLIPConfig, CLIPModel

    words = {**SMALL, "eos_token_id": 2}
    config = CLIPConfig(text_config=words, vision_config=ViT, projection_dim=16)
    return CLIPModel(config), (), {"kwargs": {**ids(), **pixels()}}


@case
def hf_detr() -> Case:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    backbone = ResNetConfig(**sizes, out_features=["stage2"])
    options = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    config = DetrConfig(**options, backbone_config=backbone, **PAIRS, num_queries=5)
    return DetrForObjectDetection(config), (), {"kwargs": pixels(64, 1)}


class Cached(nn.Module):
    """A decoder's step: it takes keys and values of what came before, and adds its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, past: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (key, value) in enumerate(past):
            cache.update(key, value, layer)
        result = self.model(token, past_key_values=cache, use_cache=True)
        return result.logits, [(layer.keys, layer.values) for layer in cache.layers]


@case
def hf_llama_cache() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **SMALL))

    def past(length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(torch.randn(2, 2, length, 8), torch.randn(2, 2, length, 8)) for _ in range(2)]

    axis = {2: Dim.AUTO}
    token = torch.randint(3, 90, (2, 1))
    dynamic = {"token": None, "past": [(axis, axis), (axis, axis)]}
    return Cached(model), (token, past(6)), {"dynamic": dynamic, "other": (token, past(13))}


@case
def hf_bert_batch_seq() -> Case:
    from transformers import BertConfig, BertModel

    axes = {0: Dim("batch", max=8), 1: Dim("seq", min=2, max=64)}
    other = torch.randint(3, 90, (3, 20)), torch.ones(3, 20, dtype=torch.int64)
    dynamic = {"input_ids": axes, "attention_mask": axes}
    options = {"dynamic": dynamic, "other": other}
    return BertModel(BertConfig(**SMALL)), tuple(ids().values()), options


class StaticCache(nn.Module):
    """A decoder's step whose keys and values of what came before are buffers of a fixed size."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

        self.decoder = TorchExportableModuleWithStaticCache(model, 1, 12)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return self.decoder(input_ids=token, cache_position=position)


Steps = tuple[nn.Module, list[tuple[torch.Tensor, ...]], bool]


def llama_static_cache() -> Steps:
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, use_cache=True, **SMALL)).eval()
    model.generation_config = GenerationConfig(use_cache=True, cache_implementation="static")
    steps = [(torch.randint(3, 90, (1, 1)), torch.tensor([number])) for number in range(5)]
    return StaticCache(model), steps, False


def resnet18_training() -> Steps:
    model = settled(torchvision.models.resnet18(num_classes=10))
    return model, [(image(64, batch=8),) for _ in range(3)], True


STEPS: dict[str, Callable[[], Steps]] = {
    "hf_llama_static_cache": llama_static_cache,
    "resnet18_training": resnet18_training,
}
"""Models that their calls change: the calls, and whether in training."""


DECOMPOSED = (
    *("torchvision_resnet18", "torchvision_efficientnet_b0", "torchvision_mobilenet_v3_small"),
    *("timm_test_vit", "timm_test_convnext", "timm_swin_tiny_patch4_window7_224", "hf_swin"),
    *("unet", "lstm", "encoder", "branch", "hf_bert", "hf_llama", "hf_t5_encoder"),
    "hf_whisper_encoder",
)
"""Exported a second time, as core ATen."""


def main(folder: Path, names: list[str]) -> None:
    failed: dict[str, str] = {}
    steps = folder.with_name("steps")
    for each in (folder, steps):
        each.mkdir(parents=True, exist_ok=True)

    def tried(name: str, label: str, write: Callable[[], None]) -> None:
        if names and label not in names:
            return
        began = time.monotonic()
        seed(name)
        try:
            write()
        except Exception as error:  # noqa: BLE001  whatever torch cannot export is told
            failed[label] = f"{type(error).__name__}: {error}"[:300]
        seconds = time.monotonic() - began
        print(f"{label}: {failed.get(label, 'ok')[:200]} ({seconds:.1f} s)", flush=True)

    def model(name: str, label: str, decomposed: bool) -> None:
        module, args, options = CASES[name]()
        record(folder, label, module, args, decomposed=decomposed, **options)

    def changing(name: str, label: str, decomposed: bool, strict: bool) -> None:
        module, calls, training = STEPS[name]()
        record_steps(steps, label, module, calls, decomposed, training, strict)

    for name in CASES:
        tried(name, name, partial(model, name, name, False))
    for name in DECOMPOSED:
        label = f"{name}.decomposed"
        tried(name, label, partial(model, name, label, True))
    for name in STEPS:
        for suffix, *variant in (("", False, False), (".decomposed", True, False), STRICT):
            tried(name, name + suffix, partial(changing, name, name + suffix, *variant))
    (folder / "failed.json").write_text(json.dumps(failed, indent=1), encoding="utf-8")


STRICT = (".strict", False, True)

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
