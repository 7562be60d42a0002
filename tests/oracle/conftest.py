"""Makes the exact reference importable as `reference`: pytest puts this folder on the path."""
