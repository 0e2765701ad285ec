"""A selector of one's own that tells which basis rows every model got."""

from holdfast.basis import Random


class Recorded(Random):
    """A random selector that keeps what it chose: positions among the rows that train."""

    chosen: list = []  # noqa: RUF012  # shared by the clones that the estimator makes

    def select(self, *args, **kwargs):
        rows = super().select(*args, **kwargs)
        self.chosen.append(rows)
        return rows


def chosen_for(model, **asked):
    """Return the basis rows of every held-out model, chosen anew: which `fit` has kept."""
    Recorded.chosen.clear()
    model.held_out(**asked)
    return list(Recorded.chosen)
