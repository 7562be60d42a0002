"""Where elements lie in memory and in the registers of lanes."""
