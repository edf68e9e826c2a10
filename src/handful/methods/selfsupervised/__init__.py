"""Methods that learn from the images themselves, before or beside the labels."""
