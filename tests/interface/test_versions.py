"""What `holdfast.show_versions` prints."""

import holdfast


def test_versions_name_what_a_bug_report_needs(capsys):
    holdfast.show_versions()
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["holdfast"] == holdfast.__version__
    assert {"python", "system", "numpy", "scipy", "scikit-learn", "pandas"} <= set(lines)
    assert "threads" in lines["blas"]
