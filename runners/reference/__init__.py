"""A reference for whole programs beside the program under test, where it runs.

The processor can judge a few hundred thousand images a second, a GPU runs a hundred million. So
one interpreter (`interpreter.cu`), compiled once, executes on the GPU what `encoding` writes down
of a program and of the model's figures, in integers alone, and compares. It shares no arithmetic
with the oracle and none with the simulated device. The oracle stays the judge: it tries a built
interpreter on a fixed set (`self_check`) before anything is compared with it.
"""
