"""Adapters of encoders of images and texts: from a handful of labelled images and the names of their classes."""
