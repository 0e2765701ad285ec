"""Exact held-out predictions for kernel least-squares models."""
