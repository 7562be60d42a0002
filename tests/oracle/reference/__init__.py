"""Exact reference: integers and fractions, one dot product at a time; shares nothing with oracle."""
