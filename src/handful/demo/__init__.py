"""The demo: every setting on the embedded world, one file each, ending in pages to look at."""
