"""The former name of `oracle.elementwise`, until fuzz has moved."""

from oracle.elementwise import CANONICAL_NAN as CANONICAL_NAN
from oracle.elementwise import FLOATS as FLOATS
from oracle.elementwise import apply as apply
