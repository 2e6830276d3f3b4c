"""The shapes of the built-in language models: small decoders of the Llama architecture.

Standard library only: the harness imports this.
"""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.models.errors import ModelError

__all__ = [
    "CONTROL_TOKENS",
    "EPSILON",
    "ROPE_BASE",
    "SHAPES",
    "VOCABULARY",
    "DecoderShape",
    "find_shape",
]

#: Tokens before those of the bytes: token number 3 + b is byte b.
CONTROL_TOKENS = ("<unk>", "<s>", "</s>")
VOCABULARY = len(CONTROL_TOKENS) + 256

#: Added to the mean square in RMSNorm.
EPSILON = 1e-5
#: Base of the wave lengths of rotary position embedding.
ROPE_BASE = 10_000.0

#: Bytes of a number in the files' default type (f16), and in an f16 cache.
_HALF = 2


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of one decoder: RMSNorm, RoPE, grouped attention, SwiGLU and a tied embedding."""

    name: str
    layers: int
    #: Values of an embedding.
    width: int
    heads: int
    #: Heads with keys and values; each serves `heads / kv_heads` heads.
    kv_heads: int
    #: Values of a head.
    head_size: int
    #: Values between the two steps of a feed-forward block.
    feed_forward: int
    #: Tokens that the model is said to be trained for.
    context: int
    #: Part of all seeds: of 80 draws the one whose tokens are furthest from a tie, or nearly so and
    #: more varied, since runtimes round in other ways (benchmarks/language_margins.py).
    draw: int

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Return rows and columns of each matrix of a layer, by its name in GGUF files."""
        queries = self.heads * self.head_size
        keys = self.kv_heads * self.head_size
        return {
            "attn_q": (queries, self.width),
            "attn_k": (keys, self.width),
            "attn_v": (keys, self.width),
            "attn_output": (self.width, queries),
            "ffn_gate": (self.feed_forward, self.width),
            "ffn_up": (self.feed_forward, self.width),
            "ffn_down": (self.width, self.feed_forward),
        }

    def parameter_count(self) -> int:
        """Return the number of weights, with those of the norms."""
        layer = sum(rows * columns for rows, columns in self.matrices().values())
        norms = (2 * self.layers + 1) * self.width
        return VOCABULARY * self.width + self.layers * layer + norms

    def kv_bytes_per_token(self) -> int:
        """Return the size of a token's keys and values in an f16 cache."""
        return self.layers * 2 * self.kv_heads * self.head_size * _HALF


SHAPES: tuple[DecoderShape, ...] = (
    DecoderShape(
        "decoder",
        layers=16,
        width=384,
        heads=6,
        kv_heads=3,
        head_size=64,
        feed_forward=512,
        context=8192,
        draw=43,
    ),
    DecoderShape(
        "tiny_decoder",
        layers=3,
        width=128,
        heads=4,
        kv_heads=2,
        head_size=32,
        feed_forward=192,
        context=2048,
        draw=48,
    ),
)


def find_shape(name: str) -> DecoderShape:
    """Return the shape of that name; raise ModelError, which lists the valid ones."""
    for shape in SHAPES:
        if shape.name == name:
            return shape
    valid = ", ".join(shape.name for shape in SHAPES)
    raise ModelError(f"unknown language model {name!r}; valid: {valid}")
