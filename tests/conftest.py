"""For all tests: Hypothesis draws the same examples in every run, and takes the time that they take."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Found by chance in a run that was about something else, a new example would only look like a test that fails now and then;
# `pytest --hypothesis-profile=search` looks for some.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("certain", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("certain")
