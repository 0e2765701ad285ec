"""
Sentences of documents: hold out whole documents
================================================

Sentences of one document are alike: they share its words and its author. If single sentences are
held out, their neighbours are still in the training set, and the estimate says how well the model
does on documents that it knows. New sentences come in new documents, so whole documents must be
held out (Pahikkala, Boberg and Salakoski 2006, section 4).

The rows are sparse counts of words, and stay sparse.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold

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
# 300 of the 1,200 sentences are basis rows. ``policies`` shows what each way of holding out
# estimates, with whole documents (``"groups"``) among them: only that number says what to expect
# for sentences of new documents.

sentences = KFold(10, shuffle=True, random_state=0)
model = KernelRidgeCV(
    Linear().normalised(), alphas=np.logspace(-4, 1, 11), basis=300, cv=sentences, random_state=0
)
model.fit(X, y)
found = model.policies(["remove", "keep", "skip", "groups"], groups=document)
print(found)
found.plot()
plt.show()

# %%
# And how much of it is chance? The draw of the 300 sentences and the partition into folds both move
# the estimate a little.

print(model.variation(draws=4, partitions=4))
