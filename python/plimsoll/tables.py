"""A `datasets.Dataset`: its columns, and its rows with images as they are stored."""

from __future__ import annotations

from itertools import chain
from typing import Any, Dict, Iterable, List, Mapping, Optional


class Table:
    """The rows of a data set as dicts of Python's own values.

    A data set that streams knows neither its columns nor their features after `map`: the first row has the columns.
    """

    def __init__(self, data: Any):
        if hasattr(data, "with_format"):
            data = data.with_format(None)  # lists, not arrays
        self.features: Mapping[Optional[str], Any] = dict(data.features or {})
        for name, feature in self.features.items():
            stored = _stored(feature)
            if stored != feature:
                data = data.cast_column(name, stored)
        self.rows: Iterable[Dict[str, Any]] = data
        self.names: List[str] = list(data.column_names or ())
        if data.column_names is None:
            rows = iter(data)
            first = list(next(rows, {}).items())
            self.names = [name for name, _ in first]
            self.rows = chain([dict(first)] if first else [], rows)


def _stored(feature: Any) -> Any:
    """Returns a feature whose images are bytes or paths, not decoded, and then encoded again."""
    if type(feature).__name__ == "Image":
        return type(feature)(decode=False)
    return {name: _stored(part) for name, part in feature.items()} if isinstance(feature, dict) else feature


def class_names(feature: Any) -> Optional[List[str]]:
    """Returns the names of a ClassLabel, or of one inside lists."""
    while feature is not None and not hasattr(feature, "names"):
        feature = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    return list(feature.names) if feature is not None else None
