"""Baselines of Cross-Domain MetaDL (Carrión-Ojeda et al., 2022) that are not methods of another paper's."""
