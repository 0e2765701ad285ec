"""Commands that are refused: what is typed, the exit code, the words."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from bad_calls import Call
from bad_calls.forgery import saved

GROUP = "The command line"
STUDY = "study.csv"


def write_study(folder: Path) -> None:
    """Write a small study, and files that go with it."""
    rng = np.random.default_rng(1)
    lines = ["who,a,b,site,w,gap,same,big,none,level,y"]
    for i in range(24):
        a, b = rng.normal(size=2).round(4)
        gap = "" if i == 5 else f"{a * b:.3f}"
        lines.append(
            f"s{i % 6},{a},{b},{'AB'[i % 2]},{1 + i % 3},{gap},1,1e200,,"
            f"{'high' if a > 0 else 'low'},{a - b + i % 6:.4f}"
        )
    (folder / STUDY).write_text("\n".join(lines) + "\n")
    (folder / "plain.csv").write_text("a,y\n" + "".join(f"{i},{i * i}\n" for i in range(12)))
    (folder / "thousands.csv").write_text("a,y\n" + "".join(f"1_00{i},{i}\n" for i in range(9)) * 3)
    (folder / "noise.holdfast").write_bytes(b"noise" * 100)
    saved(folder / "python.holdfast")


def run_command(folder: Path, line: str) -> tuple[int, str]:
    """Return the exit code of a command, and what it said."""
    from holdfast.cli import main

    out, err = io.StringIO(), io.StringIO()
    here = Path.cwd()
    write_study(folder)
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(line))
    finally:
        os.chdir(here)
    said = [text for text in err.getvalue().splitlines() if "error:" in text]
    return code, " ".join(" ".join(said).split()) if said else ""


def command(line: str, code: int, *words: str) -> Call:
    """Return a command as a call; STUDY stands for a small study."""
    shown = f"holdfast {line}"

    def run(folder: Path) -> Any:
        return run_command(folder, line)

    return Call(GROUP, shown, shown, run, code, words)


_CV = f"cv {STUDY} --target y --features a,b"

CALLS = [
    command("fly", 2, "invalid choice"),
    command(f"cv {STUDY}", 2, "--target"),
    command("cv --target y", 2, "DATA"),
    command(f"cv {STUDY} --target y --turbo", 2, "--turbo"),
    command("cv no.csv --target y", 6, "no.csv", "No such file"),
    command("cv . --target y", 6, "Is a directory"),
    command(f"cv {STUDY} --target z", 3, "--target", "'z'"),
    command(f"cv {STUDY} --target Y", 3, "--target", "'Y'"),
    command(f"cv {STUDY} --target site", 3, "must hold numbers", "--classify"),
    command(f"cv {STUDY} --target same --features a", 3, "y must vary"),
    command(f"cv {STUDY} --target none --features a", 3, "missing"),
    command(f"cv {STUDY} --target big --features a", 3, "1e+150"),
    command(f"cv {STUDY} --target y --features a,y", 3, "--features", "already the target"),
    command(f"cv {STUDY} --target y --features a,a", 3, "--features", "twice"),
    command(f"cv {STUDY} --target y --features q", 3, "--features", "'q'"),
    command(f"cv {STUDY} --target y --features ,", 3, "No column"),
    command(f"cv {STUDY} --target y --drop q", 3, "--drop", "'q'"),
    command(f"cv {STUDY} --target y --features a --drop a", 3, "No column"),
    command(f"cv {STUDY} --target y --features gap", 3, "missing", "--impute"),
    command(f"cv {STUDY} --target y --features none --impute", 3, "no values at all"),
    command(f"cv {STUDY} --target y --features big --no-scale", 3, "1e+150"),
    command(f"cv {STUDY} --target y --features a --categorical q", 3, "--categorical", "'q'"),
    command(f"{_CV} --group q", 3, "--group", "'q'"),
    command(f"{_CV} --group gap", 3, "group column 'gap'", "1 missing"),
    command(f"{_CV} --weight site", 3, "weight column 'site'", "numbers"),
    command(f"{_CV} --weight gap", 3, "weight column 'gap'"),
    command(f"{_CV} --weight y", 3, "--weight must not be negative"),
    command(f"{_CV} --kernel best", 2, "--kernel", "'best'"),
    command(f"cv {STUDY} --target y --kernel-matrix none.npy", 6, "none.npy"),
    command(f"cv {STUDY} --target y --kernel-matrix plain.csv", 3, "names 2 columns"),
    command(
        f"cv {STUDY} --target y --kernel-matrix plain.csv --gamma 2",
        3,
        "--gamma and --kernel-matrix",
    ),
    command(f"cv {STUDY} --target y --id who", 3, "--kernel-matrix"),
    command(f"{_CV} --gamma wide", 3, "--gamma", "'wide'"),
    command(f"{_CV} --gamma -1", 3, "--gamma", "'-1'"),
    command(f"{_CV} --gamma 1_0", 3, "--gamma", "'1_0'"),
    command(f"{_CV} --degree three", 2, "--degree", "'three'"),
    command(f"{_CV} --degree 1_0", 2, "--degree", "'1_0'"),
    command(f"{_CV} --kernel poly --degree -2", 3, "degree"),
    command(f"{_CV} --kernel poly --degree nan", 3, "degree"),
    command(f"{_CV} --coef0 x", 2, "--coef0", "'x'"),
    command(f"{_CV} --alphas 0", 3, "--alphas", "'0'"),
    command(f"{_CV} --alphas -1", 3, "--alphas", "'-1'"),
    command(f"{_CV} --alphas nan", 3, "--alphas", "'nan'"),
    command(f"{_CV} --alphas 1e-3:1", 3, "--alphas", "'1e-3:1'"),
    command(f"{_CV} --alphas 1:1e-3:5", 3, "--alphas"),
    command(f"{_CV} --alphas 1e-3:1:1_0", 3, "--alphas", "1_0"),
    command(f"{_CV} --alphas 1e-3:1:1000000", 3, "--alphas"),
    command(f"{_CV} --alphas ,", 3, "--alphas"),
    command(f"{_CV} --basis many", 3, "--basis", "'many'"),
    command(f"{_CV} --basis 0", 3, "--basis", "'0'"),
    command(f"{_CV} --basis 1.5", 3, "--basis", "'1.5'"),
    command(f"{_CV} --basis 1_0", 3, "--basis", "'1_0'"),
    command(f"{_CV} --basis magic:5", 3, "--basis", "'magic:5'"),
    command(f"{_CV} --basis 99", 3, "basis", "only 24 rows"),
    command(f"{_CV} --basis per-group:2", 3, "--group: "),
    command(f"{_CV} --cv fast", 3, "--cv", "'fast'"),
    command(f"{_CV} --cv 1", 3, "at least 2 folds", "--cv 1"),
    command(f"{_CV} --cv 0", 3, "at least 2 folds"),
    command(f"{_CV} --cv 99", 3, "99 folds need at least 99 rows"),
    command(f"{_CV} --cv 0x5", 3, "at least 1 repeat"),
    command(f"{_CV} --cv group", 3, "--cv group needs --group"),
    command(f"{_CV} --cv group:3", 3, "needs --group"),
    command(f"{_CV} --group who --cv group:99", 3, "99 folds need at least 99 groups"),
    command(f"{_CV} --cv time:1", 3, "at least 2 steps"),
    command(f"{_CV} --held-out-basis drop", 2, "--held-out-basis"),
    command(f"{_CV} --held-out-basis skip", 3, "basis"),
    command(f"{_CV} --scoring best", 3, "--scoring", "'best'"),
    command(f"{_CV} --rule 2se", 2, "--rule"),
    command(f"{_CV} --seed one", 2, "--seed", "'one'"),
    command(f"{_CV} --seed 1_0", 2, "--seed", "'1_0'"),
    command(f"{_CV} --seed -1", 3, "--seed must be"),
    command(f"{_CV} --memory lots", 3, "--memory", "'lots'"),
    command(f"{_CV} --memory 1_0GB", 3, "--memory", "'1_0GB'"),
    command(f"{_CV} --basis none --memory 1kB", 3, "dense model of 24 rows"),
    command(f"{_CV} --verify -1", 3, "--verify", "-1"),
    command(f"{_CV} --report r.pdf", 3, "--report", "'r.pdf'"),
    command(f"{_CV} --report no/r.md", 3, "no folder"),
    command(f"{_CV} --save no/m", 3, "no folder"),
    command(f"{_CV} --save .", 6, "folder"),
    command(f"{_CV} --predictions p.xls", 3, "'p.xls'"),
    command(f"{_CV} --predictions no/p.csv", 3, "no folder"),
    command(f"{_CV} --predictions - --json", 3, "standard output"),
    command(f"{_CV} --delimiter ab", 3, "--delimiter", "'ab'"),
    command(f"{_CV} --delimiter ';'", 3, "--target", "'y'"),
    command("cv thousands.csv --target a", 3, "must hold numbers", "'1_000'"),
    command("cv noise.holdfast --target y", 3, "no column 'y'"),
    command(f"cv {STUDY} --target y --classify --features a", 3, "too many for classes"),
    command("explain no.csv --target y", 6, "No such file"),
    command(f"explain {STUDY} --target y --basis 0", 3, "--basis"),
    command(f"predict no.holdfast {STUDY}", 6, "No such file"),
    command(f"predict noise.holdfast {STUDY}", 5, "not a readable holdfast file"),
    command(f"predict {STUDY} {STUDY}", 5, "not a readable holdfast file"),
    command(f"predict python.holdfast {STUDY}", 5, "saved from Python"),
    command(f"predict python.holdfast {STUDY} --out p.doc", 3, "'p.doc'"),
    command(f"predict python.holdfast {STUDY} --out no/p.csv", 3, "no folder"),
    command("verify no.holdfast", 6, "No such file"),
    command("verify noise.holdfast", 5, "not a readable holdfast file"),
    command("verify python.holdfast -n 0", 3, "--experiments must be"),
    command("verify python.holdfast -n x", 2, "'x'"),
    command("verify python.holdfast --seed -1", 3, "--seed must be"),
    command("verify python.holdfast --tolerance small", 2, "--tolerance"),
]
