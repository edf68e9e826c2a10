"""The world: an embedded collection drawn on the fly, whose every factor is known."""

from handful.data.world.drawn import World, parse_world, world
from handful.data.world.knobs import Knobs

__all__ = ["Knobs", "World", "parse_world", "world"]
