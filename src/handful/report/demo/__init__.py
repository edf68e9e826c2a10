"""The demo: every setting on the embedded world, one file each, ending in a page to look at."""
