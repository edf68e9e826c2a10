"""The pages and calls of the service, a file a part."""
