"""Calls that are refused, as tables that the tests try."""
