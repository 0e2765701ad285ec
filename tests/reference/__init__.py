"""Naive twins of every fast path: plain NumPy and SciPy that never imports holdfast.

======================  ==========================================================
``reference.kernels``   kernels by obvious code
``reference.retrain``   real retraining on the rows that are left
``reference.oracle``    the same definition in exact arithmetic
``reference.printed``   the formulas of the papers as printed, misprints corrected
``reference.basis``     greedy basis selection that retrains for each candidate
======================  ==========================================================
"""
