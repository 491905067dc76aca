"""What a user tests durable workflows with; it stands on the public face, never inside it.

`stubs` is a model and tool server that counts, `clock` a time set by hand, `crash` kills at a chosen store call and
counts what survived, `forks` gives processes to kill, `conformance` says what a store must do.

Of the server, `dialects`
and the two `_wire`s are what is spoken, `plans` what is to happen, `calls` the log, `server` the connections.
"""
