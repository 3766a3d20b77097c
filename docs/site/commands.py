"""The reference of the command line: every verb with its arguments and options, as `--help` has them."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from toolyard.cli.command_line import command_line

QUOTE = "'"
_typed = re.compile(r"('toolyard [^']+'|(?<!\S)--[a-z][a-z-]+)")
_markup = re.compile(r"([*_<>\[\]`])")


def reference() -> str:
    """The Markdown of all verbs, in the order of `toolyard --help`."""
    found = list(verbs())
    listed = "".join(f"| [`{path}`](#{anchor(path)}) | {_escaped(_first(command))} |\n" for path, command in found)
    summary = f"\n## Every verb\n\n| verb | does |\n|---|---|\n{listed}"
    return summary + "".join(_verb(path, command) for path, command in found)


def anchor(path: str) -> str:
    """What a link to a verb's section has after `#`."""
    return path.replace(" ", "-")


def verbs() -> Iterator[tuple[str, Any]]:
    """Every command with the words that it is typed as, those of a group after the group."""
    return _below(typer.main.get_command(command_line([])), "toolyard")


def _below(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield f"{words} {name}", command
        yield from _below(command, f"{words} {name}") if hasattr(command, "commands") else ()


def _first(command: Any) -> str:
    """The first sentence of a verb's help."""
    return _cell(command.help.split("\n\n")[0]).partition(". ")[0].rstrip(".")


def _verb(path: str, command: Any) -> str:
    context = command.context_class(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    rows = [record for each in command.get_params(context) if (record := each.get_help_record(context)) is not None]
    parts = [f"\n## {path}", f"```text\n{usage}\n```", _prose(command.help or ""), _table(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(rows: list[tuple[str, str]]) -> str:
    """Arguments and options with what they mean. A value may be one of several, and a bar would end the cell."""
    lines = [f"| `{_cell(name)}` | {_escaped(_cell(meaning))} |" for name, meaning in rows if name != "--help"]
    return "\n".join(["| option | meaning |", "|---|---|", *lines]) if lines else ""


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


def _prose(help: str) -> str:
    """A verb's help: paragraphs, and after them lines that one could type."""
    paragraphs = re.split(r"\n\s*\n", help.replace("\b", "").strip())
    return "\n\n".join(
        f"```text\n{each.strip()}\n```" if each.strip().startswith("toolyard ") else _escaped(each)
        for each in paragraphs
    )


def _escaped(text: str) -> str:
    """Help is plain text, so nothing in it is markup. Flags, and commands in quotes, are shown as code."""
    return "".join(map(_part, _typed.split(text)))


def _part(text: str) -> str:
    return f"`{text.strip(QUOTE)}`" if _typed.fullmatch(text) else _markup.sub(r"\\\1", text)
