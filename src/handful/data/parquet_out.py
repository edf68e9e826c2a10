"""Parquet files as Hugging Face `datasets` writes them, and a description of them in MLCommons' Croissant 1.0."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from handful.data.collection import Collection, Part
from handful.data.tables import KEY
from handful.files import file_digest
from handful.progress import Advance

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification asks descriptions of version 1.0 to begin with."""
CONFORMS = "http://mlcommons.org/croissant/1.0"
HF_SPLITS = {"valid": "validation"}
"""What `datasets` calls splits, where it has a name of its own."""
SHARD_BYTES = 1 << 28
GROUP = 256


def write_parquet(
    folder: Path, collection: Collection, parts: dict[str, Part], advance: Advance, sharded: bool = True
) -> dict[str, list[str]]:
    """Write ``data/SPLIT-00000-of-00001.parquet`` and ``dataset_info.json``; the files of each split."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    card, table = collection.card, collection.table
    picture = image_column(collection)
    features = {picture: {"_type": "Image"}, **facts(collection)}
    drop = next(iter(parts.values())).scheme
    texts = [c for c in table.columns if c not in features and c != drop]
    features |= {c: {"dtype": "string", "_type": "Value"} for c in texts}
    kinds = [(picture, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    kinds += [(c, pa.int64() if c in card.labels else pa.string()) for c in features if c != picture]
    schema = pa.schema(kinds, metadata={KEY: json.dumps({"info": {"features": features}})})
    (folder / "data").mkdir()
    files: dict[str, list[str]] = {}
    for split, part in parts.items():
        every = shards(part) if sharded else [part.rows]
        files[split] = [f"data/{hf_file(split)}-{i:05d}-of-{len(every):05d}.parquet" for i in range(len(every))]
        for name, rows in zip(files[split], every, strict=True):
            with pq.ParquetWriter(folder / name, schema) as out:
                for start in range(0, len(rows), GROUP):
                    group = rows[start : start + GROUP]
                    some = table[group]
                    images = [
                        {"bytes": data, "path": f"{row:07d}.png"}
                        for row, data in zip(group, pictures(part, group, advance), strict=True)
                    ]
                    columns: dict[str, Any] = {picture: images}
                    for name_ in (c for c in features if c != picture):
                        values = some[name_].cast(pl.String).to_list()
                        if name_ in card.labels:
                            number = {v: k for k, v in enumerate(features[name_]["names"])}
                            values = [-1 if v is None else number[v] for v in values]
                        columns[name_] = values
                    out.write_table(pa.Table.from_pydict(columns, schema=schema), row_group_size=GROUP)
    about = {"dataset_name": card.name, "license": card.licence, "citation": card.citation, "features": features}
    (folder / "dataset_info.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return files


def image_column(collection: Collection) -> str:
    """A name for the images that no other column has."""
    return next(
        n for n in ("image", "picture", *(f"image{i}" for i in range(10**6))) if n not in collection.table.columns
    )


def write_croissant(folder: Path, collection: Collection, files: dict[str, list[str]]) -> None:
    """Write ``croissant.json``: the one file of each split with its hash and record set, and the names of the classes."""
    card = collection.card
    distribution: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "encodingFormat": "application/x-parquet",
            "contentSize": f"{(folder / name).stat().st_size} B",
            "sha256": file_digest(folder / name),
        }
        for names in files.values()
        for name in names
    ]
    sets = [_classes(column, about["names"]) for column, about in facts(collection).items()]
    texts = pl.read_parquet_schema(folder / next(iter(files.values()))[0])
    for split, names in files.items():
        fields = [_field(hf_file(split), column, names[0], collection) for column in texts]
        sets.append({"@type": "cr:RecordSet", "@id": hf_file(split), "name": hf_file(split), "field": fields})
    described = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": card.name,
        "description": f"{len(collection)} images of {'x'.join(map(str, card.shape))}; class: {' x '.join(card.labels)}.",
        "conformsTo": CONFORMS,
        "license": card.licence,
        **({"citeAs": card.citation} if card.citation else {}),
        "version": card.version if card.version.count(".") == 2 else f"{card.version}.0.0",
        "distribution": distribution,
        "recordSet": sets,
    }
    (folder / "croissant.json").write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _classes(column: str, names: list[str]) -> dict[str, Any]:
    """The names of a column's classes, as records in the description itself."""
    at = f"{column}-classes"
    fields = [
        {"@type": "cr:Field", "@id": f"{at}/{name}", "name": name, "dataType": kind}
        for name, kind in (("number", "sc:Integer"), ("name", "sc:Text"))
    ]
    data = [{f"{at}/number": i, f"{at}/name": name} for i, name in enumerate(names)]
    kinds = {"@type": "cr:RecordSet", "@id": at, "name": at, "dataType": "sc:Enumeration"}
    return {**kinds, "key": {"@id": f"{at}/number"}, "field": fields, "data": data}


def _field(split: str, column: str, file: str, collection: Collection) -> dict[str, Any]:
    image = column == image_column(collection)
    label = column in collection.card.labels
    source = {
        "fileObject": {"@id": file},
        "extract": {"column": column},
        **({"transform": {"jsonPath": "bytes"}} if image else {}),
    }
    return {
        "@type": "cr:Field",
        "@id": f"{split}/{column}",
        "name": column,
        "dataType": "sc:ImageObject" if image else ["sc:Integer", "cr:Label"] if label else "sc:Text",
        "source": source,
        **({"references": {"field": {"@id": f"{column}-classes/number"}}} if label else {}),
    }


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(out, "PNG")
    return out.getvalue()


def pictures(part: Part, rows: np.ndarray, advance: Advance) -> Iterator[bytes]:
    """The given images as PNG, read a block at a time."""
    for start in range(0, len(rows), GROUP):
        for pixels in part.collection.read(rows[start : start + GROUP]):
            yield png(pixels)
            advance(1)


def hf_split(split: str) -> str:
    """A split as `datasets` calls it: what has no splits is its train."""
    return HF_SPLITS.get(split, split) or "train"


def hf_file(split: str) -> str:
    """How files of a split begin: without one nothing must be taken for a split's name."""
    return HF_SPLITS.get(split, split) or "all"


def shards(part: Part) -> Sequence[np.ndarray]:
    """The rows of a part in shards of bounded size."""
    each = max(1, SHARD_BYTES // max(1, int(np.prod(part.collection.card.shape))))
    return [part.rows[i : i + each] for i in range(0, len(part), each)]


def facts(collection: Collection) -> dict[str, Any]:
    """The columns as `datasets` knows them: an image, classes with names, texts."""
    names = {c: sorted(collection.table[c].cast(str).unique().drop_nulls().to_list()) for c in collection.card.labels}
    return {c: {"names": n, "_type": "ClassLabel"} for c, n in names.items()}
