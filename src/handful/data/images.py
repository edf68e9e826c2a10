"""From the bytes of an image file to a uint8 square.

The camera's orientation (EXIF) is honoured, transparency is laid on white, the largest centred square is cut out and
resized with an antialiased triangle filter. JPEGs far larger than asked are decoded at a half, quarter or eighth, never
below twice the size asked.
"""

from __future__ import annotations

import io
import logging
import warnings

import numpy as np
from PIL import Image, ImageOps

from handful.errors import BadInput, install_hint

# Only formats that Pillow decodes itself: EPS, for one, would start another program.
Image.init()
FORMATS = tuple(f for f in ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "AVIF") if f in Image.OPEN)
# The brands of an ISO media file that pillow-heif reads.
HEIF = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
PIXEL_CAP = 100_000_000
# A progressive JPEG of some kilobytes can ask for minutes; cameras and libraries write ten scans, previews included.
SCAN_CAP = 200
# Rows that are converted at a time: an image at the cap takes 400 MB, and each copy of it as much again.
BAND = 512
# Without a handler of its own, what Pillow logs of a broken file would reach stderr beside our sentence.
logging.getLogger("PIL").addHandler(logging.NullHandler())


class BadImage(BadInput):
    """A file that does not hold a usable image; ``reason`` goes without the name."""

    def __init__(self, file: str, reason: str):
        super().__init__(f"{file} {reason}")
        self.file, self.reason = file, reason


def decode(data: bytes, name: str, size: int | None = None, grey: bool = False) -> np.ndarray:
    """Decode one image.

    Parameters
    ----------
    data
        The bytes of the file.
    name
        What to call the file when it is refused.
    size
        Side of the square in pixels; None keeps the image whole and at its own size.
    grey
        One channel (ITU-R 601 luma) instead of three.

    Returns
    -------
    ndarray
        ``(h, w, 1 or 3)`` uint8.

    Raises
    ------
    BadImage
        Empty, truncated, not an image, or larger than a hundred million pixels.
    """
    if not data:
        raise BadImage(name, "is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=_formats(data, name)) as image:
                width, height = image.size
                if width * height > PIXEL_CAP:
                    raise BadImage(name, f"has {width} x {height} pixels, more than {PIXEL_CAP // 1_000_000} million")
                if size is not None:
                    image.draft(None, (2 * size, 2 * size))
                if image.format == "JPEG" and data.count(b"\xff\xda") > SCAN_CAP:
                    raise BadImage(name, f"has more than {SCAN_CAP} scans, each of which repaints it")
                image.load()
                ImageOps.exif_transpose(image, in_place=True)
                picture = _plain(image, name, grey)
    except BadImage:
        raise
    except Image.UnidentifiedImageError as error:
        raise BadImage(name, "is not an image") from error
    except Image.DecompressionBombError as error:
        raise BadImage(name, f"has more than {PIXEL_CAP // 1_000_000} million pixels") from error
    except MemoryError as error:
        raise BadImage(name, "needs more memory than there is") from error
    except Exception as error:  # Pillow's decoders raise anything from SyntaxError to struct.error on broken files
        reason = "is truncated" if "truncated" in str(error).lower() else f"is broken ({error})"
        raise BadImage(name, reason) from error
    if size is not None:
        side = min(picture.size)
        left, top = (picture.width - side) / 2, (picture.height - side) / 2
        picture = picture.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    pixels = np.asarray(picture, dtype=np.uint8)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _formats(data: bytes, name: str) -> tuple[str, ...]:
    """What the file may be; photos of telephones (HEIC) are read by the package of an extra, loaded for the first of them."""
    if data[4:8] != b"ftyp" or data[8:12] not in HEIF:
        return FORMATS
    try:
        import pillow_heif
    except ImportError as error:
        raise BadImage(
            name, f"is HEIC, which needs pillow-heif ({install_hint('heic')}); or save it as JPEG"
        ) from error
    pillow_heif.register_heif_opener()
    return (*FORMATS, "HEIF")


def _plain(image: Image.Image, name: str, grey: bool) -> Image.Image:
    """The image in one mode, made band by band."""
    mode = "L" if grey else "RGB"
    if image.mode == "F":
        raise BadImage(name, "holds floating-point pixels, whose range is unknown; save it with 8 bits")
    if image.mode == mode and "transparency" not in image.info:
        return image
    out = Image.new(mode, image.size)
    for top in range(0, image.height, BAND):
        out.paste(_band(image.crop((0, top, image.width, min(top + BAND, image.height))), mode), (0, top))
    return out


def _band(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # sixteen bits a pixel
        image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)
