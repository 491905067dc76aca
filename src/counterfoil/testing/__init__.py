"""What a user tests durable workflows with; it stands on the public face, never inside it."""
