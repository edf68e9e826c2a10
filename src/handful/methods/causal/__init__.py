"""Methods that adjust for what pre-training has seen."""
