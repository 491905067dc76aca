"""The command line: it knows the facade and the read models, and nothing of how a store or the engine works."""
