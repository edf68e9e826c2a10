"""handful: few-shot, compositional and zero-shot benchmarks. How good is my method, and is my benchmark honest?"""

from handful._version import __version__
from handful.door import open_door

__all__ = ["__version__"]
__getattr__, __dir__ = open_door(__name__)
