"""A fleet: actors on many hosts, each with a GPU and some cores, that carry out a campaign."""
