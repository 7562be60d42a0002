"""Making failing cases small enough to read.

`shrink` takes steps out of the program and values out of its image while the case fails in the
same way, and says how far it came.

Hypothesis drew the program, and its shrinker could make the drawn choices smaller. It is not used
here: what is shrunk is the program itself, its steps, strides, offsets and bytes, so that a
program read from a corpus or written by hand shrinks as well, there is no cap on the number of
reductions or the time other than the caller's, many candidates go to the device in one batch, and
"nothing can be taken away" is a statement about the case that a person reads and not about the
choices behind it. What may be simpler is proposed by `strategies.simplification`.
"""

from fuzz.shrinking.shrinker import Shrunk, shrink
from fuzz.shrinking.trials import Verdicts, runner_verdicts

__all__ = ["Shrunk", "Verdicts", "runner_verdicts", "shrink"]
