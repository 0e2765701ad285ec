"""The two estimators."""
