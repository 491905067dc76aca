"""The engine: runs the user's code against the journal. Knows the store port, never a store."""
