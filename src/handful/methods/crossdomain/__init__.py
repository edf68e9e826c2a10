"""Additions that make a method meet other domains in training."""
