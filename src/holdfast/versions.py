"""What a report of a problem should name."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

__all__ = ["show_versions"]

#: What holdfast stands on, and what its extras bring.
NEEDED = ("numpy", "scipy", "scikit-learn", "threadpoolctl")
EXTRAS = ("matplotlib", "pandas", "polars", "pyarrow", "dask", "distributed")


def show_versions() -> None:
    """Print the versions of Python, the system, the packages and the BLAS libraries.

    Examples
    --------
    >>> import holdfast
    >>> holdfast.show_versions()  # doctest: +ELLIPSIS
    python          3...
    """
    from holdfast import __version__

    lines = [
        ("python", sys.version.split()[0]),
        ("system", platform.platform()),
        ("holdfast", __version__),
    ]
    for name in (*NEEDED, *EXTRAS):
        try:
            lines.append((name, version(name)))
        except PackageNotFoundError:
            lines.append((name, "not installed"))
    for name, value in lines:
        print(f"{name:<16}{value}")
    import numpy  # noqa: F401  # these load a BLAS library each, which is named below
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    for found in threadpool_info():
        print(
            f"{found['user_api']:<16}{found['internal_api']} {found['version']}, "
            f"{found['num_threads']} threads"
        )
