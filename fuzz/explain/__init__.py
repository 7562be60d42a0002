"""A stored finding as a folder that reproduces without warpfuzz, and explains itself."""
