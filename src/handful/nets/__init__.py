"""Backbones, published weights, features of a collection."""

from handful.door import open_door

__getattr__, __dir__ = open_door(__name__)
