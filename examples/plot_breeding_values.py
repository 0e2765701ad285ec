"""
Breeding values, with and without relatives
===========================================

Genomic prediction (GBLUP) is kernel ridge regression on a matrix of relationships. Held out one by
one, an animal is predicted from its own brothers and sisters; held out family by family, from
animals that are hardly related. Breeders need the second number when they buy in new families, and
the first is what most validations report. Both come from one fit.

The data are made by a stated recipe, so that the truth is known: 40 families of 10 full siblings.
A chromosome has 1,000 markers. Those of the parents are mosaics of 30 ancestral ones, switched at
about twenty places; a child gets from each parent one chromosome, switched between the parent's two
at about five. A hundred markers have normal effects, and breeding values make up 40 % of the
variance of what is measured.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut

from holdfast import HoldOut, KernelRidgeCV

rng = np.random.default_rng(0)
markers, causal, heritability = 1000, 100, 0.4
ancestors = rng.random((30, markers)) < rng.uniform(0.1, 0.9, size=markers)
effect = np.zeros(markers)
effect[rng.choice(markers, causal, replace=False)] = rng.normal(size=causal)


def mosaic(chromosomes, switches):
    """One chromosome that follows one of several, and another after each switch."""
    piece = np.cumsum(rng.random(markers) < switches / markers)
    return chromosomes[
        rng.integers(len(chromosomes), size=piece[-1] + 1)[piece], np.arange(markers)
    ]


def family(children):
    """Genotypes, 0 to 2, of the children of two parents."""
    parents = [np.array([mosaic(ancestors, 20) for _ in range(2)]) for _ in range(2)]
    return np.array([sum(1.0 * mosaic(parent, 10) for parent in parents) for _ in range(children)])


# %%
# 40 families with records, and 100 new ones without.

trained, candidates = 40, 100
genotypes = np.vstack([family(10) for _ in range(trained + candidates)])
herd = np.repeat(np.arange(trained + candidates), 10)
breeding = genotypes @ effect
breeding = (breeding - breeding.mean()) / breeding.std()
measured = breeding + np.sqrt(1 / heritability - 1) * rng.normal(size=breeding.size)

# %%
# VanRaden's matrix of relationships is the kernel.

frequency = genotypes.mean(axis=0) / 2
centred = genotypes - 2 * frequency
relationship = centred @ centred.T / (2 * frequency * (1 - frequency)).sum()
old, new = herd < trained, herd >= trained
K = relationship[np.ix_(old, old)]

alphas, families = np.logspace(-1, 2, 20), LeaveOneGroupOut()
model = KernelRidgeCV("precomputed", alphas=alphas, cv=families, scoring="r2")
model.fit(K, measured[old], groups=herd[old])

# %%
# Accuracy is the correlation with the true breeding value, known here since the data are made up.


def accuracy(prediction, truth):
    """The correlation of predictions with true breeding values."""
    return np.corrcoef(prediction, truth)[0, 1]


def held_out(cv):
    """Held-out predictions of the training animals, in their order."""
    return model.held_out(cv=cv, alphas=[model.alpha_]).matrix()[0, :, 0]


by_family, by_animal = held_out(families), held_out(LeaveOneOut())
truth = breeding[old]
candidate = accuracy(model.predict(relationship[np.ix_(new, old)]), breeding[new])
print(f"one animal at a time: {accuracy(by_animal, truth):.2f}")
print(f"one family at a time: {accuracy(by_family, truth):.2f}")
print(f"100 new families:     {candidate:.2f}")

# %%
# Between the two lies a curve: hold out with each animal its closest relatives, more and more of
# them. The matrix itself says who they are.

scale = np.sqrt(np.diag(K))
closest = np.argsort(-np.abs(K) / np.outer(scale, scale), axis=1)  # of each animal, itself first
sizes = [1, 2, 4, 6, 10, 16, 30, 60]
curve = [
    accuracy(held_out([HoldOut(rows[:size], test=rows[:1]) for rows in closest]), truth)
    for size in sizes
]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(sizes, curve, "o-", color="C0", label="closest relatives held out")
axes.axhline(accuracy(by_family, truth), color="C0", ls="--", label="whole families held out")
axes.axhline(candidate, color="C3", label="100 new families")
axes.set(xscale="log", xlabel="animals held out together", ylabel="accuracy", ylim=(0, 1))
axes.legend(frameon=False)
plt.show()
