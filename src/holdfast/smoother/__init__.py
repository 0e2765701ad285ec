"""The smoother."""
