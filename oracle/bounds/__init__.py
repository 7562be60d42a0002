"""What the ISA permits on any target."""
