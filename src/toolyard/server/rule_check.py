"""Warns of rules that do nothing: patterns that fit no tool, and members of the input that none of a rule's tools
takes. Often a name was mistyped, and somebody believes that a rule protects them.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..model.tool import Tool
from ..trust.access.access import matches
from .settings.table import Settings

_log = logging.getLogger("toolyard.rules")
NO_NAMES = ("@", "prompts/", "resources/")
"""How patterns begin that name no tool: a mark is for whatever has it, and the others are of prompts and resources."""


def tell_unfitting(settings: Settings, tools: Sequence[Tool], upstreams: Sequence[str] = ()) -> None:
    """Logs one line for all such rules. They are no error: a worker may bring the tool later. Of the `upstreams`, by
    their names, nobody knows the tools before they have answered: nothing is said of rules about those."""
    if found := list(_unfitting(settings, tools, upstreams)):
        _log.warning(
            "rules about tools or input that are not served now, and do nothing unless a worker brings them: %s",
            ", ".join(found),
        )
    if found := list(_over_text(settings, tools)):
        _log.warning(
            "rules with a number for input that is text, of which only text that is a number can exceed it: %s",
            ", ".join(found),
        )


def _unfitting(settings: Settings, tools: Sequence[Tool], upstreams: Sequence[str]) -> Iterator[str]:
    """Patterns and members of the input that are nobody's, each with the rule that has them."""
    for setting, rules in _patterns(settings).items():
        for number, patterns in enumerate(rules, 1):
            for pattern in patterns:
                # `*` fits whatever comes, and what is no name of a tool cannot be mistyped as one.
                is_name = pattern != "*" and not pattern.startswith(NO_NAMES)
                toolkit, _, tool_name = pattern.partition(".")
                if tool_name and any(fnmatchcase(name, toolkit) for name in upstreams):
                    continue
                if is_name and not any(matches(pattern, tool) for tool in tools):
                    yield f"{pattern} in {setting}[{number}]"

    for number, rule in enumerate(settings.approvals, 1):
        theirs = [tool.input_schema.get("properties", {}) for tool in tools if rule.is_about(tool)]
        for name in rule.over:
            if theirs and not any(name in properties for properties in theirs):
                yield f"over {name} in approvals[{number}]"


def _over_text(settings: Settings, tools: Sequence[Tool]) -> Iterator[str]:
    """Members with a number to exceed that are any text, for all of a rule's tools."""
    for number, rule in enumerate(settings.approvals, 1):
        theirs = [tool.input_schema.get("properties", {}) for tool in tools if rule.is_about(tool)]
        for name in rule.over:
            takers = [properties[name] for properties in theirs if name in properties]
            if takers and all(map(_is_any_text, takers)):
                yield f"over {name} in approvals[{number}]"


def _is_any_text(schema: Any) -> bool:
    """Whether a member takes any text. An amount may be text as well, and then its schema has a pattern or a format."""
    return isinstance(schema, Mapping) and schema.get("type") == "string" and not {"pattern", "format"} & schema.keys()


def _patterns(settings: Settings) -> dict[str, Iterable[tuple[str, ...]]]:
    """The patterns of each rule, by setting."""
    return {
        "access": [rule.tools for rule in settings.access],
        "approvals": [rule.tools for rule in settings.approvals],
        "limits": [limit.tools for limit in settings.limits or ()],
    }
