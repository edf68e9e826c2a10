"""Given features: every kind of file gives the same table, xlsa17's splits are read right, wrong files are named."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from handful.data.importers.features import FeatureTable, by_classes, pack_features, read_features
from handful.data.opening import open_collection
from handful.data.semantics import open_semantics
from handful.errors import BadInput, Infeasible, Missing
from made.planted import planted

X = np.arange(24, dtype=np.float32).reshape(8, 3)
Y = np.array(["cow", "cow", "elk", "elk", "fox", "fox", "hen", "hen"])


def xlsa17(folder: Path) -> Path:
    names = np.array([["cow"], ["elk"], ["fox"], ["hen"]], dtype=object)
    number = np.array([1, 1, 2, 2, 3, 3, 4, 4])
    savemat(folder / "res101.mat", {"features": X.T, "labels": number[:, None]})
    att = np.arange(8, dtype=float).reshape(2, 4)
    places = {
        "trainval_loc": [1, 3, 4, 5, 6],
        "test_seen_loc": [2],
        "test_unseen_loc": [7, 8],
        "train_loc": [1, 3, 4],
        "val_loc": [5, 6],
    }
    savemat(
        folder / "att_splits.mat",
        {"allclasses_names": names, "att": att, **{k: np.array(v)[:, None] for k, v in places.items()}},
    )
    return folder


def test_every_kind_of_file_gives_the_same_table(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs handful[features]")
    np.savez(tmp_path / "a.npz", features=X.astype(np.float16), labels=Y)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"], file["labels"] = X, [y.encode() for y in Y]
    xlsa17(tmp_path)
    for place in ("a.npz", "a.h5", "res101.mat", "."):
        table = read_features(tmp_path / place)
        assert np.array_equal(table.features, X) and table.labels.tolist() == Y.tolist(), place


def test_features_by_class_as_the_generic_object_benchmark_has_them(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs handful[features]")
    for name, classes in (("train", ("cow", "elk")), ("test", ("fox", "hen"))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            for wnid in classes:
                file[f"images/{wnid}"], file[f"idx/{wnid}"] = X[Y == wnid], np.arange(2)
    one = read_features(tmp_path / "test.h5")
    assert np.array_equal(one.features, X[4:]) and one.labels.tolist() == ["fox", "fox", "hen", "hen"]
    both = read_features(tmp_path)
    assert sorted(zip(both.labels, both.features.tolist(), strict=True)) == sorted(zip(Y, X.tolist(), strict=True))
    with h5py.File(tmp_path / "test.h5", "a") as file:
        file["images/yak"] = np.zeros(3)
    with pytest.raises(BadInput, match=r"test.h5: images/yak is no array with one row per image"):
        read_features(tmp_path / "test.h5")


def test_xlsa17_splits_and_attributes(tmp_path: Path) -> None:
    table = read_features(xlsa17(tmp_path))
    assert table.schemes["final"].tolist() == ["train", "test_seen", "train", "train", "train", "train", "test", "test"]
    assert table.schemes["tuning"].tolist() == ["train", "", "train", "train", "valid", "valid", "test", "test"]
    packed = pack_features(table, tmp_path / "packed", "mini")
    again = open_collection(tmp_path / "packed")
    assert again.id == packed.id and again.part("test", "final").class_names == ["hen"]
    stored = open_semantics("stored", again)
    assert stored.descriptions.of(["hen", "cow"]).tolist() == [[3, 7], [0, 4]]


def test_splits_by_class_lists_and_held_out_images() -> None:
    table = FeatureTable(X, Y, "mini")
    made = by_classes(table, ["cow", "elk"], ["hen"], ["fox"], held=1, seed=0)
    column = made.schemes["split"]
    assert sorted(column[:2]) == ["test_seen", "train"] and column[4:].tolist() == ["valid", "valid", "test", "test"]
    with pytest.raises(BadInput, match="cow is in train and in test"):
        by_classes(table, ["cow"], ["cow"])
    with pytest.raises(BadInput, match=r"1 classes of the lists have no image in mini \(yak\)"):
        by_classes(table, ["cow"], ["yak"])
    with pytest.raises(Infeasible, match="cow has 2 images"):
        by_classes(table, ["cow"], ["hen"], held=2)


def test_a_packed_hierarchy_is_found_again(tmp_path: Path) -> None:
    collection, semantics = planted(0.5)
    names = np.array(collection.whole.class_names)[collection.whole.classes]
    table = FeatureTable(
        np.asarray(collection.array),
        names,
        "planted",
        {"split": collection.table["split"].to_numpy().astype("U9")},
        semantics,
    )
    packed = pack_features(table, tmp_path / "p", "planted", taxonomy=semantics.taxonomy)
    stored = open_semantics("stored", packed)
    assert (
        stored.taxonomy is not None and semantics.taxonomy is not None and stored.taxonomy.id == semantics.taxonomy.id
    )


def test_wrong_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(Missing):
        read_features(tmp_path / "absent.npz")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(BadInput, match=r"give .npz, .h5 or .mat"):
        read_features(tmp_path / "a.txt")
    (tmp_path / "a.npz").write_bytes(b"no")
    with pytest.raises(BadInput, match="is not a .npz file"):
        read_features(tmp_path / "a.npz")
    np.savez(tmp_path / "whole.npz", features=X, labels=Y)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    with pytest.raises(BadInput, match="cannot be read"):
        read_features(tmp_path / "cut.npz")
    np.savez(tmp_path / "objects.npz", features=X, labels=np.array(Y.tolist(), dtype=object))
    with pytest.raises(BadInput, match="holds Python objects"):
        read_features(tmp_path / "objects.npz")
    np.savez(tmp_path / "b.npz", features=X)
    with pytest.raises(BadInput, match="no array called labels"):
        read_features(tmp_path / "b.npz")
    broken = X.copy()
    broken[5, 1] = np.inf
    np.savez(tmp_path / "c.npz", features=broken, labels=Y)
    with pytest.raises(BadInput, match=r"features of image 5 \(fox\) are not finite"):
        read_features(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", features=X, labels=Y[:3])
    with pytest.raises(BadInput, match="one row per image"):
        read_features(tmp_path / "d.npz")
    with pytest.raises(Missing, match=r"res101.mat does not exist"):
        read_features(tmp_path)


def nested_cells(depth: int) -> bytes:
    """A .mat file with a variable of cells within cells: scipy's reader recurses until the interpreter crashes."""
    fixed = struct.pack("<IIII", 6, 8, 1, 0) + struct.pack("<IIii", 5, 8, 1, 1)
    inner, out = 0, []
    for level in range(depth):
        name = b"features" if level == depth - 1 else b""
        part = fixed + struct.pack("<II", 1, len(name)) + name
        inner += len(part)
        out.append(struct.pack("<II", 14, inner) + part)
        inner += 8
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49) + b"".join(reversed(out))


def test_a_mat_file_that_crashes_the_reader_is_refused_in_a_sentence(tmp_path: Path) -> None:
    xlsa17(tmp_path)
    (tmp_path / "res101.mat").write_bytes(nested_cells(200_000))
    with pytest.raises(BadInput, match=r"res101\.mat cannot be read \(reading it crashed"):
        read_features(tmp_path)


@pytest.mark.parametrize(
    "data", [b"", b"rubbish" * 100, b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"\xff" * 64]
)
def test_a_mat_file_that_is_none_is_refused_in_a_sentence(tmp_path: Path, data: bytes) -> None:
    xlsa17(tmp_path)
    (tmp_path / "res101.mat").write_bytes(data)
    with pytest.raises(BadInput, match=r"res101\.mat (cannot be read|has no array)"):
        read_features(tmp_path)


def test_a_mat_file_that_claims_terabytes_is_refused_in_a_sentence(tmp_path: Path) -> None:
    xlsa17(tmp_path)
    name = struct.pack("<II", 1, 8) + b"features"
    dims = struct.pack("<IIii", 5, 8, 2**30, 2**11)
    body = struct.pack("<IIII", 6, 8, 6, 0) + dims + name + struct.pack("<II", 9, 64) + bytes(64)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    (tmp_path / "res101.mat").write_bytes(head + struct.pack("<II", 14, len(body)) + body)
    with pytest.raises(BadInput, match=r"res101\.mat cannot be read"):
        read_features(tmp_path)


def test_a_npz_file_that_claims_terabytes_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for shape, word in (((2**30, 2**12), "more memory than this machine has"), ((10**6, 3), "the file is damaged")):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            for key, claimed in (("features", shape), ("labels", (8,))):
                out = io.BytesIO()
                header = {"descr": "<f4", "fortran_order": False, "shape": claimed}
                np.lib.format.write_array_header_1_0(out, header)
                file.writestr(f"{key}.npy", out.getvalue() + bytes(32))
        with pytest.raises(BadInput, match=word):
            read_features(tmp_path / "a.npz")


def test_hdf5_that_claims_terabytes_or_leads_elsewhere_is_refused_in_a_sentence(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs handful[features]")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["features"] = X
    (tmp_path / "secret.bin").write_bytes(X.tobytes())

    def claim(file) -> None:
        file.create_dataset("features", (2**30, 2**12), "f4", chunks=(1024, 1024))

    def link(file) -> None:
        file["features"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/features")

    def soft(file) -> None:
        file["outside"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/features")
        file["features"] = h5py.SoftLink("/outside")

    def storage(file) -> None:
        file.create_dataset("features", X.shape, "f4", external=[(str(tmp_path / "secret.bin"), 0, X.nbytes)])

    def virtual(file) -> None:
        layout = h5py.VirtualLayout(X.shape, "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "features", X.shape)
        file.create_virtual_dataset("features", layout)

    found = {
        claim: "more memory than",
        link: "is a link",
        soft: "is a link",
        storage: "other files",
        virtual: "other files",
    }
    for make, word in found.items():
        with h5py.File(tmp_path / "a.h5", "w") as file:
            make(file)
            file["labels"] = [y.encode() for y in Y]
        with pytest.raises(BadInput, match=word):
            read_features(tmp_path / "a.h5")
