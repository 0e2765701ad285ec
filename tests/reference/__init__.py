"""Naive twins of every fast path: plain NumPy and SciPy that never imports holdfast.

======================  ==========================================================
``reference.kernels``   kernels by obvious code
``reference.retrain``   real retraining on the rows that are left, three solvers
``reference.oracle``    the same definition in 50-digit arithmetic
``reference.printed``   the formulas of the papers as printed, misprints corrected
``reference.basis``     greedy basis selection that retrains for each candidate
======================  ==========================================================
"""
