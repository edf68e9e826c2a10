"""All readers, by name."""

from __future__ import annotations

from fuzz import reads_arrays, reads_data, reads_images, reads_results, reads_texts

READERS = {
    reader.name: reader
    for module in (reads_images, reads_data, reads_arrays, reads_texts, reads_results)
    for reader in module.READERS
}
