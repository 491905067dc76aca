"""Clients of others inside a run. Nothing here imports a client's package: each is known by what it has."""
