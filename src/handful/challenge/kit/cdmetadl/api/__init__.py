"""The interface of a submission."""
