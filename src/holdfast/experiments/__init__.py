"""What an experiment is: rows held out, rows tested, and what becomes of basis rows.

Pahikkala et al. (2012) (6)–(7): a cross-validation estimate is a sequence of experiments. Each
holds out some rows, trains on the others and predicts the test rows, which are a part of the
held-out rows. Everything people call cross-validation is such a sequence (`as_experiments`). What
happens to basis rows among the held-out rows is a policy (`resolve`), which turns experiments into
`Tasks`: which rows leave the training set, which leave the basis, which are predicted. From there
on the policy is not needed again. Millions of experiments (leave-one-out) are common, so all of
them are stored in a few flat arrays (`Ragged`), the form in which a `Splitter` gives them.
"""

from holdfast.experiments.cv import as_experiments, leave_group_out, leave_one_out
from holdfast.experiments.experiment import Experiments, HoldOut
from holdfast.experiments.ragged import Ragged
from holdfast.experiments.splitter import Splitter
from holdfast.experiments.tasks import POLICIES, Policy, Shape, Tasks, resolve

__all__ = [
    "POLICIES",
    "Experiments",
    "HoldOut",
    "Policy",
    "Ragged",
    "Shape",
    "Splitter",
    "Tasks",
    "as_experiments",
    "leave_group_out",
    "leave_one_out",
    "resolve",
]
