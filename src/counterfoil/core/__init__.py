"""The pure core: events, keys, values, state and replay. No I/O, no loop, no clock, no random."""
