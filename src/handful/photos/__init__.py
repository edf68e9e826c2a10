"""A classifier from a handful of photos: fit, predict, and what to expect of it."""
