"""Methods that answer with pairs of primitives."""
