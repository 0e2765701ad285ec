"""Every experiment of the five papers as something to run.

``python -m reproduce`` lists them, ``python -m reproduce p000-fig1`` runs one and writes its
numbers (JSON), a figure (SVG) and a Markdown page: the paper's setting and ours, the
numbers side by side, and each statement of the paper with a verdict decided by the run.
``make reproduce`` runs them all with few repetitions.

This package is part of the source, not of what is installed.

| module | experiments |
|---|---|
| `p000_speed` | paper 000, Table 1 |
| `p000_variance` | paper 000, Figures 1–4 |
| `p000_sinusoid` | paper 000, Figures 5 and 6 |
| `p000_greedy` | paper 000, Figure 7 |
| `p000_groups` | paper 000, Figures 8 and 9, Table 2 |
| `p002_motorcycle` | paper 002, Figures 1 and 2, Table 1 |
| `p002_boston` | paper 002, Figures 3 and 4 |
| `p002_lemma` | paper 002, Lemma 1 |
| `p003_grid` | paper 003, Figure 1 |
| `p004_clusters` | paper 004, Figure 1 |
"""

from importlib import import_module
from pkgutil import iter_modules

from reproduce._command import main, run
from reproduce._framework import EXPERIMENTS, Claim, Experiment, Options, Outcome

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Options", "Outcome", "main", "run"]

# Importing a module registers its experiments.
for _module in sorted(module.name for module in iter_modules(__path__)):
    if _module.startswith("p0"):
        import_module(f"{__name__}.{_module}")
