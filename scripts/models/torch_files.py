"""Writes the `.pt2` files of tests/unit/frontends/pytorch, and what torch returns for them.

`python -m scripts.models.torch_files`, in the environment that `make test-torch` makes, writes them
anew.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers operators
from torch import nn
from torch.export import Dim

from scripts.models.torch_recording import record, record_steps, seed

FILES = Path(__file__).parents[2] / "tests" / "unit" / "frontends" / "pytorch" / "files"


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 3)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = nn.functional.relu_(self.norm(self.first(image)))
        return {"scores": self.last(x.mean((2, 3))), "features": x}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", torch.arange(6), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids) + self.positions[: ids.shape[1], None] / 10)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.rnn(x)


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x).relu(), (x,))


class Writes(nn.Module):
    """Writes in place into what others see, and into what only looks like it."""

    def forward(self, x: torch.Tensor) -> Any:
        a = x * 2
        row = a[1]
        row += 10
        a[:, 1:].mul_(3)
        turned = a.transpose(0, 1)
        turned[2] = -1.0
        parts = a.split(2, 1)
        parts[0].add_(x[:, :2])
        flat = a.view(-1)
        flat[::5].fill_(7)
        copied = a.clone()
        copied.zero_()
        b = x.sum(0)
        c = b.unsqueeze(0).expand(2, -1)
        b[0] = 5.0
        a.masked_fill_(a > 30, 30)
        return a, row, turned, parts[1], flat, copied, b, c


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


class WritesInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.relu_()
        return x + 1


class Trained(nn.Module):
    """Batch normalization as it is in training: each call changes its statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(3, momentum=0.3), nn.BatchNorm1d(3, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(x).relu_())


class Cache(nn.Module):
    """Earlier keys, written at a position and through views.

    A parameter decays, a buffer is only written, and nothing changes another.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 4, 3))
        self.register_buffer("last", torch.full((1, 1, 3), 0.5))
        self.register_buffer("steps", torch.tensor(2), persistent=False)
        self.register_buffer("bias", torch.randn(3))
        self.decay = nn.Parameter(torch.rand(3), requires_grad=False)

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> Any:
        first = self.keys[:, 0]
        self.keys.index_copy_(1, position, x * self.decay + self.bias)
        self.keys.transpose(1, 2)[:, 2].mul_(1.5)
        self.decay.mul_(0.5)
        self.steps += 1
        self.last.copy_(x)
        return {"sum": self.keys.sum(1), "first": first, "steps": self.steps}


class Aliased(nn.Module):
    """A buffer that changes, and another one in its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.zeros(4))
        self.register_buffer("part", self.whole[:2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.whole.add_(1)
        return x[:2] + self.part


class Refused(nn.Module):
    """Random numbers, and dropout that drops."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.rand_like(x) + torch.rand_like(x)
        return torch.dropout(x, 0.5, True) + noise + torch.special.airy_ai(x).sum()


class Solves(nn.Module):
    """Linear algebra of a matrix that is positive definite, and what is in its factors."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        matrix = x @ x.mT + torch.eye(x.shape[-2])
        values, vectors = torch.linalg.eigh(matrix)
        left, singular, right = torch.linalg.svd(x, full_matrices=False)
        orthogonal, upper = torch.linalg.qr(x)
        lower = torch.linalg.cholesky(matrix)
        factors, pivots = torch.linalg.lu_factor(matrix)
        return {
            "solved": torch.linalg.solve(matrix, y),
            "inverse": torch.linalg.inv(matrix),
            "by_lower": torch.linalg.solve_triangular(lower, y, upper=False),
            "by_factors": torch.cholesky_solve(y, lower),
            "determinant": torch.linalg.det(matrix),
            "logarithm": torch.linalg.slogdet(matrix).logabsdet,
            "values": values,
            "of_values": vectors @ torch.diag_embed(values) @ vectors.mT,
            "of_singular": left @ torch.diag_embed(singular) @ right,
            "of_orthogonal": orthogonal @ upper,
            "by_pivots": torch.linalg.lu_solve(factors, pivots, y, adjoint=True),
            "pseudo": torch.linalg.pinv(x),
            "norm": torch.linalg.norm(x, ord=2),
        }


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.register_buffer("large", torch.tensor([2**40, 1, 2, 3, 4]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.large.sum()


class Hashed(nn.Module):
    """An embedding of hashes, which are products of 64 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(97, 4)

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        bucket = (tokens * 1000003 + 17) % 97
        return {"bucket": bucket, "scores": self.table(bucket).mean(1)}


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        wide = torch.cat([x, y], 0).reshape(-1)
        return wide[: n * 2] * (n + m) + torch.arange(2 * n).float() / max(n, 3)


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) / x.shape[1]


class Related(nn.Module):
    """Sizes that are a multiple, and one more than another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return x.view(-1, 4, 2).sum(0), y + z[1:]


class Low(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class NoGrad(nn.Module):
    """A graph within the graph, which torch writes for `no_grad` inside of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a = x.cos() + x
            b = a.sin()
        return self.layer(a) * b


class Quantized(nn.Module):
    """As exports of PT2E have it: weights by channels, inputs by numbers that a call chooses."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(5, 4)
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))
        whole = torch.round(weight / self.scales[:, None]).to(torch.int8)
        self.register_buffer("weight", whole)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = torch.ops.quantized_decomposed
        limits = (-128, 127, torch.int8)
        chosen = q.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8)
        whole = q.quantize_per_tensor.tensor(x, *chosen, *limits)
        near = q.dequantize_per_tensor.tensor(whole, *chosen, *limits)
        weight = q.dequantize_per_channel.default(self.weight, self.scales, self.zeros, 0, *limits)
        return nn.functional.linear(near, weight)


class Daily(nn.Module):
    """Reductions of every day: NaN, ties, elements that nothing is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 2, mode="mean", padding_idx=0)
        self.register_buffer("table", torch.arange(100, 170))

    def forward(self, image: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = image[0, 0]
        index = ids[:, : rows.shape[1]].expand(rows.shape[0], -1)
        start = torch.ones(8, rows.shape[1])
        made = {
            kind: start.scatter_reduce(0, index, rows, kind, include_self=False)
            for kind in ("sum", "prod", "mean", "amax", "amin")
        }
        return {
            **made,
            "pooled": nn.functional.adaptive_max_pool2d(image, (2, 3)),
            "median": rows.median(1).values,
            "nanmedian": rows.nanmedian(0).values,
            "quantile": torch.quantile(rows, 0.3, dim=1),
            "bags": self.bag(ids),
            "table": self.table[ids + 60],
        }


class Pair(NamedTuple):
    logits: torch.Tensor
    pooled: torch.Tensor


torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="aotc.Pair")


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(
        self, batch: dict[str, torch.Tensor], scale: list[torch.Tensor], *, past: tuple[Any, ...]
    ) -> Pair:
        logits = self.layer(batch["image"] + past[0]) * scale[0] + batch["mask"][:, None]
        return Pair(logits, logits.mean(0))


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)

    def write(name: str, module: nn.Module, *args: Any, **options: Any) -> None:
        record(folder, name, module, args, **options)

    for name in ("convolutions", "convolutions.decomposed"):
        seed("convolutions")
        model = Convolutions()
        model.norm.running_mean.normal_()
        batch = {"image": {0: Dim("batch", min=1, max=32)}}
        image, other = torch.randn(2, 2, 6, 6), torch.randn(5, 2, 6, 6)
        write(name, model, image, dynamic=batch, other=(other,), decomposed="." in name)
    write("tied", Tied(), torch.randint(0, 10, (2, 5)))
    write("recurrent", Recurrent(), torch.randn(2, 5, 3))
    write("branch", Branch(), torch.randn(2, 3), other=(-torch.rand(2, 3),))
    write("writes", Writes(), torch.randn(3, 4))
    calls = [(torch.randn(2),) for _ in range(3)]
    examples = [(torch.randn(4, 3),) for _ in range(3)]
    steps = [(torch.randn(1, 1, 3), torch.tensor([position])) for position in (0, 1, 3)]
    for suffix in ("", ".decomposed"):
        decomposed = bool(suffix)
        record_steps(folder, f"counter{suffix}", Counter(), calls, decomposed)
        record_steps(folder, f"writes_input{suffix}", WritesInput(), calls, decomposed)
        record_steps(folder, f"trained{suffix}", Trained(), examples, decomposed, training=True)
        seed("cache")
        record_steps(folder, f"cache{suffix}", Cache(), steps, decomposed)
    record_steps(folder, "aliased", Aliased(), calls)
    write("refused", Refused(), torch.randn(3, 3))
    for name in ("solves", "solves.decomposed"):
        given = torch.randn(4, 3), torch.randn(4, 2)
        write(name, Solves(), *given, decomposed="." in name)
    write("quantized", Quantized(), torch.randn(3, 4))
    image = torch.randn(1, 2, 5, 4)
    image[0, 0, 1, 2] = torch.nan
    write("daily", Daily(), image, torch.tensor([[1, 0, 5, 2]]))
    write("doubled", Doubled(), torch.randn(3))
    batch = ({0: Dim("n", min=2, max=8)},)
    write("hashed", Hashed(), torch.tensor([[6, 1999], [3, 50000]]), dynamic=batch)
    axes = {0: Dim("n", min=2, max=20), 1: Dim("m", min=2, max=9)}
    sizes = torch.randn(3, 4), torch.randn(3, 4)
    write(
        "sizes", Sizes(), *sizes, dynamic=(axes, axes), other=(torch.randn(6, 5), torch.randn(6, 5))
    )
    write("mean", nn.Sequential(Mean()), sizes[0], dynamic=(axes,), other=(torch.randn(6, 5),))
    n, m = Dim("n", min=1, max=9), Dim("m", min=2, max=9)
    given = torch.randn(8, 2), torch.randn(3, 2), torch.randn(4, 2)
    other = torch.randn(12, 2), torch.randn(5, 2), torch.randn(6, 2)
    write("related", Related(), *given, dynamic=({0: 4 * n}, {0: m}, {0: m + 1}), other=other)
    nested = {"image": torch.randn(3, 4), "mask": torch.rand(3)}, [torch.rand(1)]
    write("nested", Nested(), *nested, kwargs={"past": (torch.randn(4),)})
    write("low", Low().bfloat16(), torch.randn(3, 4).bfloat16())
    torch.set_grad_enabled(True)
    write("no_grad", NoGrad(), torch.randn(2, 3), gradients=True)


if __name__ == "__main__":
    main(FILES)
