"""What is tried: instructions, programs and contents, drawn, counted, and made simpler.

Strategies of Hypothesis draw; the rounds of a campaign are functions of a seed, of the number of
the round and of what was reached before it. Nothing here knows how a case is run or judged.
"""
