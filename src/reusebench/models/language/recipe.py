"""Recipes of the built-in language models' files."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from reusebench.models.errors import ModelError
from reusebench.models.language.shapes import DecoderShape, find_shape

__all__ = [
    "ADAPTER",
    "ADAPTER_COUNT",
    "FILE_TYPES",
    "GENAI",
    "GGUF",
    "KINDS",
    "MERGED",
    "MODEL",
    "OPENVINO",
    "LanguageRecipe",
]

#: Part of every cached file's name. Raise it whenever a recipe gives other bytes than before. v1:
#: the first. v2: weights whose tokens are further from a tie, adapters of attn_q and attn_v alone.
#: v3: the same for the prompts of `pytest bench/`.
_VERSION = 3

#: Parts of a recipe: the model; an adapter (LoRA) over it; the model with that adapter merged.
MODEL = "model"
ADAPTER = "adapter"
MERGED = "merged"
_PARTS = (MODEL, ADAPTER, MERGED)
#: Number of adapters that there are of each model.
ADAPTER_COUNT = 4

#: Kinds of files, as the suffix of a file or the name of the file that stands for a folder.
GGUF = ".gguf"
GENAI = "genai_config.json"
OPENVINO = "openvino_model.xml"
KINDS = (GGUF, GENAI, OPENVINO)
#: Part of the names of folders and adapters, and suffix of adapters, by the kind of the model.
_FOLDERS = {GENAI: ("genai", ".onnx_adapter"), OPENVINO: ("openvino", ".safetensors")}
#: Types of the matrices in GGUF files, the default first. f32 and f16 have equal weights.
FILE_TYPES = ("f16", "f32", "q8_0", "q4_0")

_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class LanguageRecipe:
    """A built-in language model, an adapter of it, or both merged; ModelError if there is none."""

    #: Name of the shape.
    name: str = "decoder"
    #: Another seed gives other weights in every layer.
    seed: int = 0
    part: str = MODEL
    #: Number of the adapter, from 1; 0 for the model.
    number: int = 0
    #: GGUF files of models only.
    file_type: str = FILE_TYPES[0]

    def __post_init__(self) -> None:
        """Raise ModelError for values that are not valid."""
        find_shape(self.name)
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise ModelError(
                f"seed {self.seed} is not valid; valid: a whole number from 0 to {_LARGEST_SEED}"
            )
        _check("part", self.part, _PARTS)
        _check("type", self.file_type, FILE_TYPES)
        if self.part == MODEL and self.number:
            raise ModelError(f"the model has no number; leave {self.number} out")
        if self.part != MODEL and not 1 <= self.number <= ADAPTER_COUNT:
            raise ModelError(
                f"adapter {self.number} does not exist; valid: a whole number from 1 to"
                f" {ADAPTER_COUNT}"
            )
        if self.part == ADAPTER and self.file_type != FILE_TYPES[0]:
            raise ModelError(f"adapters have no type; leave {self.file_type} out")

    @property
    def shape(self) -> DecoderShape:
        """Sizes of the model."""
        return find_shape(self.name)

    @property
    def label(self) -> str:
        """Beginning of the names of all files made from this recipe."""
        number = "" if self.part == MODEL else f"-{self.part}{self.number}"
        return f"{self.name}-seed{self.seed}{number}"

    def path_in_cache(self, kind: str) -> str:
        """Return the path of the file in the cache's folder of models.

        A model of kind GENAI or OPENVINO is a folder, of which one file stands for all.
        """
        _check("kind", kind, KINDS)
        if kind == GGUF:
            return f"{self.label}-{self.file_type}-v{_VERSION}{GGUF}"
        if self.file_type != FILE_TYPES[0]:
            raise ModelError(f"a type is for {GGUF} files only; leave {self.file_type} out")
        name, suffix = _FOLDERS[kind]
        stem = f"{self.label}-{name}-v{_VERSION}"
        return f"{stem}{suffix}" if self.part == ADAPTER else f"{stem}/{kind}"

    def arguments(self) -> dict[str, object]:
        """Return the fields, for JSON."""
        return asdict(self)


def _check(subject: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ModelError(f"{subject} {value!r} is not valid; valid: {', '.join(valid)}")
