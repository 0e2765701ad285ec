"""What a fitted model can be asked: the answers of `holdfast.answers`, as methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from holdfast import answers
from holdfast._typing import FloatArray
from holdfast.answers.fitted import Fitted
from holdfast.answers.model import Model
from holdfast.answers.training import TrainingData


class Answers(ABC):
    """An estimator with answers, each documented where it is computed."""

    #: What answers are given from; None before `fit`. Parameters that are set after `fit` take
    #: effect at the next `fit`.
    _fitted: Fitted | None = None

    explain = answers.checks.explain
    verify = answers.checks.verify
    held_out = answers.held_out.held_out
    predict_without = answers.without.predict_without
    coef_without = answers.without.coef_without
    predict_interval = answers.intervals.predict_interval
    influence = answers.influence.influence
    nested = answers.nested.nested
    permutation_test = answers.permutation.permutation_test
    score_interval = answers.certainty.score_interval

    @abstractmethod
    def _new_rows(self, X: Any) -> Any:
        """Return new rows, checked."""

    def _fitted_state(self) -> Fitted:
        """Return the fitted model as a value."""
        check_is_fitted(self)
        assert self._fitted is not None  # set by every fit
        return self._fitted

    @property
    def _training(self) -> TrainingData:
        """What the model was fitted to."""
        check_is_fitted(self)
        assert self._fitted is not None
        return self._fitted.training

    def _fitted_model(self) -> Model:
        """Return the chosen kernel on all rows."""
        return self._fitted_state().model

    @property
    def alphas_(self) -> FloatArray:
        """The penalties compared with the chosen kernel, shape (a,)."""
        return self._training.alphas

    @property
    def noise_variance_(self) -> float | FloatArray:
        """σ̂² at ``alpha_`` that makes the held-out targets of `fit` most likely, per target.

        σ̂² = Σ_H r_Hᵀ(I − S_HH)r_H / Σ|H| over the experiments of `fit`, in units of √w y.
        """
        found = np.square(self._fitted_state().noise)
        return float(found[0]) if self._training.flat else found
