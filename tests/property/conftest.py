"""Settings of the generated cases: quick by default, many more with HYPOTHESIS_PROFILE=soak."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("fast", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
