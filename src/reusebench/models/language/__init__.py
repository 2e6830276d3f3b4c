"""Language models made from code: one decoder in several sizes and file formats, with adapters.

Importing this package imports neither numpy nor gguf; processes of their own make the files.
"""

from __future__ import annotations

from reusebench.models.language.built_files import ensure_language
from reusebench.models.language.recipe import LanguageRecipe

__all__ = ["LanguageRecipe", "ensure_language"]
