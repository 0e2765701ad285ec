"""Matrices beyond what LAPACK's integers can count."""

import _thread
import signal
import threading

import numpy as np
import pytest

from holdfast.exceptions import HoldfastWarning, KernelError, NotSupportedError
from holdfast.linalg import _nogil, eigen, interruption


def matrix(p, seed=0):
    A = np.random.default_rng(seed).normal(size=(p, p))
    return A @ A.T / p


def test_the_driver_changes_where_the_workspace_would_wrap_around():
    n = eigen.MOST_DIVIDED
    assert 1 + 6 * n + 2 * n**2 <= 2**31 - 1 < 1 + 6 * (n + 1) + 2 * (n + 1) ** 2


@pytest.mark.parametrize("p", [1, 2, 3, 40, 300])
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_driver_for_large_matrices(monkeypatch, p, overwrite):
    A = matrix(p)
    expected, _ = eigen.eigh(A)
    monkeypatch.setattr(eigen, "MOST_DIVIDED", 0)
    Lambda, V = eigen.eigh(A.copy(), overwrite=overwrite)
    np.testing.assert_allclose(Lambda, expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(V.T @ V, np.eye(p), atol=1e-12)
    np.testing.assert_allclose(V @ np.diag(Lambda) @ V.T, A, atol=1e-12)
    assert V.flags.f_contiguous


def test_sizes_that_do_not_fit_are_refused_before_the_call(monkeypatch):
    monkeypatch.setattr(_nogil, "_routine", lambda name: pytest.fail("called"))
    for size in (2**31, 2 * 32768**2, -(2**31) - 1):
        with pytest.raises(NotSupportedError, match=r"integers end at 2,147,483,647.*basis=1000"):
            _nogil.call("dpotrf", "L", size, np.zeros(1), 1, 0)


def test_a_matrix_that_is_not_finite_is_refused():
    A = matrix(5)
    A[2, 2] = np.inf
    with pytest.raises(KernelError, match="not finite"):
        eigen.eigh(A)


# -- Ctrl-C ----------------------------------------------------------------------------------------


def test_the_work_is_done_elsewhere_and_its_errors_come_back():
    where = []
    interruption.answering(lambda: where.append(threading.current_thread().name))
    assert where == ["holdfast-lapack"]

    def fail():
        raise ZeroDivisionError("there")

    with pytest.raises(ZeroDivisionError, match="there"):
        interruption.answering(fail)


def test_other_threads_do_it_themselves():
    where = []

    def work():
        interruption.answering(lambda: where.append(threading.current_thread()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert where == [thread]


def test_ctrl_c_ends_the_wait(monkeypatch):
    go = threading.Event()

    monkeypatch.setattr(interruption, "_left_behind", [])
    monkeypatch.setattr(interruption.atexit, "register", lambda _: None)

    def work():
        _thread.interrupt_main()  # from within: a timer could be too early, or too late
        go.wait(30)

    # A shell that starts the tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(HoldfastWarning, match="goes on in the background"):  # noqa: SIM117
            with pytest.raises(KeyboardInterrupt):
                interruption.answering(work)
    finally:
        signal.signal(signal.SIGINT, before)
        go.set()


def test_large_factorisations_go_that_way(monkeypatch):
    seen = []

    def noted(work):
        seen.append(1)
        work()

    monkeypatch.setattr(_nogil, "answering", noted)
    monkeypatch.setattr(_nogil, "LONG", 50)
    eigen.eigh(matrix(40))
    assert not seen
    eigen.eigh(matrix(60))
    assert seen
