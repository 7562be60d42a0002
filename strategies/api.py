"""The names of `strategies` that users import; it is imported when one of them is asked for."""

from fuzz.sampling import Sample as Sample
from fuzz.sampling import samples as samples
