"""Zero-shot methods: trained on images of some classes, asked for others by their descriptions."""
