"""What a campaign can check: assemblers, programs on a device, compilers with each other."""
