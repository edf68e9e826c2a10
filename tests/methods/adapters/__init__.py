"""Adapters of image-text encoders."""
