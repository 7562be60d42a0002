"""One module for each command, or for a few: reads the options, calls the packages, prints."""
