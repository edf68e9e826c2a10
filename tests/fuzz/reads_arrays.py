"""Files of arrays and tensors: features, descriptions, weights, models, checkpoints."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from fuzz.reader import Files, Reader

CLASSES = np.repeat([f"c{i}" for i in range(6)], 4)


def _features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)


def _npz(folder: Path) -> None:
    folder.mkdir(parents=True)
    np.savez(folder / "x.npz", features=_features(), labels=CLASSES)


def _h5(folder: Path) -> None:
    import h5py

    folder.mkdir(parents=True)
    with h5py.File(folder / "x.h5", "w") as stored:
        stored["features"] = _features()
        stored.create_dataset("labels", data=[c.encode() for c in CLASSES])


def _h5_group(folder: Path) -> None:
    import h5py

    folder.mkdir(parents=True)
    with h5py.File(folder / "x.h5", "w") as stored:
        for name in sorted(set(CLASSES)):
            stored.create_dataset(f"images/{name}", data=_features()[CLASSES == name], compression="gzip")


def _mat(folder: Path) -> None:
    from scipy.io import savemat

    folder.mkdir(parents=True)
    number = np.unique(CLASSES, return_inverse=True)[1] + 1
    savemat(folder / "res101.mat", {"features": _features().T, "labels": number[:, None]})
    names = np.array([[np.array([n])] for n in sorted(set(CLASSES))], dtype=object)
    where = {k: np.arange(1, 25)[np.isin(number, own)] for k, own in PLACES.items()}
    beside = {"att": np.random.default_rng(1).random((3, 6)), "allclasses_names": names}
    savemat(folder / "att_splits.mat", beside | {k: v[:, None] for k, v in where.items()})


PLACES = {"trainval_loc": [1, 2, 3, 4], "train_loc": [1, 2, 3], "val_loc": [4], "test_seen_loc": [], "test_unseen_loc": [5, 6]}  # fmt: skip


def _packed_features(folder: Path) -> None:
    """Packed, so that whatever is refused leaves nothing."""
    import shutil

    from fuzz import forked
    from handful.data.pack import pack

    forked.install()
    source = next((p for p in sorted(folder.glob("x.*"))), folder)
    pack(source, folder / "out", "features")
    shutil.rmtree(folder / "out")


def _npz_claims(files: Files) -> Files:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**7)})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr("features.npy", header.getvalue() + bytes(1000))
        stored.writestr("labels.npy", header.getvalue() + bytes(1000))
    return {"x.npz": out.getvalue()}


def _npz_bomb(files: Files) -> Files:
    """Half a gigabyte that is there, in half a megabyte."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 27, 1)})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr("features.npy", header.getvalue() + bytes(1 << 29))
    return {"x.npz": out.getvalue()}


def _h5_claims(files: Files) -> Files:
    return {
        "x.h5": _h5_with(
            lambda s: [s.create_dataset(n, (10**7, 10**6), "f4", chunks=(1, 1000)) for n in ("features", "labels")]
        )
    }


def _h5_external(files: Files) -> Files:
    return {
        "x.h5": _h5_with(lambda s: s.create_dataset("features", (8, 4), "f4", external=[("/etc/hostname", 0, 128)]))
    }


def _h5_link(files: Files) -> Files:
    import h5py

    return {"x.h5": _h5_with(lambda s: s.__setitem__("features", h5py.ExternalLink("other.h5", "/features")))}


def _h5_with(write) -> bytes:
    import h5py

    out = io.BytesIO()
    with h5py.File(out, "w") as stored:
        write(stored)
    return out.getvalue()


def _semantics(folder: Path) -> None:
    from handful.data.semantics import Semantics

    folder.mkdir(parents=True)
    Semantics.of(sorted(set(CLASSES)), np.eye(6, dtype=np.float32)).save(folder / "d.npz")


def _read_semantics(folder: Path) -> None:
    from handful.data.semantics import read_descriptions

    read_descriptions(folder / "d.npz").of(["c1"])


def _taxonomy(folder: Path) -> None:
    from handful.data.taxonomy import Taxonomy

    folder.mkdir(parents=True)
    Taxonomy.of([("a", "r"), ("b", "r"), ("c", "a")]).save(folder / "t.npz")


def _read_taxonomy(folder: Path) -> None:
    from handful.data.taxonomy import Taxonomy

    tree = Taxonomy.load(folder / "t.npz")
    tree.check()
    tree.depth, tree.id, tree.all_words  # noqa: B018


def _weights(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from handful.nets import build

    folder.mkdir(parents=True)
    state = {k: v.contiguous() for k, v in build("conv4:filters=4", (16, 16, 3)).state_dict().items()}
    torch.save(state, folder / "new.pth")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    save_file(state, folder / "w.safetensors")


def _read_weights(folder: Path) -> None:
    from handful.nets import build
    from handful.nets.weights import read_weights

    for file in sorted(folder.iterdir()):
        read_weights(build("conv4:filters=4", (16, 16, 3)), file)


def _packed(kind: str):
    def make(folder: Path) -> None:
        from made.patterns import blobs

        if kind == "images":
            blobs(n_classes=6, each=4, size=8).save(folder)
            return
        from handful.data.importers.features import pack_features, read_features

        _npz(folder / "from")
        pack_features(read_features(folder / "from" / "x.npz"), folder / "to", "x")
        for file in (folder / "to").iterdir():
            file.rename(folder / file.name)
        import shutil

        shutil.rmtree(folder / "from")
        (folder / "to").rmdir()

    return make


def _label_twice(files: Files) -> Files:
    import json

    card = json.loads(files["card.json"])
    return {"card.json": json.dumps(card | {"labels": card["labels"] * 2}).encode()}


def _read_packed(folder: Path) -> None:
    from handful.data.check import check
    from handful.data.opening import open_collection
    from handful.data.stats import stats
    from handful.data.store import skipped_files

    collection = open_collection(folder)
    check(folder)
    stats(collection)
    skipped_files(collection)
    collection.read(np.arange(min(3, len(collection))))
    for scheme in collection.card.schemes:
        part = collection.part("train", scheme)
        part.id, part.n_classes  # noqa: B018


def _segment(folder: Path) -> None:
    from handful.nets.feature_cache import write_segment

    folder.mkdir(parents=True)
    write_segment(folder / "a.rows", np.arange(5), np.ones((5, 3), np.float32))


def _read_segment(folder: Path) -> None:
    from handful.nets.feature_cache import FeatureCache

    (folder / "k").mkdir(exist_ok=True)
    cache = FeatureCache({}, folder)
    cache.path = folder
    for at, features in cache.read(np.arange(7)):
        assert len(at) == len(features)
    (folder / "k").rmdir()


def _lists(folder: Path) -> None:
    _npz(folder)
    (folder / "train.txt").write_text("c0\nc1\nc2\n")
    (folder / "valid.txt").write_text("c3\n")
    (folder / "test.txt").write_text("c4\nc5\n")
    (folder / "images.csv").write_text("image,class\n16,c4\n17,c4\n20,c5\n")


def _read_lists(folder: Path) -> None:
    import shutil

    from handful.data.pack import pack

    options = {k: str(folder / f"{k}.txt") for k in ("train", "valid", "test")} | {"images": str(folder / "images.csv")}
    pack(folder / "x.npz", folder / "out", "features", options=options)
    shutil.rmtree(folder / "out")


READERS = [
    Reader("features-npz", _npz, _packed_features, known={"claims terabytes": _npz_claims, "a bomb": _npz_bomb}),
    Reader("features-h5", _h5, _packed_features, known={"claims terabytes": _h5_claims, "external storage": _h5_external, "external link": _h5_link}, share=4),
    Reader("features-h5-group", _h5_group, _packed_features, share=4),
    Reader("features-mat", _mat, _packed_features, share=4),
    Reader("class-lists", _lists, _read_lists, r"\.(txt|csv)$"),
    Reader("descriptions", _semantics, _read_semantics),
    Reader("taxonomy-cache", _taxonomy, _read_taxonomy),
    Reader("weights", _weights, _read_weights),
    Reader("packed-images", _packed("images"), _read_packed),
    Reader("packed-features", _packed("features"), _read_packed, known={"a label twice": _label_twice}),
    Reader("feature-cache", _segment, _read_segment),
]  # fmt: skip
