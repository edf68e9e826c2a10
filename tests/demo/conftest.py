"""The runs that reports are tested on serve the demo as well."""

from report.conftest import folders, source  # noqa: F401
