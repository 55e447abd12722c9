"""A decoder of Llama-2-7B's shape, or smaller, as the lesson on planning has it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Size:
    """How large a decoder is; as it stands, about seven billion weights."""

    blocks: int = 32
    width: int = 4096
    heads: int = 32
    hidden: int = 11008
    words: int = 32000


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class DecoderBlock(nn.Module):
    """Attention and a gated multilayer perceptron."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2))
        self.query, self.key, self.value, self.out = (linear(width, width) for _ in range(4))
        self.gate, self.up = linear(width, size.hidden), linear(width, size.hidden)
        self.down = linear(size.hidden, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Mix the positions."""
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run both on a residual stream."""
        x = x + self.attend(self.norms[0](x))
        y = self.norms[1](x)
        result: torch.Tensor = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return result


class Decoder(nn.Module):
    """Tokens to the next token's scores."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList(DecoderBlock(size) for _ in range(size.blocks))
        self.norm = nn.LayerNorm(size.width, bias=False)
        self.head = linear(size.width, size.words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score them."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.head(self.norm(x))
        return result
