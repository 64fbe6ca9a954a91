"""The acceptance procedure as a test suite: ``pytest --pyargs pytest_specdec.acceptance --specdec-config=FILE``.

Five steps: what the traffic is like, which way to propose suits it, how much is accepted, what that brings at low and at high load,
and how to go on with a canary. ``example_suites/acceptance`` holds the same files as a suite to copy and change.
"""
