"""Collections: packed images or features with one table of labels; the embedded world; importers."""
