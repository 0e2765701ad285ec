"""Completion scripts, written from the parser itself so that they cannot fall behind."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass

from holdfast.cli.parser import build_parser

__all__ = ["completion_script"]


@dataclass(frozen=True)
class Option:
    """One option of a command: its names, its help, its choices, whether it takes a value."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    takes_value: bool


def completion_script(shell: str) -> str:
    """Return the script for bash, zsh or fish."""
    if shell == "fish":
        return _fish()
    script = _bash()
    if shell == "zsh":
        return f"autoload -U +X bashcompinit && bashcompinit\n{script}"
    return script


def commands() -> dict[str, tuple[str, list[Option]]]:
    """Return each command with its help and its options."""
    parser = build_parser()
    (found,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in found._choices_actions}
    return {
        name: (helps.get(name, ""), [_option(a) for a in sub._actions])
        for name, sub in found.choices.items()
    }


def _option(action: argparse.Action) -> Option:
    return Option(
        names=tuple(action.option_strings),
        help=(action.help or "").replace("%%", "%"),
        choices=tuple(map(str, action.choices or ())),
        takes_value=action.nargs != 0,
    )


def _bash() -> str:
    cases = []
    for name, (_, options) in commands().items():
        words = [n for option in options for n in option.names]
        words += [c for option in options if not option.names for c in option.choices]
        values = [
            f"      {'|'.join(option.names)}) words={shlex.quote(' '.join(option.choices))} ;;"
            for option in options
            if option.names and option.choices
        ]
        files = [
            n
            for option in options
            if option.names and option.takes_value and not option.choices
            for n in option.names
        ]
        lines = [f"    {name})", f"      words={shlex.quote(' '.join(words))}"]
        if values or files:
            lines.append('      case "$previous" in')
            lines += values
            if files:
                lines.append(f"      {'|'.join(files)}) words='' ;;")
            lines.append("      esac ;;")
        else:
            lines.append("      ;;")
        cases.append("\n".join(lines))
    names = " ".join([*commands(), "--version", "--help"])
    return f"""\
_holdfast() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words={shlex.quote(names)}
  else
    case "${{COMP_WORDS[1]}}" in
{chr(10).join(cases)}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _holdfast holdfast
"""


def _fish() -> str:
    lines = ["complete -c holdfast -n __fish_use_subcommand -l version -d 'print the version'"]
    for name, (text, options) in commands().items():
        lines.append(
            f"complete -c holdfast -n __fish_use_subcommand -f -a {name} -d {_quote(text)}"
        )
        for option in options:
            seen = f"-n '__fish_seen_subcommand_from {name}'"
            if not option.names:
                if option.choices:
                    choices = " ".join(option.choices)
                    lines.append(f"complete -c holdfast {seen} -f -a {_quote(choices)}")
                continue
            parts = [f"complete -c holdfast {seen}"]
            for spelled in option.names:
                flag = "-l" if spelled.startswith("--") else "-s"
                parts.append(f"{flag} {spelled.lstrip('-')}")
            if option.choices:
                parts.append(f"-x -a {_quote(' '.join(option.choices))}")
            elif option.takes_value:
                parts.append("-r")
            parts.append(f"-d {_quote(option.help)}")
            lines.append(" ".join(parts))
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
