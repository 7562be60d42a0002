"""A campaign, whatever it checks: a coordinator, and worker processes that share nothing."""
