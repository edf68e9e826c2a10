"""Methods that compare a query with the support in an embedding."""
