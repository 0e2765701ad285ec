"""The library's messages in the words of the command line: ``basis=1000`` is ``--basis 1000``."""

from __future__ import annotations

import re

__all__ = ["in_options", "option_of"]

#: What the library calls it, and the option for it.
_OPTIONS = {
    "alphas": "--alphas",
    "basis": "--basis",
    "categorical": "--categorical",
    "coef0": "--coef0",
    "cv": "--cv",
    "decimal": "--decimal",
    "degree": "--degree",
    "delimiter": "--delimiter",
    "drop": "--drop",
    "encoding": "--encoding",
    "features": "--features",
    "gamma": "--gamma",
    "gap": "--gap",
    "group": "--group",
    "groups": "--group",
    "held_out_basis": "--held-out-basis",
    "keep": "--keep",
    "kernel": "--kernel",
    "memory_limit": "--memory",
    "na": "--na",
    "random_state": "--seed",
    "rule": "--rule",
    "sample_weight": "--weight",
    "scoring": "--scoring",
    "target": "--target",
    "time": "--time",
    "weight": "--weight",
}
#: Whole phrases that are switches, or the absence of an option.
_SWITCHES = {
    "classify=True": "--classify",
    "dayfirst=True": "--dayfirst",
    "dayfirst=False": "--no-dayfirst",
    "fit_intercept=False": "--no-intercept",
    "header=False": "--no-header",
    "impute=True": "--impute",
    "scale=False": "--no-scale",
    "basis=None": "no --basis",
}
_NAMES = "|".join(sorted(_OPTIONS, key=len, reverse=True))
_SWITCH = re.compile("|".join(rf"(?<![\w(]){re.escape(text)}" for text in _SWITCHES))
# A list, a call with its arguments, a quoted text, dots, or a bare word without the full stop.
_VALUE = (
    r"\[(?P<list>[^\]]*)\]|(?P<call>[A-Z]\w*\((?:[^()]|\([^()]*\))*\))|'(?P<one>[^']*)'|"
    r'"(?P<two>[^"]*)"|(?P<dots>\.\.\.|…)|(?P<bare>[^\s,;:()\'"\[\]]*[^\s,;:().\'"\[\]])|'
)
_GIVEN = re.compile(rf"(?<![\w.(])(?P<name>{_NAMES})=(?:{_VALUE})")
# Quoted text is a user's, and stays as it is, unless it is the value of an argument.
_ASIDE = re.compile(
    rf"{_SWITCH.pattern}|{_GIVEN.pattern}|"
    r"(?<!\w)(?P<quoted>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")(?!\w)"
)
# Where the library speaks of an argument without a value.
_SPOKEN = re.compile(
    r"(?P<before>^|[.:;] |raise |extend |pass |Pass |Leave )"
    r"(?P<name>(?:alphas|sample_weight|memory_limit|groups|held_out_basis)(?=[ ,.;]|$)|"
    r"(?:scoring|rule|gamma|degree|coef0|random_state|delimiter|decimal|encoding)(?= must))"
)
#: Sentences that speak of Python, and what they say to someone at the command line.
_SENTENCES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^(?:basis|n|k|max_size) asks for ", "--basis asks for "),
        (r"^n_experiments must be", "--experiments must be"),
        (r"^level must lie between 0 and 1", "--interval must lie between 0 and 1, such as 0.9"),
        (r"^h=(\d+) holds out ", r"--cv hblock:\1 holds out "),
        (
            r"Cannot have number of (?:splits n_splits|folds)=(\d+) greater than the number of "
            r"(?:samples|groups)(?:: n_samples)?=(\d+)",
            r"\1 folds or steps need at least as many rows or groups; there are \2",
        ),
        (
            r"n_splits=(\d+) cannot be greater than the number of members in each class",
            r"\1 folds, and no class has so many rows",
        ),
        (
            r"^(\w+) needs groups to choose basis rows.*$",
            "this --basis chooses from every group; say --group, or use another --basis.",
        ),
        (r"sklearn\.metrics\.get_scorer_names\(\) lists them", "its documentation lists them"),
        (r'Use method="asymptotic"[^.]*', "Use another --scoring"),
        (r"Use other alphas\b", "Use other --alphas"),
        (r", a NumPy generator or None(?=; got)", ""),
    )
)


def in_options(message: str) -> str:
    """Return a message in which arguments of the library are options of the command line.

    Parameters
    ----------
    message : str
        Of an error or a warning.
    """
    quoted: list[str] = []

    def set_aside(found: re.Match[str]) -> str:
        if found["quoted"] is None:
            return found[0]
        quoted.append(found[0])
        return f"\x00{len(quoted) - 1}\x00"

    message = _ASIDE.sub(set_aside, message)
    for pattern, words in _SENTENCES:
        message = pattern.sub(words, message)
    message = _SWITCH.sub(lambda found: _SWITCHES[found[0]], message)
    message = _GIVEN.sub(_given, message)
    message = _SPOKEN.sub(lambda found: found["before"] + _OPTIONS[found["name"]], message)
    return re.sub("\x00(\\d+)\x00", lambda found: quoted[int(found[1])], message)


def option_of(argument: str | None) -> str | None:
    """Return the option for an argument of the library; None if there is none."""
    return None if argument is None else _OPTIONS.get(argument)


def _given(found: re.Match[str]) -> str:
    option = _OPTIONS[found["name"]]
    if found["list"] is not None:
        names = [item.strip().strip("'\"") for item in found["list"].split(",")]
        text = ",".join(name for name in names if name)
        return f"{option} {_quoted('…' if text in ('...', '') else text)}"
    if found["dots"]:
        return f"{option} …"
    value = next((found[key] for key in ("one", "two", "bare") if found[key] is not None), None)
    return option if value is None or value in ("None", "") else f"{option} {_quoted(value)}"


def _quoted(text: str) -> str:
    return f"'{text}'" if re.search(r"[\s<>;|&*?()]", text) else text
