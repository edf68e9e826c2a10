"""The world: an embedded collection drawn on the fly, whose every factor is known."""

from handful.data.world.drawn import World, world
from handful.data.world.knobs import Knobs

__all__ = ["Knobs", "World", "world"]
