"""A reference beside the program under test, in integers, alone; the oracle tries it and judges."""
