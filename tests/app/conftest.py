"""How the tests of the command ask."""

import json

import pytest

for package in ("pandas", "pyarrow", "skrub", "matplotlib", "jinja2", "tqdm", "skops"):
    pytest.importorskip(package, reason="the command needs the extra app")


@pytest.fixture
def ask(capsys):
    """Return what runs the command and gives its exit code, its output and its remarks."""
    from holdfast.app import main

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def found(ask):
    """Return what runs ``holdfast cv --json`` and gives its findings."""

    def run(*arguments):
        width = [] if "--gamma" in arguments else ["--gamma", "0.03"]
        code, out, err = ask(*arguments, *width, "--json", "--quiet", "--seconds", "20")
        assert code == 0, err
        return json.loads(out)

    return run
