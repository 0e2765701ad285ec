"""Independent pieces of work on a few Python threads, each with one BLAS thread.

`numpy.matmul` on a stack of small matrices runs on one thread, and threads inside small BLAS calls
cost more than they gain. Pieces of work side by side use all cores instead, as long as they do not
hold the interpreter lock: NumPy's products, ufuncs and `numpy.linalg` release it, SciPy's wrappers
of BLAS and LAPACK hold it (except `dormqr`), and `holdfast.linalg._nogil` calls the same routines
without it.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

_Item = TypeVar("_Item")

#: Factorising a matrix smaller than this gains nothing from a second thread.
SMALL = 768


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds: once is enough.
    return ThreadpoolController()


def blas_threads() -> int:
    """Return how many threads BLAS may use at present, which is what `n_threads=None` means."""
    counts = [
        int(library.num_threads)
        for library in _controller().lib_controllers
        if library.user_api == "blas"
    ]
    return max(counts, default=1)


class _OneBlasThread:
    """A limit of one BLAS thread, shared by all users: the last to leave lifts it."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> int:
        """Return how many threads BLAS might use before."""
        with self._lock:
            threads = blas_threads() if self._users == 0 else 1
            if threads > 1:  # setting a limit takes longer than asking
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._users += 1
        return threads

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._limit is not None:
                self._limit.restore_original_limits()
                self._limit = None


@cache
def one_blas_thread() -> _OneBlasThread:
    """Return the limit of one BLAS thread, for a `with` statement; a process has only one."""
    return _OneBlasThread()


@contextmanager
def threads_for(size: int) -> Iterator[None]:
    """Allow BLAS one thread if matrices are smaller than `SMALL`, and all its threads otherwise.

    A product with few columns is small too, however many rows it has: `size` is its columns.
    BLAS threads wait for more work by spinning for up to a tenth of a second: after something small
    they take more time from what follows than they saved. NumPy and SciPy may each have their own.
    """
    with one_blas_thread() if size < SMALL else nullcontext():
        yield


#: Threads for pieces of work where BLAS itself is kept to one; None: as many as BLAS may use.
_kept: ContextVar[int | None] = ContextVar("threads_for_pieces", default=None)


def piece_threads() -> int:
    """Return how many threads pieces of work may use; inside a piece there is one."""
    kept = _kept.get()
    return blas_threads() if kept is None else kept


def pieces_alone(size: int) -> AbstractContextManager[None]:
    """Leave all threads to pieces of work while matrices are smaller than `SMALL`.

    BLAS has one thread meanwhile, also between the pieces: a short product on several threads
    would leave them spinning beside the pieces that follow.
    """
    return nullcontext() if size >= SMALL or _kept.get() is not None else _all_to_pieces()


@contextmanager
def _all_to_pieces() -> Iterator[None]:
    with one_blas_thread() as threads:
        token = _kept.set(threads)
        try:
            yield
        finally:
            _kept.reset(token)


def run_pieces(
    work: Callable[[_Item], None], pieces: Iterable[_Item], n_threads: int | None = None
) -> None:
    """Call `work` on every piece, on `n_threads` threads with one BLAS thread each.

    Parameters
    ----------
    work : callable
        Writes its result where it belongs; pieces must not overlap.
    pieces : iterable
    n_threads : int or None
        None: as many as BLAS may use, or might before `pieces_alone`.

    Notes
    -----
    The first exception is raised once the pieces under way have ended. The number of BLAS threads
    is a setting of the process, and is restored at the end. What NumPy does on overflow
    (`numpy.errstate`) is a setting of a thread, and all pieces have the caller's.
    """
    items = list(pieces)
    n_threads = min(piece_threads() if n_threads is None else n_threads, len(items))
    with one_blas_thread():
        if n_threads <= 1:
            token = _kept.set(1)  # pieces of pieces are no reason for more threads
            try:
                for item in items:
                    work(item)
            finally:
                _kept.reset(token)
            return
        as_here = np.geterr()

        def piece(item: _Item) -> None:
            with np.errstate(**as_here):
                work(item)

        with ThreadPoolExecutor(n_threads) as pool:
            futures = [pool.submit(piece, item) for item in items]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
