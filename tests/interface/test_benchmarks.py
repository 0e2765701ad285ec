"""Every library of the benchmarks gives the numbers of real retraining."""

import numpy as np
import pytest

from benchmarks.naive import Truth
from benchmarks.problems import SMOKE, generate
from benchmarks.rivals import OURS, RIVALS

JOBS = [
    pytest.param(rival, problem, id=f"{rival.name}-{problem.name}")
    for problem in SMOKE
    for rival in RIVALS.values()
    if rival.can(problem) and rival.absent() is None
]


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize(("rival", "problem"), JOBS)
def test_every_library_agrees_with_retraining(rival, problem):
    data = generate(problem)
    naive = Truth(problem, data)
    answer = rival.run(problem, data).read(naive.asked)
    if problem.job == "cross-validate":
        far = naive.deviation(answer)
        assert far is None or far < 1e-8
    elif "value" in answer and rival.name != OURS:
        ours = RIVALS[OURS].run(problem, data).read(naive.asked)
        np.testing.assert_allclose(answer["value"], ours["value"], rtol=1e-7, atol=1e-8)
