"""The names of `strategies` that users import; it is imported when one of them is asked for."""

from strategies.sampling import Sample as Sample
from strategies.sampling import samples as samples
