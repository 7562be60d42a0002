"""What a program is, and what the ISA leaves undefined in it."""
