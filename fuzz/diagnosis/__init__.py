"""Which step of a program is wrong, found by experiments on the device that showed it."""
