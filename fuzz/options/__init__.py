"""The options of every command, each declared once, and which of them contradict each other."""
