"""The options for arguments of the library, and what the command line advises with them."""

from __future__ import annotations

import shlex

__all__ = ["said", "with_options"]

#: What the library calls it, and the option for it.
_OPTIONS = {
    "basis": "--basis",
    "categorical": "--categorical",
    "classify": "--classify",
    "dayfirst": "--dayfirst",
    "fit_intercept": "--no-intercept",
    "groups": "--group",
    "h": "--cv",
    "header": "--no-header",
    "held_out_basis": "--held-out-basis",
    "k": "--basis",
    "level": "--interval",
    "max_size": "--basis",
    "memory_limit": "--memory",
    "n": "--basis",
    "n_experiments": "--experiments",
    "random_state": "--seed",
    "sample_weight": "--weight",
    "scale": "--no-scale",
} | {
    name: f"--{name}"
    for name in (
        "alphas",
        "band",
        "calibration",
        "coef0",
        "cv",
        "decimal",
        "degree",
        "delimiter",
        "drop",
        "encoding",
        "features",
        "gamma",
        "gap",
        "group",
        "id",
        "impute",
        "keep",
        "kernel",
        "na",
        "rule",
        "scoring",
        "target",
        "time",
        "trend",
        "weight",
    )
}


#: What an option does about a trouble that names its argument.
_HELP = {
    "--alphas": "--alphas 1e-6:1e3:30 compares other penalties",
    "--basis": "--basis 500 says how many basis rows",
    "--categorical": "--categorical A,B takes columns as names",
    "--cv": "--cv 10 holds out folds, --cv loo single rows",
    "--dayfirst": "--dayfirst or --no-dayfirst decides it",
    "--drop": "--drop A,B leaves columns out",
    "--gamma": "--gamma 0.01:10:7 compares other widths",
    "--group": "--cv group holds out whole groups",
    "--held-out-basis": "--held-out-basis keep or reselect treats them in another way",
    "--impute": "--impute fills in the median or the most frequent level",
    "--memory": "--memory 8GB allows more",
    "--na": "--na TEXT reads a text as a missing value",
}


def with_options(told: Exception | Warning, text: str | None = None) -> str:
    """Return the message of an error or a warning, with the options for its arguments.

    The text itself is left as it is: it may quote the user. Only where it begins with the name of
    the argument that was wrong, the option takes that place. Advice that the library gives apart
    from the text, in Python, is replaced by that of `_HELP`.

    Parameters
    ----------
    told : Exception or Warning
        With `argument` and `remedies`, if it is one of the library's.
    text : str, optional
        Another message than its own.
    """
    fact: str | None = getattr(told, "fact", None)
    text = fact or str(told) if text is None else text
    argument: str = getattr(told, "argument", None) or ""
    option = _OPTIONS.get(argument)
    remedies = (_OPTIONS[name] for name in getattr(told, "remedies", ()) if name in _OPTIONS)
    others = list(dict.fromkeys(remedies))
    if fact is not None:
        others = [option, *others] if option in _HELP else others
        helps = [_HELP.get(name, name) for name in others]
        ending = f" ({'; '.join(helps)}.)" if helps else ""
    else:
        others = [name for name in others if name not in text]
        ending = f" (Options: {', '.join(others)}.)" if others else ""
    if option is not None and text.startswith((f"{argument}:", f"{argument} ")):
        text = option + text[len(argument) :]
    elif option is not None and option not in text:
        text = f"{option}: {text}"
    return text + ending


def said(argument: str, value: object = None) -> str:
    """Return an argument and its value as someone would type them, such as ``--na n.d.``."""
    option = _OPTIONS[argument]
    if isinstance(value, bool):  # a switch
        return option if option.startswith("--no-") or value else f"--no-{option[2:]}"
    values = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return " ".join([option, *([shlex.quote(",".join(map(str, values)))] if values else [])])
