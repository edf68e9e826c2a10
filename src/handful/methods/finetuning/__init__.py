"""Methods that pre-train on batches and fit a classifier on the support."""
