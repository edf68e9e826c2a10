"""Small archives in the exact layouts of the public ones."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from scipy.io import savemat

from data.conftest import encoded, noise
from handful.data.get.cifar import CLASSES_OF

COARSE = list(CLASSES_OF)
FINE = sorted(name for names in CLASSES_OF.values() for name in names.split())


def zipped(files: dict[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def tarred(files: dict[str, bytes | str], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            data = data.encode() if isinstance(data, str) else data
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, goal in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, goal
            archive.addfile(info)
    return out.getvalue()


def drawing(seed: int) -> bytes:
    return encoded((noise(seed, 105, 105)[..., 0] > 128).astype(np.uint8) * 255)


def omniglot(half: str, alphabets: list[str], characters: int = 6, each: int = 6) -> bytes:
    """images_background.zip and images_evaluation.zip: HALF/Alphabet/characterNN/NNNN_NN.png, folders listed too."""
    files: dict[str, bytes | str] = {f"{half}/": ""}
    for a, alphabet in enumerate(alphabets):
        for c in range(1, characters + 1):
            for i in range(1, each + 1):
                files[f"{half}/{alphabet}/character{c:02d}/{a:02d}{c:02d}_{i:02d}.png"] = drawing(1000 * a + 10 * c + i)
    return zipped(files)


def cifar(per_class: int = 4) -> tuple[bytes, np.ndarray, np.ndarray]:
    """cifar-100-binary.tar.gz; also the pixels (n, 32, 32, 3) and fine labels of its training half."""
    rng = np.random.default_rng(0)
    coarse_of = {f: COARSE.index(c) for c, names in CLASSES_OF.items() for f in names.split()}

    def half(n: int) -> tuple[bytes, np.ndarray, np.ndarray]:
        fine = np.tile(np.arange(100, dtype=np.uint8), n)
        rng.shuffle(fine)
        pixels = rng.integers(0, 256, (len(fine), 32, 32, 3)).astype(np.uint8)
        coarse = np.asarray([coarse_of[FINE[f]] for f in fine], dtype=np.uint8)
        planes = pixels.transpose(0, 3, 1, 2).reshape(len(fine), -1)
        return np.concatenate([coarse[:, None], fine[:, None], planes], 1).tobytes(), pixels, fine

    train, pixels, fine = half(per_class)
    test, _, _ = half(1)
    root = "cifar-100-binary"
    files: dict[str, bytes | str] = {
        f"{root}/coarse_label_names.txt": "\n".join(COARSE) + "\n",
        f"{root}/fine_label_names.txt": "\n".join(FINE) + "\n",
        f"{root}/test.bin": test,
        f"{root}/train.bin": train,
    }
    return tarred(files), pixels, fine


def cub(species: int = 16, each: int = 5) -> bytes:
    """CUB_200_2011.tgz: images, lists, and the attributes beside the folder."""
    files: dict[str, bytes | str] = {"attributes.txt": "1 has_bill_shape::curved\n", "CUB_200_2011/README": "birds"}
    listed = []
    for s in range(1, species + 1):
        for i in range(each):
            name = f"{s:03d}.Bird_{s}/Bird_{s}_{i:04d}_{796000 + i}.jpg"
            listed.append(name)
            files[f"CUB_200_2011/images/{name}"] = encoded(noise(100 * s + i, 40, 60), "JPEG")
    files["CUB_200_2011/images.txt"] = "".join(f"{i} {n}\n" for i, n in enumerate(listed, 1))
    return tarred(files)


def xlsa17() -> bytes:
    """xlsa17.zip: six birds of four images; the first four seen, the fourth for validation, one image of each held out."""
    label = np.repeat(np.arange(6), 4)
    first, seen = np.arange(24) % 4 == 0, label < 4
    rows = {"trainval_loc": seen & ~first, "test_seen_loc": seen & first, "test_unseen_loc": ~seen,
            "train_loc": label < 3, "val_loc": label == 3}  # fmt: skip
    features, splits = io.BytesIO(), io.BytesIO()
    savemat(features, {"features": np.random.default_rng(0).random((5, 24)), "labels": label[:, None] + 1})
    names = np.array([[f"{c + 1:03d}.Bird"] for c in range(6)], dtype=object)
    places = {k: np.flatnonzero(v)[:, None] + 1 for k, v in rows.items()}
    savemat(splits, {"allclasses_names": names, "att": np.random.default_rng(1).random((7, 6)), **places})
    return zipped(
        {"xlsa17/data/CUB/res101.mat": features.getvalue(), "xlsa17/data/CUB/att_splits.mat": splits.getvalue()}
    )


def album(dataset: str, classes: int = 8, each: int = 5) -> bytes:
    """A Meta-Album zip as OpenML keeps it: ID_Mini/images, labels.csv, info.json."""
    files: dict[str, bytes | str] = {}
    rows = ["FILE_NAME,CATEGORY,SUPER_CATEGORY"]
    for c in range(classes):
        for i in range(each):
            files[f"{dataset}_Mini/images/{c}_{i}.jpg"] = encoded(noise(10 * c + i, 128, 128), "JPEG")
            rows.append(f"{c}_{i}.jpg,class {c},super {c // 4}")
    files[f"{dataset}_Mini/labels.csv"] = "\n".join(rows) + "\n"
    info = {"dataset_name": dataset, "image_column_name": "FILE_NAME", "category_column_name": "CATEGORY"}
    files[f"{dataset}_Mini/info.json"] = json.dumps(info)
    return zipped(files)


NOUNS = """  1 This software and database is being provided to you, the LICENSEE, by
  2 Princeton University: WordNet 3.0
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is perceived
00001930 03 n 01 physical_entity 0 001 @ 00001740 n 0000 | an entity that has physical existence
00002137 03 n 02 abstraction 0 abstract_entity 0 001 @ 00001740 n 0000 | a general concept
"""


def wordnet(root: str = "dict", version: str = "3.0") -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {f"{root}/data.noun": NOUNS.replace("WordNet 3.0", f"WordNet {version}")}
    for part in ("verb", "adj", "adv"):
        files[f"{root}/data.{part}"] = f"  1 licence\n00001740 29 {part[0]} 01 breathe 0 000 | gloss\n"
    files[f"{root}/index.noun"] = "  1 licence\n"
    return files


def facts(data: bytes) -> str:
    """Length and checksum as a manifest states them."""
    return f"size = {len(data)}\nsha256 = '{hashlib.sha256(data).hexdigest()}'"


def manifest(
    tmp_path: Path, name: str, layout: str, archives: list[tuple[str, list[str], str]], more: str = ""
) -> Path:
    """A manifest of one entry: (file, addresses, further lines) each."""
    text = f"[{name}]\ntitle = 'small'\nlayout = '{layout}'\npage = 'http://example.org'\n{more}\n"
    for file, urls, known in archives:
        text += f"[[{name}.archive]]\nfile = '{file}'\nurls = {urls}\n{known}\n"
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return path


def omniglot_manifest(shop, tmp_path: Path) -> Path:
    one = omniglot("images_background", ["Greek", "Latin"])
    two = omniglot("images_evaluation", ["Keble"])
    files = [("images_background.zip", one), ("images_evaluation.zip", two)]
    return manifest(
        tmp_path, "omniglot", "omniglot", [(f, [shop.put(f, d)], facts(d)) for f, d in files], "licence = 'MIT'"
    )
