"""What a starting-kit submission imports inside the sandbox: our own writing under the import names it expects."""
