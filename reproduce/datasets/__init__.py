"""The data sets of the papers, and others, by name.

`load` looks into a local folder (``HOLDFAST_DATA``), then into installed packages, then on
OpenML, and checks the number of rows and columns whatever the source. No data are kept here, only
generators with fixed seeds:

| name | stands for |
|---|---|
| ``sinusoid`` | paper 000 §6.3: 3,000 rows of a noisy sinusoid |
| ``parse_stand_in`` | paper 000 §6.4: 501 sentences of about five parses, 600 test sentences |
| ``parse_stand_in_100`` | paper 004 §4: 100 + 100 sentences of up to twenty parses |
"""

from reproduce.datasets._dataset import Dataset
from reproduce.datasets._folder import ENVIRONMENT_VARIABLE
from reproduce.datasets._load import DataNotFoundError, available, load
from reproduce.datasets._parses import make_parses
from reproduce.datasets._sinusoid import make_sinusoid

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "DataNotFoundError",
    "Dataset",
    "available",
    "load",
    "make_parses",
    "make_sinusoid",
]
