"""What a benchmark measures: one file a diagnosis."""
