"""Which modules this process had loaded before it drove its first run.

A step may import what it needs, and another process that takes the run up, and is answered from the record, has not
imported that. So only classes of these modules can be expected there.
"""

import sys
from functools import cache


@cache
def known_modules() -> frozenset[str]:
    """Their names. The first call takes them down, so it comes before any step."""
    return frozenset(sys.modules)
