"""Getting public data sets: a manifest of where they are and what their bytes must be, a download that survives bad
networks, and the step from an archive to a packed collection."""

from handful.data.get.getting import Got, get
from handful.data.get.manifest import Archive, DataSet, read_manifest
from handful.data.get.verify import verify

__all__ = ["Archive", "DataSet", "Got", "get", "read_manifest", "verify"]
