"""One module per command: options in, rooms called, something printed."""
