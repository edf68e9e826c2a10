"""The import name that starting-kit submissions use; present inside the sandbox only."""
