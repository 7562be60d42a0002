"""Exact reference: integers and fractions, one dot product at a time; apart from oracle."""
