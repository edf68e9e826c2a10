"""Methods that learn to adapt by gradients."""
