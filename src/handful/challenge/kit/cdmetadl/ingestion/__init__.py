"""Tasks, batches and the logger of meta-training."""
