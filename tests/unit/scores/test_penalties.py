"""Which penalties of a table of results belong to which kernel."""

import pytest

from holdfast.scores.penalties import kernel_parts


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        ([("rbf", 1.0), ("rbf", 2.0), ("rbf", 3.0)], [3]),
        ([("rbf", 1.0), ("rbf", 2.0), ("linear", 3.0)], [2, 1]),
        ([("rbf", 1.0), ("rbf", 2.0), ("rbf", 1.0), ("rbf", 2.0)], [2, 2]),
        ([("rbf", 1.0), ("rbf", 1.0), ("rbf", 1.0)], [1, 1, 1]),
    ],
)
def test_a_grid_ends_where_the_kernel_changes_or_the_penalties_stop_growing(rows, sizes):
    params = [{"kernel": kernel, "alpha": alpha} for kernel, alpha in rows]
    parts = kernel_parts({"alpha": [alpha for _, alpha in rows], "params": params})
    assert [part.stop - part.start for part in parts] == sizes
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(len(rows)))
