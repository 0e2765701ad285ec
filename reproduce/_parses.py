"""A generated stand-in for the parse-ranking data of papers 000 (§6.4) and 004 (§4).

The original (BioInfer sentences, parsed by a link grammar parser) is public only as a sample of
200 parses. The stand-in generates sentences, correct parses and candidate parses, and computes
features and the F-score from them as paper 004 describes, so that the structure is that of the
original: sparse counts, tens of thousands of features, parses of a sentence much more alike than
parses of different sentences, and a target that differs more between sentences than within.
It is not the original: numbers are not comparable with the papers', only their pattern is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reproduce.datasets import Dataset

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

N_WORDS, N_TAGS, N_TYPES = 20_000, 40, 60


class _Sentences(NamedTuple):
    """Tokens of all sentences laid end to end, and the links of each correct parse.

    A link joins a token (the dependant) to its head, by offset within the sentence. The first
    token of a sentence has no link.
    """

    start: Ints  # (sentences,) position of the first token
    length: Ints  # (sentences,)
    word: Ints  # (tokens,)
    tag: Ints  # (tokens,)
    grammar: Ints  # (tags, tags) usual link type
    head: Ints  # (tokens,) offset of the head, correct parse
    kind: Ints  # (tokens,) link type, correct parse
    doubt: Floats  # (tokens,) the smaller, the sooner the parser errs here
    wrong_head: Ints  # (tokens,) the parser's usual mistake
    wrong_kind: Ints  # (tokens,)
    difficulty: Floats  # (sentences,) share of wrong links to expect


class _Links(NamedTuple):
    """Links of all parses laid end to end."""

    parse: Ints
    token: Ints  # position of the dependant among all tokens
    head: Ints  # position of the head among all tokens
    kind: Ints
    right: NDArray[np.bool_]


def make_parses(
    name: str = "parse_stand_in",
    *,
    n_train: int = 501,
    n_test: int = 600,
    train_size: int = 5,
    test_size: int = 20,
    n_train_rows: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Return candidate parses of generated sentences, with sparse features and F-scores.

    Parameters
    ----------
    name : str
        Name given to the data set.
    n_train, n_test : int
        Number of sentences for training and for an independent test.
    train_size, test_size : int
        Most parses of one sentence.
    n_train_rows : int, optional
        Total number of training parses; the surplus is taken from random sentences. Default:
        about a tenth of the sentences have fewer parses than `train_size`.
    seed : int
        Source of chance.

    Returns
    -------
    Dataset
        X in CSR form, y the F-score, groups the sentence, is_train.

    Notes
    -----
    Words, tags and link types follow Zipf's law; a token links to a head at a geometric distance,
    with a link type that the two part-of-speech tags mostly determine. A wrong link follows the
    same grammar, as those of a real parser do, and only reaches a little farther. Sentences
    differ in difficulty; parses of a sentence share most of their mistakes.
    F = 2TP / (2TP + FP + FN) over links, as in paper 004 §4. Features are counts of words, tags,
    link types with tags, with words and with length, and word pairs.
    """
    rng = np.random.default_rng(seed)
    sentences = _make_sentences(n_train + n_test, rng)
    sizes = np.concatenate(
        [_sizes(n_train, train_size, n_train_rows, rng), _sizes(n_test, test_size, None, rng)]
    )
    groups = np.repeat(np.arange(n_train + n_test), sizes)
    links = _make_links(sentences, groups, rng)
    n_right = np.bincount(links.parse, weights=links.right, minlength=groups.size)
    n_links = np.bincount(links.parse, minlength=groups.size)
    return Dataset(
        name=name,
        X=_features(sentences, links, groups),
        # Both parses have the same number of links, so FP = FN and F is the share of right ones.
        y=n_right / n_links,
        source="generated stand-in for the parse-ranking data of papers 000 and 004",
        groups=groups,
        is_train=groups < n_train,
    )


def _sizes(n: int, most: int, total: int | None, rng: np.random.Generator) -> Ints:
    """Return the number of parses of each of n sentences."""
    sizes = np.full(n, most, dtype=np.int64)
    if total is None:
        few = rng.random(n) < 0.1
        sizes[few] = rng.integers(2, most + 1, size=int(few.sum()))
        return sizes
    while sizes.sum() > total:
        sentence = int(rng.integers(n))
        cut = int(rng.integers(1, most))
        sizes[sentence] = max(1, sizes[sentence] - min(cut, int(sizes.sum()) - total))
    return sizes


def _make_sentences(n: int, rng: np.random.Generator) -> _Sentences:
    """Return n sentences with their correct parses and their pitfalls."""
    length = np.clip(rng.lognormal(np.log(22.0), 0.35, size=n), 6, 60).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(length)[:-1]])
    total = int(length.sum())
    offset = np.arange(total) - np.repeat(start, length)
    word = _zipf(N_WORDS, total, rng)
    tag = _zipf(N_TAGS, N_WORDS, rng)[word]
    grammar = _zipf(N_TYPES, N_TAGS * N_TAGS, rng).reshape(N_TAGS, N_TAGS)
    first = np.repeat(start, length)
    right = _attach(offset, first, tag, grammar, 0.5, rng)
    wrong = _attach(offset, first, tag, grammar, 0.3, rng)  # a little farther away
    return _Sentences(
        start=start,
        length=length,
        word=word,
        tag=tag,
        grammar=grammar,
        head=right[0],
        kind=right[1],
        doubt=rng.random(total),
        wrong_head=wrong[0],
        wrong_kind=wrong[1],
        difficulty=rng.beta(1.6, 4.0, size=n),
    )


def _attach(
    offset: Ints, first: Ints, tag: Ints, grammar: Ints, near: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return heads (offset within the sentence) at a geometric distance, and grammatical types.

    `offset`, `first` and the result are one per dependant; `tag` is one per token.
    """
    head = np.maximum(offset - rng.geometric(near, size=offset.size), 0)
    usual = grammar[tag[first + head], tag[first + offset]]
    odd = rng.random(offset.size) < 0.1
    return head, np.where(odd, rng.integers(N_TYPES, size=offset.size), usual)


def _zipf(n: int, size: int, rng: np.random.Generator) -> Ints:
    """Return `size` draws from 0 … n-1, the k-th with a chance proportional to 1/(k+1)."""
    frequency = 1.0 / np.arange(1, n + 1)
    return rng.choice(n, size=size, p=frequency / frequency.sum()).astype(np.int64)


def _make_links(sentences: _Sentences, groups: Ints, rng: np.random.Generator) -> _Links:
    """Return the links of every candidate parse."""
    n_links = sentences.length[groups] - 1
    parse = np.repeat(np.arange(groups.size), n_links)
    within = np.arange(parse.size) - np.repeat(np.cumsum(n_links) - n_links, n_links)
    first = sentences.start[groups][parse]
    token = first + within + 1
    rate = sentences.difficulty[groups] + 0.08 * rng.standard_normal(groups.size)
    # Most doubts are the sentence's own: its parses err at the same places.
    own = rng.random(parse.size) < 0.2
    doubt = np.where(own, rng.random(parse.size), sentences.doubt[token])
    err = doubt < np.clip(rate, 0.0, 0.9)[parse]
    fresh_head, fresh_kind = _attach(within + 1, first, sentences.tag, sentences.grammar, 0.3, rng)
    usual = rng.random(parse.size) < 0.5
    wrong_head = np.where(usual, sentences.wrong_head[token], fresh_head)
    wrong_kind = np.where(usual, sentences.wrong_kind[token], fresh_kind)
    head = np.where(err, wrong_head, sentences.head[token])
    kind = np.where(err, wrong_kind, sentences.kind[token])
    right = (head == sentences.head[token]) & (kind == sentences.kind[token])
    return _Links(parse=parse, token=token, head=first + head, kind=kind, right=right)


def _features(sentences: _Sentences, links: _Links, groups: Ints) -> sparse.csr_matrix:
    """Return the counts (parses, features); columns are the features that occur."""
    word, tag = sentences.word, sentences.tag
    distance = np.minimum(np.abs(links.head - links.token), 9)
    w_head, w_token = word[links.head], word[links.token]
    t_head, t_token = tag[links.head], tag[links.token]
    keys = [
        _key(0, links.kind),
        _key(1, links.kind, t_head, t_token),
        _key(2, links.kind, w_head),
        _key(3, links.kind, w_token),
        _key(4, w_head, w_token),
        _key(5, links.kind, distance),
        _key(6, w_token),
        _key(7, t_head, t_token),
    ]
    found, column = np.unique(np.concatenate(keys), return_inverse=True)
    parse = np.tile(links.parse, len(keys))
    shape = (groups.size, found.size)
    counts = sparse.coo_matrix((np.ones(parse.size), (parse, column)), shape=shape).tocsr()
    counts.sum_duplicates()
    return sparse.csr_matrix(counts)


def _key(template: int, *parts: Ints) -> Ints:
    """Return one integer per link that names the feature: the template and its parts."""
    key = np.full(parts[0].shape, template, dtype=np.int64)
    for part in parts:
        key = key * N_WORDS + part  # every part is below N_WORDS
    return key * 8 + template
