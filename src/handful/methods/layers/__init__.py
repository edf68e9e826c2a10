"""Small parts that several methods share: solvers, rotations, local descriptors, views, stages of training."""
