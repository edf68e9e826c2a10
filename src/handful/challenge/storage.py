"""Where archives and results are kept: the state folder, or beside it any address that fsspec knows (s3://, gs://, memory://, file://).

With an address, workers and services on several machines share what they need, and each state folder is a cache.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from handful.challenge.archive import digest
from handful.errors import BadInput, require


class Storage:
    """Files by name below ``state``, copied to ``url`` and fetched from there where they are missing."""

    def __init__(self, state: Path, url: str = "") -> None:
        self.state, self.url = state, url
        self._files = None
        if self.url:
            fsspec = require("fsspec", "serve")
            try:
                # What is there changes from other machines: a list that was kept would be out of date.
                self._files, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
                self._root = root.rstrip("/")
            except (ImportError, ValueError, OSError) as error:
                raise BadInput(
                    f"{url} cannot be used for storage ({error}); check the address and its package"
                ) from error

    def _there(self, name: str) -> str:
        return f"{self._root}/{name}"

    def keep(self, name: str) -> None:
        """Copy a file or folder of the state folder to where the others see it, before a row of the database names it."""
        if self._files is None:
            return
        here = self.state / name
        for path in sorted(here.rglob("*")) if here.is_dir() else [here]:
            if path.is_file():
                target = self._there(path.relative_to(self.state).as_posix())
                self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
                # Under another name first: a reader sees all of a file or none of it.
                self._files.put_file(str(path), f"{target}.partial")
                self._files.mv(f"{target}.partial", target)

    def drop(self, name: str) -> None:
        """Remove a folder of results that are no longer true, here and there."""
        shutil.rmtree(self.state / name, ignore_errors=True)
        if self._files is not None and self._files.exists(self._there(name)):
            self._files.rm(self._there(name), recursive=True)

    def file(self, name: str, sha256: str = "", changes: bool = False) -> Path:
        """A file in the state folder, fetched if it is missing, or if it ``changes``; with ``sha256`` its content is checked."""
        here = self.state / name
        if self._files is not None and (changes or not here.is_file()) and self._files.exists(self._there(name)):
            here.parent.mkdir(parents=True, exist_ok=True)
            handle, partial = tempfile.mkstemp(prefix=f".{here.name}-", dir=here.parent)
            os.close(handle)
            try:
                self._files.get_file(self._there(name), partial)
                if sha256 and digest(Path(partial)) != sha256:
                    raise BadInput(f"{name} in {self.url} is not what was handed in; its hash differs")
                os.replace(partial, here)
            finally:
                Path(partial).unlink(missing_ok=True)
        return here
