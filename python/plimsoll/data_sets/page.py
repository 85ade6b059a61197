"""One page as a source reads it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Page:
    where: str  # for messages
    name: str
    words: list
    boxes: list
    labels: list | None
    image: bytes
    entities: list | None = None  # [{"label", "start_word", "end_word"}] where the data set has them
    links: list | None = None     # [[from, to]], indices into entities
    dropped_links: int = 0        # links to what is no entity of the page
