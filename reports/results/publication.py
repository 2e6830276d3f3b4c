"""Where something was published: title, address, and when it was published and read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

import msgspec

from reports.base.texts import Texts


class Source(msgspec.Struct, frozen=True):
    """One published source."""

    #: By language.
    title: dict[str, str]
    #: None where the document is known by its title and version alone.
    url: Optional[str]
    #: As much of the date as the source tells; None where it tells nothing.
    published: Optional[str]
    read: str

    def dates(self, texts: Texts) -> str:
        """Return when it was published, where that is known, and when it was read."""
        if self.published is None:
            return texts("source_read", read=self.read)
        return texts("source_published", published=self.published, read=self.read)


def listed(sources: Iterable[Source], texts: Texts) -> list[tuple[str, str | None, str]]:
    """Return (title, address, dates) of each source once, in their order."""
    distinct: list[Source] = []
    for source in sources:
        if source not in distinct:
            distinct.append(source)
    return [(source.title[texts.language], source.url, source.dates(texts)) for source in distinct]
