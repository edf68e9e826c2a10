"""Clustering without labels: Sinkhorn K-means, K-means, Centroid Networks, constrained clustering networks."""
