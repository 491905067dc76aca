"""Experiments: an agent is run and killed for real, and a witness outside counts its calls."""
