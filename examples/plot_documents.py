"""
Sentences of documents: hold out whole documents
================================================

Sentences of one document are alike: they share its words and its author. If single sentences are
held out, their neighbours are still in the training set, and the estimate says how well the model
does on documents that it knows. New sentences come in new documents, so whole documents must be
held out (Pahikkala, Boberg and Salakoski 2006, section 4).

The rows are sparse counts of words, and stay sparse.
"""

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneGroupOut

from holdfast import KernelRidgeCV
from holdfast.kernels import Linear

rng = np.random.default_rng(0)
n_documents, per_document, n_words = 150, 8, 3000

# Each document draws its words from a few of its own, and from those of the language. Its sentences
# have a score: some words raise it, and every author judges in a way of their own.
document = np.repeat(np.arange(n_documents), per_document)
usual = rng.zipf(1.3, size=(document.size, 12)) % n_words
own = rng.integers(n_words, size=(n_documents, 15))
chosen = own[document[:, None], rng.integers(15, size=(document.size, 10))]
words = np.hstack([usual, chosen])
rows = np.repeat(np.arange(document.size), words.shape[1])
X = sp.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(document.size, n_words))
weight = rng.normal(size=n_words) / 5
author = rng.normal(size=n_documents)
y = X @ weight + author[document] + 0.5 * rng.normal(size=document.size)

# %%
# 300 of the 1,200 sentences are basis rows. The same model with sentences held out one fold at a
# time, and with whole documents held out: only the second number says what to expect for sentences
# of new documents.

model = KernelRidgeCV(Linear().normalised(), alphas=[0.01], basis=300, scoring="r2", random_state=0)
sentences = clone(model).set_params(cv=KFold(10, shuffle=True, random_state=0)).fit(X, y)
documents = clone(model).set_params(cv=LeaveOneGroupOut()).fit(X, y, groups=document)
print(f"known documents: R2 {sentences.best_score_:.2f}")
print(f"new documents:   R2 {documents.best_score_:.2f}")

# %%
# And how sure is the second? Documents are the units that its interval counts.

print(documents.score_interval(n_partitions=10, random_state=0))
