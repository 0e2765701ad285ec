"""Mutation testing of the numerical core: small faults, one at a time, that some test must see.

``python -m tools.mutants`` (or ``make mutants``) runs them; `docs/decisions/0017` says why the tool
is written by hand, `operators` which faults there are, `loop` how they meet the tests, `page` what
is written about them.
"""
