"""The door to LAPACK and threads, and the one constant that says how large a chunk is.

NumPy's linear algebra lets other Python threads run while it works; SciPy's wrappers of LAPACK hold
the interpreter lock. So NumPy's routines are used wherever there is one, and the two that NumPy
lacks and that take long (`dtrsm`, `dsytrd`) are called through `ctypes`, without the lock.

Independent pieces of work run side by side on a few Python threads, each with one BLAS thread
(`run_pieces`): threads inside small BLAS calls cost more than they gain.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock, Thread
from typing import Any, TypeVar, cast

import numpy as np
from scipy.linalg import cython_blas, cython_lapack, lapack
from threadpoolctl import ThreadpoolController

from holdfast._typing import FloatArray, IntArray
from holdfast.exceptions import KernelError, NotSupportedError

EPS = float(np.finfo(np.float64).eps)
#: Doubles in the largest temporary (8 MB).
CHUNK = 2**20
#: Doubles (512 kB) that stay in a cache, and in memory that the process has: pages that the system
#: gives anew cost more than what is computed on them.
CACHED = 2**16
#: Doubles (256 MB) that are there at once of what could be made again, or in parts: held-out
#: predictions, models, sums of held-out sets.
KEPT = 2**25
#: Factorising a matrix smaller than this gains nothing from a second BLAS thread.
SMALL = 768
#: Work on fewer numbers (rows times coordinates) gains nothing from a second thread at all.
WORTH_THREADS = 2**15
#: The largest matrix whose workspace divide and conquer can count in LAPACK's 32-bit integers.
LARGEST = 32_766
#: Columns of LAPACK's block reflectors, and rows of one step of substitution: sizes of workspaces.
REFLECTORS, SUBSTITUTED = 64, 128
#: Rows, and targets, of a sample that stands for all of them.
SOME_ROWS, SOME_TARGETS = 256, 3
#: Where less than this share of a length is left after a subtraction, it is computed afresh.
NEARLY_LOST = 1e-4
#: Right-hand sides that show how rounding errors grow: one alone may be nearly orthogonal to it.
N_PROBES = 3

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def evenly_spaced(size: int, count: int) -> IntArray:
    """Return at most `count` of the numbers below `size`, the first and the last among them."""
    return np.unique(np.linspace(0, size - 1, min(size, count)).astype(np.int64))


@lru_cache(maxsize=64)
def noise(size: int, count: int = N_PROBES) -> FloatArray:
    """Return standard normal numbers (size, count), the same every time, not to be changed."""
    numbers = np.random.default_rng(0).standard_normal((count, size)).T
    numbers.flags.writeable = False
    return numbers


# -- threads ---------------------------------------------------------------------------------------


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds: once is enough.
    return ThreadpoolController()


def blas_threads() -> int:
    """Return how many threads BLAS may use at present."""
    libraries = _controller().lib_controllers
    return max((int(each.num_threads) for each in libraries if each.user_api == "blas"), default=1)


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
    """Return the limit of one BLAS thread, for a `with` statement; a process has only one.

    BLAS threads wait for more work by spinning for up to a tenth of a second: after something small
    they take more time from what follows than they saved.
    """
    return _OneBlasThread()


def threads_for(size: int) -> AbstractContextManager[Any]:
    """Allow BLAS one thread if matrices are smaller than `SMALL`, and all its threads otherwise."""
    return one_blas_thread() if size < SMALL else nullcontext()


#: Threads for pieces of work where BLAS itself is kept to one; None: as many as BLAS may use.
_for_pieces: ContextVar[int | None] = ContextVar("threads_for_pieces", default=None)


@contextmanager
def shared_threads(order: int, numbers: float) -> Iterator[None]:
    """Decide who has the threads, once for all that a question takes: BLAS, or pieces of work.

    Matrices of at least `SMALL` rows are factorised by all threads of BLAS. Where the largest has
    fewer (`order`), BLAS has one thread and independent pieces of work have the others, and none
    has them where less than `WORTH_THREADS` numbers are worked on.
    """
    if order >= SMALL or _for_pieces.get() is not None:
        yield
        return
    with one_blas_thread() as threads:
        token = _for_pieces.set(threads if numbers >= WORTH_THREADS else 1)
        try:
            yield
        finally:
            _for_pieces.reset(token)


def piece_threads() -> int:
    """Return how many threads pieces of work may use; inside a piece there is one."""
    given = _for_pieces.get()
    return blas_threads() if given is None else given


def run_pieces(
    work: Callable[[_Item], _Result], pieces: Iterable[_Item], n_threads: int | None = None
) -> list[_Result]:
    """Return what `work` makes of every piece, on several threads with one BLAS thread each.

    Parameters
    ----------
    work : callable
        Calls must not disturb each other.
    pieces : iterable
    n_threads : int or None
        None: as many as BLAS may use, or as `shared_threads` says.

    Notes
    -----
    The first exception is raised once the pieces under way have ended. Threads have the context of
    the caller, such as what NumPy does on overflow (`numpy.errstate`).
    """
    items = list(pieces)
    n_threads = min(piece_threads() if n_threads is None else n_threads, len(items))
    with one_blas_thread():
        token = _for_pieces.set(1)  # pieces of pieces are no reason for more threads
        try:
            if n_threads <= 1:
                return [work(item) for item in items]
            return _on_threads(work, items, n_threads)
        finally:
            _for_pieces.reset(token)


def _on_threads(
    work: Callable[[_Item], _Result], items: list[_Item], n_threads: int
) -> list[_Result]:
    """Share the items out: the calling thread works as well, an executor would take longer."""
    waiting, results = deque(enumerate(items)), [None] * len(items)
    failures: list[BaseException] = []

    def run() -> None:
        while waiting and not failures:
            try:
                i, item = waiting.popleft()
            except IndexError:  # another thread has taken the last
                return
            try:
                results[i] = work(item)  # type: ignore[call-overload]  # a list of results, at the end
            except BaseException as error:
                failures.append(error)

    helpers = [Thread(target=copy_context().run, args=(run,)) for _ in range(n_threads - 1)]
    for helper in helpers:
        helper.start()
    run()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    return cast(list[_Result], results)


# -- routines without the interpreter lock ---------------------------------------------------------

# Prototypes of our own: the functions on `ctypes.pythonapi` are shared with other libraries.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@cache
def _routine(name: str) -> Any:
    """Return a routine of SciPy's BLAS or LAPACK as a function of pointers."""
    module = cython_lapack if name in cython_lapack.__pyx_capi__ else cython_blas
    capsule = module.__pyx_capi__[name]
    signature = _capsule_name(capsule)
    # "void (char *, int *, double *, …)": Fortran passes everything by reference.
    arguments = signature[signature.index(b"(") + 1 : -1].split(b",")
    if not any(kind.strip() == b"int *" for kind in arguments):
        raise ImportError(f"{name} of this SciPy does not take 32-bit integers: {signature!r}")
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))
    return prototype(_capsule_pointer(capsule, signature))


def _call(
    name: str, *arguments: str | int | float | np.ndarray[Any, Any] | ctypes.c_void_p
) -> None:
    """Call a routine on scalars, arrays and addresses; what it writes to is changed in place."""
    pointers: list[Any] = []
    kept: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            pointers.append(value.ctypes.data)
        elif isinstance(value, ctypes.c_void_p):
            pointers.append(value)
        else:
            scalar: Any
            if isinstance(value, str):
                scalar = ctypes.c_char(value.encode())
            elif isinstance(value, int):
                scalar = ctypes.c_int(_in_32_bits(value))
            else:
                scalar = ctypes.c_double(value)
            kept.append(scalar)
            pointers.append(ctypes.addressof(scalar))
    _routine(name)(*pointers)


def _in_32_bits(size: int) -> int:
    if not -(2**31) <= size < 2**31:  # ctypes would wrap it around
        raise NotSupportedError(
            f"the model is too large for LAPACK, whose integers end at 2,147,483,647; got {size:,}."
            " Use fewer rows, or basis rows: basis=1000.",
            remedies=("basis",),
        )
    return size


def substitute(C: FloatArray, B: FloatArray) -> None:
    """Overwrite `B` (n, k) by C⁻¹ B; both in Fortran order, C lower triangular.

    One block of rows of C at a time: `dtrsm` solves for it, `dgemm` subtracts it from those below.
    """
    n, k = B.shape
    assert C.flags.f_contiguous, "Fortran order"
    assert B.flags.f_contiguous, "Fortran order"
    factor, right = C.ctypes.data, B.ctypes.data
    for start in range(0, n, SUBSTITUTED):
        stop = min(start + SUBSTITUTED, n)
        size, corner = stop - start, factor + 8 * start * (n + 1)
        solved = ctypes.c_void_p(right + 8 * start)
        _call("dtrsm", "L", "L", "N", "N", size, k, 1.0, ctypes.c_void_p(corner), n, solved, n)
        if stop < n:
            below = ctypes.c_void_p(corner + 8 * size)
            rest = ctypes.c_void_p(right + 8 * stop)
            _call("dgemm", "N", "N", n - stop, k, size, -1.0, below, n, solved, n, 1.0, rest, n)


# -- symmetric matrices ----------------------------------------------------------------------------


def eigh(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (ascending) and eigenvectors (columns) of the symmetric `A` (p, p).

    Divide and conquer, about 9 p³ flops and 3 p² numbers of memory.
    """
    p = len(A)
    if p > LARGEST:
        raise NotSupportedError(
            f"an eigendecomposition of {p} rows is beyond LAPACK's 32-bit integers (at most "
            f"{LARGEST}). Use basis rows: basis=1000.",
            argument="basis",
        )
    if not np.isfinite(A.diagonal()).all():  # where sums of squares overflow first
        raise KernelError(
            f"a {p} x {p} matrix of the model has entries that are not finite, so it has no "
            "eigenvalues. Look for huge values in X or sample_weight, and scale them."
        )
    try:
        with threads_for(p):
            Lambda, V = np.linalg.eigh(A)
    except np.linalg.LinAlgError as error:
        raise KernelError(
            f"the eigendecomposition of a {p} x {p} matrix did not converge. Look for kernel "
            "values of very different sizes, and scale X."
        ) from error
    return Lambda, V


def triangle(gram: FloatArray, ridge: float) -> FloatArray | None:
    """Return R with RᵀR = gram + ridge I, or None if that is singular to working precision.

    Columns may have any units: errors are eps times the condition with all of unit length.
    """
    penalised = gram.copy()
    penalised[np.diag_indices(len(gram))] += ridge
    try:
        with threads_for(len(gram)):
            return np.asarray(np.linalg.cholesky(penalised).T)
    except np.linalg.LinAlgError:
        return None


def inverse_of_triangle(L: FloatArray) -> FloatArray:
    """Return L⁻ᵀ in C order for lower triangular L."""
    return np.ascontiguousarray(lapack.dtrtri(L, lower=1)[0].T) if len(L) else L


def solve_each(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return A⁻¹B for stacks of matrices; infinite where a matrix is singular to the last bit."""
    if A.shape[-1] == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(B / A)
    try:
        return np.asarray(np.linalg.solve(A, B))
    except np.linalg.LinAlgError:
        if A.ndim == 2:
            return np.full(B.shape, np.inf)
        return np.stack([solve_each(a, b) for a, b in zip(A, B, strict=True)])


def mirror(A: FloatArray) -> None:
    """Copy the upper triangle of `A` to the lower one, a few rows at a time."""
    step = 64
    below = np.tri(step, k=-1, dtype=bool)
    for start in range(0, len(A), step):
        rows, after = slice(start, start + step), slice(start + step, None)
        A[after, rows] = A[rows, after].T
        corner = A[rows, rows]
        size = len(corner)
        np.copyto(corner, corner.T.copy(), where=below[:size, :size])


def submatrix(A: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return ``A[np.ix_(rows, columns)]`` in half the time: whole rows first, then columns."""
    assert not columns.size or 0 <= columns.min() <= columns.max() < A.shape[1], "no such column"
    part = np.empty((rows.size, columns.size))
    step = max(1, CACHED // max(1, A.shape[1]))
    for start in range(0, rows.size, step):
        some = slice(start, start + step)
        # With mode="raise" NumPy would write to a buffer first; nothing is clipped.
        np.take(A.take(rows[some], axis=0), columns, axis=1, out=part[some], mode="clip")
    return part


@dataclass(frozen=True)
class Tridiagonal:
    """A = Q T Qᵀ with tridiagonal T, ready to solve (A + αI) x = z for many α in O(p) each.

    Attributes
    ----------
    reflectors : ndarray of shape (p, p), Fortran order
        Householder vectors of Q below the subdiagonal, as `dsytrd` leaves them.
    scales : ndarray of shape (p − 1,)
        Their factors τ.
    diagonal, offdiagonal : ndarray of shape (p,) and (p − 1,)
        T.
    order : ndarray of int, shape (p,)
        The order in which the coordinates were taken, largest first: a graded matrix keeps its
        small entries only then.
    """

    reflectors: FloatArray
    scales: FloatArray
    diagonal: FloatArray
    offdiagonal: FloatArray
    order: IntArray

    @classmethod
    def reduce(cls, A: FloatArray) -> Tridiagonal:
        """Return the reduction of the symmetric `A` (p, p), 4/3 p³ flops."""
        p = len(A)
        order = np.argsort(-np.abs(np.diag(A)), kind="stable")
        own = submatrix(A, order, order).T  # symmetric: in Fortran order without a copy
        d, e, tau = np.empty(p), np.empty(max(p - 1, 1)), np.empty(max(p - 1, 1))
        if p > 1:
            work = np.empty(REFLECTORS * p)
            _call("dsytrd", "L", p, own, p, d, e, tau, work, work.size, 0)
        else:
            d[:] = own.ravel()
        return cls(own, tau[: p - 1], d, e[: p - 1], order)

    def definite_from(self, alphas: FloatArray) -> int:
        """Return how many of the increasing `alphas` leave A + αI indefinite to rounding."""
        if not self.diagonal.size:
            return 0
        e = np.append(self.offdiagonal, 0.0)[: max(self.diagonal.size - 1, 1)]

        def definite(a: int) -> bool:
            d, _, info = lapack.dpttrf(self.diagonal + alphas[a], e)
            return not info and bool(d.min() > 0.0)

        return bisect_left(range(alphas.size), True, key=definite)

    def solve(self, Z: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return x (a, p, v) with (A + αI) x = Z (p, v), for alphas that leave A definite.

        Qᵀ Z once, an LDLᵀ factorisation of T + αI for each α, and Q times all solutions at once:
        2 p² v (1 + a) flops.
        """
        (p, v), a = Z.shape, alphas.size
        turned = self._apply(np.array(Z[self.order].T, order="C"), "T")
        x = np.empty((v, a, p))
        x[:] = turned[:, None]
        if x.size:  # the systems of all α are one tridiagonal system with zeros between them
            d, e = self.diagonal + alphas[:, None], np.zeros((a, p))
            e[:, :-1] = self.offdiagonal
            d, e, info = lapack.dpttrf(d.reshape(-1), e.reshape(-1)[: max(a * p - 1, 1)])
            assert not info, info
            columns = x.reshape(v, a * p).T
            inside, _ = lapack.dpttrs(d, e, columns, overwrite_b=1)
            assert np.shares_memory(inside, x), "LAPACK works in place on Fortran-ordered columns"
        self._apply(x.reshape(v * a, p), "N")
        solved = np.empty((a, p, v))
        solved[:, self.order] = x.transpose(1, 2, 0)
        return solved

    def _apply(self, rows: FloatArray, trans: str) -> FloatArray:
        """Overwrite each row r of the C-ordered `rows` (k, p) by Q r ("N") or Qᵀ r ("T")."""
        p = self.diagonal.size
        if p < 2 or not len(rows):
            return rows
        # The reflectors act on coordinates 1 … p − 1 and sit in reflectors[1:, :-1]. Seen from
        # the second element on, the same memory is a contiguous (p, p − 1) array whose leading
        # p − 1 rows are that block: dormqr takes it without a copy.
        block = self.reflectors.T.ravel()[1 : 1 + p * (p - 1)].reshape(p, p - 1, order="F")
        tail = np.ascontiguousarray(rows[:, 1:])
        lwork = len(rows) * REFLECTORS
        result, _, info = lapack.dormqr(
            "L", trans, block, self.scales, tail.T, lwork, overwrite_c=1
        )
        assert not info, info
        rows[:, 1:] = result.T
        return rows
