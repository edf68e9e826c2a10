"""A small stand-in for torchvision: the models and transforms that submissions to the published kit import.

Found only where torchvision itself is not installed, and only inside the sandbox. No weights come with it.
"""

from . import models, transforms

__version__ = "0+stand-in"
__all__ = ["models", "transforms"]
