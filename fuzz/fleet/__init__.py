"""A fleet: actors on many hosts, each with a GPU and some cores, that carry out a campaign.

The driver (`pool`) is a campaign's `WorkerPool` like the one of this machine's processes. What it
talks to are actors (`host`), each of which keeps such processes around its GPU. Where they are
placed, and how the two reach each other, is the business of a `cluster`: Ray's (`ray_cluster`).
"""
