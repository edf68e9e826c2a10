"""CIFAR-FS by superclass: a table of its images whose class is one of CIFAR-100's 20 superclasses and whose context is the class.

    python benchmarks/cifar_superclasses.py CIFAR-FS OUT
    handful data pack OUT packed/cifar-superclasses --as csv --size 32 -s labels=superclass -s context=label
    handful run metacoco/pacs --collection packed/cifar-superclasses

A task then asks for superclasses: iid queries are of the class that the support showed, ood queries of another class of the same
superclass. Each superclass has five classes of 600 images.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from pathlib import Path

from handful.data.get.cifar import CLASSES_OF


def write(source: Path, out: Path) -> int:
    """One table of all images, beside a copy of them; how many rows it has."""
    above = {name: group for group, names in CLASSES_OF.items() for name in names.split()}
    rows = [row for split in ("train", "val", "test") for row in csv.DictReader((source / f"{split}.csv").open())]
    unknown = sorted({row["label"] for row in rows} - set(above))
    if unknown:
        raise SystemExit(f"{source}: {unknown[0]} is no class of CIFAR-100; give the folder of CIFAR-FS")
    out.mkdir(parents=True)
    shutil.copyfile(source / "images.zip", out / "images.zip")
    with (out / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("filename", "superclass", "label"))
        writer.writerows((row["filename"], above[row["label"]], row["label"]) for row in rows)
    return len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="Folder with CIFAR-FS: images.zip, train.csv, val.csv, test.csv.")
    parser.add_argument("out", type=Path, help="New folder for table and images.")
    options = parser.parse_args()
    print(f"{write(options.source, options.out)} images in {options.out}")
