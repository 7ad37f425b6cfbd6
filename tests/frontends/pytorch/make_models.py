"""Exports whole models, made from configurations with random weights.

`python make_models.py FOLDER [NAME …]` writes NAME.pt2 and NAME.npz there (`record.py`) and
`failed.json` with what torch itself could not export.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from record import record, record_steps, seed
from torch import nn
from torch.export import Dim

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
    """Statistics of normalization as after some training, not 0 and 1; no weight that hides what
    came before.
    """
    for parameter in model.parameters():
        if not parameter.detach().any():
            nn.init.normal_(parameter, 0, 0.05)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model


for _name in (
    "resnet18",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "squeezenet1_1",
    "shufflenet_v2_x0_5",
    "mnasnet0_5",
):
    vision(_name)
vision("efficientnet_b0", 64)
vision("regnet_y_400mf", 64)

for _name, _size in (
    ("test_vit", 160),
    ("test_vit2", 64),
    ("test_vit3", 160),
    ("test_resnet", 64),
    ("test_efficientnet", 64),
    ("test_efficientnet_gn", 64),
    ("test_efficientnet_ln", 64),
    ("test_efficientnet_evos", 64),
    ("test_byobnet", 64),
    ("test_convnext", 64),
    ("test_convnext2", 64),
    ("test_convnext3", 64),
    ("test_nfnet", 64),
    ("test_mambaout", 64),
    ("mobilevit_xxs", 64),
    ("edgenext_xx_small", 64),
    ("ghostnet_050", 64),
    ("repvgg_a0", 64),
    ("hardcorenas_a", 64),
    ("mobilenetv4_conv_small_050", 64),
    ("fastvit_t8", 64),
    ("lcnet_050", 64),
    ("res2net50_26w_4s", 64),
):
    if _name == "test_vit2":
        pytorch_image(_name, 160)
    else:
        pytorch_image(_name, _size)
pytorch_image("levit_128s", 224)
pytorch_image("xcit_nano_12_p16_224", 64)
pytorch_image("pvt_v2_b0", 64)
pytorch_image("poolformer_s12", 64)
pytorch_image("mixer_s32_224", 64, img_size=64)
pytorch_image("gmlp_ti16_224", 64, img_size=64)
pytorch_image(
    "swin_tiny_patch4_window7_224", 56, img_size=56, embed_dim=24, depths=(2, 2), num_heads=(2, 4)
)
pytorch_image(
    "swinv2_tiny_window8_256", 64, img_size=64, embed_dim=24, depths=(2, 2), num_heads=(2, 4)
)
pytorch_image("beit_base_patch16_224", 64, img_size=64, embed_dim=48, depth=2, num_heads=4)
pytorch_image("cait_xxs24_224", 64, img_size=64, depth=2)
pytorch_image("coatnet_pico_rw_224", 224)
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
        self.down1, self.down2, self.middle = (
            self.double(3, 8),
            self.double(8, 16),
            self.double(16, 32),
        )
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.left2, self.left1, self.last = (
            self.double(32, 16),
            self.double(16, 8),
            nn.Conv2d(8, 4, 1),
        )

    def double(self, i: int, o: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            nn.BatchNorm2d(o),
            nn.ReLU(True),
            nn.Conv2d(o, o, 3, padding=1),
            nn.BatchNorm2d(o),
            nn.ReLU(True),
        )

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
    return (
        nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).bfloat16(),
        (torch.randn(3, 16).bfloat16(),),
        {},
    )


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x).relu(), (x,))


@case
def branch() -> Case:
    return Branch(), (torch.randn(4, 8),), {"other": (-torch.randn(4, 8).abs(),)}


def text(name: str, config: str, model: str, **options: Any) -> None:
    """A transformers model. `_inputs`: its arguments, a function; `_options`: of the export."""
    inputs = options.pop("_inputs", ids)
    more = options.pop("_options", {})

    def make() -> Case:
        import transformers

        made = getattr(transformers, config)(**options)
        return getattr(transformers, model)(made), (), {"kwargs": inputs(), **more}

    CASES[f"hf_{name}"] = make


def ids() -> dict[str, Any]:
    mask = torch.ones(2, 11, dtype=torch.int64)
    mask[1, 8:] = 0
    return {"input_ids": torch.randint(3, 90, (2, 11)), "attention_mask": mask}


def decoder_ids() -> dict[str, Any]:
    return {**ids(), "use_cache": False}


def pixels() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
ViT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
text("bert", "BertConfig", "BertModel", **SMALL)
text("roberta", "RobertaConfig", "RobertaModel", **SMALL)
text("electra", "ElectraConfig", "ElectraModel", embedding_size=16, **SMALL)
text("albert", "AlbertConfig", "AlbertModel", embedding_size=16, **SMALL)
text("mpnet", "MPNetConfig", "MPNetModel", **SMALL)
text(
    "deberta",
    "DebertaV2Config",
    "DebertaV2Model",
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
    **SMALL,
)
text(
    "distilbert",
    "DistilBertConfig",
    "DistilBertModel",
    vocab_size=100,
    dim=32,
    n_layers=2,
    n_heads=4,
    hidden_dim=64,
)
text(
    "gpt2",
    "GPT2Config",
    "GPT2LMHeadModel",
    vocab_size=100,
    n_embd=32,
    n_layer=2,
    n_head=4,
    n_positions=64,
    _inputs=decoder_ids,
)
text(
    "llama", "LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2, _inputs=decoder_ids, **SMALL
)
text(
    "mistral",
    "MistralConfig",
    "MistralForCausalLM",
    num_key_value_heads=2,
    sliding_window=4,
    _inputs=decoder_ids,
    **SMALL,
)
text(
    "qwen2", "Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2, _inputs=decoder_ids, **SMALL
)
text(
    "qwen3",
    "Qwen3Config",
    "Qwen3ForCausalLM",
    num_key_value_heads=2,
    head_dim=8,
    _inputs=decoder_ids,
    **SMALL,
)
text(
    "gemma",
    "GemmaConfig",
    "GemmaForCausalLM",
    num_key_value_heads=2,
    head_dim=8,
    _inputs=decoder_ids,
    **SMALL,
)
text("phi", "PhiConfig", "PhiForCausalLM", _inputs=decoder_ids, **SMALL)
text(
    "opt",
    "OPTConfig",
    "OPTForCausalLM",
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    ffn_dim=64,
    word_embed_proj_dim=32,
    max_position_embeddings=64,
    _inputs=decoder_ids,
)
text("neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", _inputs=decoder_ids, **SMALL)
text(
    "bloom",
    "BloomConfig",
    "BloomForCausalLM",
    vocab_size=100,
    hidden_size=32,
    n_layer=2,
    n_head=4,
    _inputs=decoder_ids,
)
text(
    "t5_encoder",
    "T5Config",
    "T5EncoderModel",
    vocab_size=100,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
)
text(
    "t5",
    "T5Config",
    "T5Model",
    vocab_size=100,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
    _inputs=lambda: {**decoder_ids(), "decoder_input_ids": torch.randint(3, 90, (2, 6))},
)
text(
    "bart",
    "BartConfig",
    "BartModel",
    vocab_size=100,
    d_model=32,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    max_position_embeddings=64,
    _inputs=lambda: {**decoder_ids(), "decoder_input_ids": torch.randint(3, 90, (2, 6))},
)
text("vit", "ViTConfig", "ViTModel", _inputs=pixels, **ViT)
text("deit", "DeiTConfig", "DeiTModel", _inputs=pixels, **ViT)
text("dinov2", "Dinov2Config", "Dinov2Model", _inputs=pixels, **ViT)
text(
    "swin",
    "SwinConfig",
    "SwinModel",
    image_size=32,
    patch_size=4,
    embed_dim=16,
    depths=[2, 2],
    num_heads=[2, 4],
    window_size=4,
    _inputs=pixels,
)
text(
    "convnext",
    "ConvNextConfig",
    "ConvNextModel",
    hidden_sizes=[8, 16, 32, 64],
    depths=[1, 1, 1, 1],
    _inputs=pixels,
)
text(
    "segformer",
    "SegformerConfig",
    "SegformerForSemanticSegmentation",
    depths=[1, 1, 1, 1],
    hidden_sizes=[8, 16, 24, 32],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=32,
    _inputs=lambda: {"pixel_values": torch.randn(1, 3, 64, 64)},
)
text(
    "wav2vec2",
    "Wav2Vec2Config",
    "Wav2Vec2Model",
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    conv_dim=[16, 16],
    conv_stride=[5, 2],
    conv_kernel=[10, 3],
    num_feat_extract_layers=2,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
    _inputs=lambda: {"input_values": torch.randn(2, 400)},
)


@case
def hf_whisper_encoder() -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        vocab_size=100,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        max_source_positions=20,
        pad_token_id=0,
    )
    return WhisperEncoder(config), (torch.randn(2, 16, 40),), {}


@case
def hf_clip() -> Case:
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig(
        text_config={**SMALL, "eos_token_id": 2}, vision_config=ViT, projection_dim=16
    )
    return CLIPModel(config), (), {"kwargs": {**ids(), **pixels()}}


@case
def hf_detr() -> Case:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    config = DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
        ),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=5,
    )
    return (
        DetrForObjectDetection(config),
        (),
        {"kwargs": {"pixel_values": torch.randn(1, 3, 64, 64)}},
    )


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
    return (
        Cached(model),
        (token, past(6)),
        {
            "dynamic": {"token": None, "past": [(axis, axis), (axis, axis)]},
            "other": (token, past(13)),
        },
    )


@case
def hf_bert_batch_seq() -> Case:
    from transformers import BertConfig, BertModel

    axes = {0: Dim("batch", max=8), 1: Dim("seq", min=2, max=64)}
    other = torch.randint(3, 90, (3, 20)), torch.ones(3, 20, dtype=torch.int64)
    inputs = tuple(ids().values())
    return (
        BertModel(BertConfig(**SMALL)),
        inputs,
        {
            "dynamic": {"input_ids": axes, "attention_mask": axes},
            "other": other,
        },
    )


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
    "torchvision_resnet18",
    "torchvision_efficientnet_b0",
    "timm_test_vit",
    "timm_test_convnext",
    "unet",
    "lstm",
    "encoder",
    "hf_bert",
    "hf_llama",
    "hf_t5_encoder",
    "hf_swin",
    "timm_swin_tiny_patch4_window7_224",
    "branch",
    "torchvision_mobilenet_v3_small",
    "hf_whisper_encoder",
)
"""Exported a second time, as core ATen."""


def main(folder: Path, names: list[str]) -> None:
    failed: dict[str, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    every = [(name, False) for name in CASES] + [(name, True) for name in DECOMPOSED]
    for name, decomposed in every:
        label = f"{name}.decomposed" if decomposed else name
        if names and label not in names:
            continue
        began = time.monotonic()
        seed(name)
        try:
            module, args, options = CASES[name]()
            record(folder, label, module, args, decomposed=decomposed, **options)
        except Exception as error:  # noqa: BLE001  whatever torch cannot export is told
            failed[label] = f"{type(error).__name__}: {error}"[:300]
        print(
            f"{label}: {failed.get(label, 'ok')[:200]} ({time.monotonic() - began:.1f} s)",
            flush=True,
        )
    variants = [("", False, False), (".decomposed", True, False), (".strict", False, True)]
    for name, make in STEPS.items():
        for suffix, decomposed, strict in variants:
            label = name + suffix
            if names and label not in names:
                continue
            seed(name)
            steps = folder.with_name("steps")
            steps.mkdir(exist_ok=True)
            try:
                model, calls, training = make()
                record_steps(steps, label, model, calls, decomposed, training, strict)
            except Exception as error:  # noqa: BLE001  whatever torch cannot export is told
                failed[label] = f"{type(error).__name__}: {error}"[:300]
            print(f"{label}: {failed.get(label, 'ok')[:200]}", flush=True)
    (folder / "failed.json").write_text(json.dumps(failed, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
