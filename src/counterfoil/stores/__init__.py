"""Stores: one module per database. They know the port and the core, not the engine and not each other."""
