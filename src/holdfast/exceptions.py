"""The errors and warnings that holdfast raises: this page is their table of contents.

| class | raised when |
|---|---|
| `InvalidInputError` | an argument or the data are not usable as given |
| `InputTypeError` | an argument has a type that is not allowed (a dict, None) |
| `HoldOutError` | a split cannot be carried out (nothing left to train on, rows out of range, …) |
| `KernelError` | a kernel gives wrong shapes, non-finite values or an indefinite matrix |
| `SingularBasisError` | the kernel matrix of the basis rows is numerically singular |
| `NotSupportedError` | a combination of options has no meaning or no algorithm |
| `MissingDependencyError` | an optional package is needed and not installed |
| `ClusterError` | a Dask cluster is lost, or has no workers |
| `GridEdgeWarning` | the best penalty, or width, lies at an end of the grid |
| `PrecisionWarning` | at a chosen penalty, rounding errors of predictions may exceed 1e-6 |
| `SelectionBiasWarning` | basis rows were chosen by looking at rows that are later held out |
"""

import inspect
import os
import warnings
from pathlib import Path

import numpy as np

_PACKAGE = str(Path(__file__).parent) + os.sep


class _Message(Exception):
    """What errors and warnings carry beside their text."""

    def __init__(
        self,
        message: str = "",
        *,
        argument: str | None = None,
        remedies: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        super().__init__(f"{message} {advice}" if advice else message)
        self.argument, self.remedies = argument, remedies
        self.fact = message if advice else None


class HoldfastError(_Message):
    """Base class of all errors raised by holdfast.

    Parameters
    ----------
    message : str
        What is wrong, and what to do.
    argument : str, optional
        The Python argument that was wrong.
    remedies : tuple of str
        Other arguments that the message says to set.
    advice : str
        What to do in Python, where `message` says only what is wrong; the command line has words
        of its own for it.

    Attributes
    ----------
    argument : str or None
    remedies : tuple of str
    fact : str or None
        The message without the advice; None where they were not given apart.

    Examples
    --------
    >>> from holdfast import KernelRidgeCV
    >>> try:
    ...     KernelRidgeCV(alphas=[-1.0]).fit([[0.0], [1.0]], [0.0, 1.0])
    ... except HoldfastError as error:
    ...     error.argument
    'alphas'
    """


class InvalidInputError(HoldfastError, ValueError):
    """An argument or the data cannot be used as given."""


class InputTypeError(InvalidInputError, TypeError):
    """An argument has a type that is not allowed."""


class HoldOutError(InvalidInputError):
    """A held-out experiment is impossible: its rows or what remains to train on."""


class KernelError(InvalidInputError):
    """A kernel returned wrong shapes, non-finite values or an indefinite matrix."""


class SingularBasisError(KernelError, np.linalg.LinAlgError):
    """The kernel matrix of the basis rows is numerically singular."""


class NotSupportedError(HoldfastError, NotImplementedError):
    """A combination of options that has no meaning or no algorithm."""


class MissingDependencyError(HoldfastError, ImportError):
    """An optional package is needed and not installed."""


class ClusterError(HoldfastError, RuntimeError):
    """A Dask cluster is lost, or has no workers."""


class HoldfastWarning(_Message, UserWarning):
    """Base class of all warnings raised by holdfast, with the attributes of `HoldfastError`."""


class GridEdgeWarning(HoldfastWarning):
    """The best penalty, or width, lies at an end of the grid: the optimum may lie beyond."""


class PrecisionWarning(HoldfastWarning):
    """At a chosen penalty, rounding errors of held-out predictions may exceed the promise.

    Attributes
    ----------
    alphas : tuple of float
        The penalties.
    """

    def __init__(
        self,
        message: str = "",
        *,
        alphas: tuple[float, ...] = (),
        argument: str | None = None,
        remedies: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        super().__init__(message, argument=argument, remedies=remedies, advice=advice)
        self.alphas = alphas


class SelectionBiasWarning(HoldfastWarning):
    """Basis rows were chosen by looking at rows that are later held out."""


def warn(message: str, category: type[Warning], **details: object) -> None:
    """Warn at the innermost line of the call stack that lies outside this package.

    `details` are handed to the warning, beside its message.
    """
    frame = inspect.currentframe()
    level = 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(category(message, **details), stacklevel=level + 1)
