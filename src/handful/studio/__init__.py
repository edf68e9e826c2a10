"""A page for people with photos: label a few, see what to expect, carry a classifier away."""
