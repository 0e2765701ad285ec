"""Benchmarks: frozen problems, one adaptor per rival, one runner, records in JSON."""
