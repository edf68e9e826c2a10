"""Is a zero-shot benchmark honest? Its words, its images, its structure; and how to build one that is."""
