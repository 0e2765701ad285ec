"""What is packed: recipes agree with pyproject.toml, and the wheel holds the package only."""

import importlib.util
import re
import tomllib
import zipfile
from pathlib import Path

import holdfast

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_written_once():
    assert tool("check_package").version() == holdfast.__version__
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)


def test_conda_recipe_repeats_the_bounds():
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text("utf-8")
    asked = dict(re.findall(r"^    - ([\w-]+) >=([\d.]+)$", recipe, re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["plot"], *extras["app"]]
    for requirement in wanted:
        name, bound = requirement.split(">=")
        assert asked[{"matplotlib": "matplotlib-base"}.get(name, name)] == bound
    assert asked["python"] == PROJECT["requires-python"].removeprefix(">=")


def test_workflow_runs_the_versions_that_are_promised():
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8")
    for classifier in PROJECT["classifiers"]:
        if found := re.search(r":: (3\.\d+)$", classifier):
            assert f'"{found[1]}"' in workflow


def test_a_foreign_file_in_the_wheel_is_found(tmp_path):
    check = tool("check_package")
    name = f"holdfast-{holdfast.__version__}"
    (tmp_path / f"{name}.tar.gz").touch()
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        for path in check.NEEDED:
            wheel.writestr(f"holdfast/{path}", "")
        wheel.writestr("reproduce/__main__.py", "")
    (trouble,) = check.troubles(tmp_path, publish=False)
    assert "reproduce/__main__.py" in trouble


def test_what_the_wheel_must_hold_is_there():
    package = Path(holdfast.__file__).parent
    assert [path for path in tool("check_package").NEEDED if not (package / path).is_file()] == []
    assert [path for path in PROJECT["license-files"] if not (ROOT / path).is_file()] == []


def test_extras_of_the_readme_write_the_report_that_it_promises():
    readme = (ROOT / "README.md").read_text("utf-8")
    line = re.search(r'pip install "\.\[(\w+)\]".*\n +holdfast cv .*--report \w+\.html', readme)
    names = {r.split(">=")[0] for r in PROJECT["optional-dependencies"][line[1]]}
    assert {"pandas", "pyarrow", "jinja2", "matplotlib"} <= names
