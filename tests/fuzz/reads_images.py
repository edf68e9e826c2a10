"""Images in every format, alone and in the layouts of the importers."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from fuzz.reader import Files, Reader

SAVED = {
    "jpg": ("JPEG", {}),
    "progressive.jpg": ("JPEG", {"progressive": True}),
    "png": ("PNG", {}),
    "gif": ("GIF", {}),
    "webp": ("WEBP", {}),
    "lossless.webp": ("WEBP", {"lossless": True}),
    "tif": ("TIFF", {}),
    "deflated.tif": ("TIFF", {"compression": "tiff_adobe_deflate"}),
    "lzw.tif": ("TIFF", {"compression": "tiff_lzw"}),
    "jpeg.tif": ("TIFF", {"compression": "jpeg"}),
    "bmp": ("BMP", {}),
    "ppm": ("PPM", {}),
    "avif": ("AVIF", {}),
}


def picture(seed: int, side: int = 24) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (side // 4, side // 4, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((side, side))


def encoded(seed: int, kind: str = "png") -> bytes:
    out = io.BytesIO()
    format, options = SAVED[kind]
    picture(seed).save(out, format, **options)
    return out.getvalue()


def _one(kind: str) -> Reader:
    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / f"image.{kind}").write_bytes(encoded(1, kind))

    def read(folder: Path) -> None:
        from handful.data.images import decode

        for file in sorted(folder.iterdir()):
            decode(file.read_bytes(), str(file), 16)
            decode(file.read_bytes(), str(file), None, grey=True)

    return Reader(f"image-{kind}", make, read, known=KNOWN.get(kind, {}))


def png_of(width: int, height: int, *more: bytes, depth: int = 8, colours: int = 2) -> bytes:
    """A PNG whose header claims a size and whose data are a few zeros, with chunks ``more`` before them."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def tiff_of(width: int, height: int, bits: int = 8, samples: int = 3) -> bytes:
    """A TIFF whose tags claim a size."""
    tags = [(256, 4, width), (257, 4, height), (258, 3, bits), (259, 3, 1), (262, 3, 2), (273, 4, 8), (277, 3, samples)]
    tags += [(278, 4, height), (279, 4, 100)]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(4) + bytes(200)


def gif_of(width: int, height: int) -> bytes:
    return (
        b"GIF89a"
        + struct.pack("<HHBBB", width, height, 0, 0, 0)
        + b","
        + struct.pack("<HHHHB", 0, 0, width, height, 0)
        + b"\x02\x02L\x01\x00;"
    )


def webp_of(width: int, height: int) -> bytes:
    """A lossless WebP whose header claims a size of up to 16,384 a side."""
    bits = (width - 1) | (height - 1) << 14
    data = b"\x2f" + struct.pack("<I", bits) + bytes(20)
    return b"RIFF" + struct.pack("<I", len(data) + 12) + b"WEBPVP8L" + struct.pack("<I", len(data)) + data


def bomb(name: str, data: bytes):
    return lambda files: {name: data}


KNOWN = {
    "png": {
        "a billion pixels": bomb("image.png", png_of(40_000, 40_000)),
        "all the pixels there are": bomb("image.png", png_of(2**31 - 1, 2**31 - 1)),
        "a profile of a gigabyte": bomb("image.png", png_of(8, 8, chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(1 << 27))))),
        "a text of a gigabyte": bomb("image.png", png_of(8, 8, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 27))))),
        "sixteen bits at the cap": bomb("image.png", png_of(10_000, 10_000, depth=16, colours=6)),
    },
    "tif": {
        "a billion pixels": bomb("image.tif", tiff_of(40_000, 40_000)),
        "all the pixels there are": bomb("image.tif", tiff_of(2**32 - 1, 2**32 - 1)),
        "one long row": bomb("image.tif", tiff_of(2**31 - 1, 1, 64, 60_000)),
    },
    "gif": {"four billion pixels": bomb("image.gif", gif_of(65_535, 65_535))},
    "webp": {"the largest": bomb("image.webp", webp_of(16_384, 16_384))},
    "bmp": {"a billion pixels": lambda f: {"image.bmp": f["image.bmp"][:18] + struct.pack("<ii", 40_000, 40_000) + f["image.bmp"][26:]}},
    "ppm": {"a billion pixels": bomb("image.ppm", b"P6\n40000 40000\n255\n" + bytes(100))},
}  # fmt: skip


def _packing(name: str, files: Files, importer: str, damages: str, **options: object) -> Reader:
    """A layout, packed from a folder: refused, nothing may be left of it."""

    def make(folder: Path) -> None:
        for file, data in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)

    def read(folder: Path) -> None:
        import shutil

        from handful.data.pack import pack

        source = folder / "raw.zip" if (folder / "raw.zip").is_file() else folder / "raw"
        pack(source, folder / "out", importer, size=8, workers=1, options=options)
        shutil.rmtree(folder / "out")

    return Reader(name, make, read, damages)


def _classes(kind: str = "png") -> Files:
    return {f"raw/c{c}/{i}.{kind}": encoded(10 * c + i, kind) for c in range(3) for i in range(2)}


def _flat() -> Files:
    return {f"raw/images/{i}.png": encoded(i) for i in range(6)}


def _zip(files: Files) -> Files:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as stored:
        for name, data in files.items():
            stored.writestr(name.removeprefix("raw/"), data)
    return {"raw.zip": out.getvalue()}


TABLE = b"filename,label,split\n" + b"".join(b"images/%d.png,c%d,train\n" % (i, i % 2) for i in range(6))
ALBUM = {
    "raw/labels.csv": b"FILE_NAME,CATEGORY,SUPER_CATEGORY\n"
    + b"".join(b"%d.png,c%d,s\n" % (i, i % 2) for i in range(6)),
    "raw/info.json": b'{"image_column_name": "FILE_NAME", "category_column_name": "CATEGORY", "dataset_name": "x", "licence": "CC"}',
}
SPLIT_LISTS = b'{"meta-train": ["a"], "meta-test": ["b"]}'
TWO_ALBUMS = {
    f"raw/{d}/{n.removeprefix('raw/')}": data.replace(b'"x"', b'"%s"' % d.encode()) if n.endswith("json") else data
    for d in "ab"
    for n, data in (_flat() | ALBUM).items()
} | {"raw/info/meta_splits.txt": SPLIT_LISTS}
OMNIGLOT = {
    f"raw/images_{half}/A{half[:1]}/character{c:02d}/{c}_{i}.png": encoded(c + i)
    for half in ("background", "evaluation")
    for c in range(2)
    for i in range(2)
}

READERS = [
    *(_one(kind) for kind in SAVED),
    _packing("folders", _classes(), "folders", r"\.png$"),
    _packing("folders-jpeg", _classes("jpg"), "folders", r"\.jpg$"),
    _packing("folders-zip", _zip(_classes()), "folders", r"\.zip$"),
    _packing("csv", _flat() | {"raw/t.csv": TABLE}, "csv", r"\.csv$"),
    _packing("meta-album", _flat() | ALBUM, "meta-album", r"\.(csv|json)$"),
    _packing("meta-albums", TWO_ALBUMS, "meta-album", r"\.(csv|json|txt)$"),
    _packing("omniglot-zip", _zip(OMNIGLOT), "omniglot", r"\.zip$"),
    _packing("concept-context", {f"raw/{a}/{b}/{i}.png": encoded(i) for a in "pq" for b in "rs" for i in range(2)}, "concept-context", r"\.png$"),
]  # fmt: skip
