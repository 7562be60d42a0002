"""A campaign, whatever it checks: a coordinator, and worker processes that share nothing.

The coordinator (`campaign`) hands out numbered rounds and commits their reports in the order of
their numbers, so that the number of workers changes nothing but the speed. A worker (`worker`)
opens its own runner and does everything that costs time: drawing, compiling, filling images,
running, the oracle, comparing, and examining what differs. What is between them are small
messages (`checks.protocol`, `heartbeat`). What is committed is kept on the disk (`store`), so
that a campaign that was killed goes on where it was.
"""
