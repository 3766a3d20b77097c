"""Questions as forms, and the answers that come back: a type becomes a form that a person fills in, and what was filled
in becomes a value of the type.

MCP's forms are flat objects of texts, numbers, yes or no, and choices from texts. What a type says beyond that (a
pattern, a multiple) is not in the form; pydantic checks it when the answer is here. A form has no null: a field that
allows None may be left out, and is None then.

At the end of the file are the readers of what a client answers to each kind of question, in MCP's shapes. An answer of
another shape is a ValueError that says why.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import Struct, convert
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..model.errors import Declined
from .problems import in_one_line
from .schemas import NO_JSON_FORM, ForeignReference, Schemas, inline, reason_of

FORMATS = ("email", "uri", "date", "date-time")
"""The formats that MCP's forms have."""
_LABELS = ("title", "description", "default")
_FORMS_HAVE = "forms have texts, numbers, yes or no, and choices from texts"
_typed_dict: Any = TypedDict


class Form(Struct, frozen=True):
    """A form's schema, and the function that makes a value from an answer. `read` raises ValueError with what is
    wrong."""

    schema: dict[str, Any]
    read: Callable[[Any], Any]


def form_of(wanted: Any) -> Form:
    """The form for a type, or for a JSON Schema that the author gave. Raises TypeError for a type that cannot be a
    form."""
    if isinstance(wanted, dict):
        return Form(wanted, _members)
    adapter, schema = _schema_of(wanted)
    if "properties" in schema:
        return _form(wanted, adapter, schema)
    # A form is an object, so a plain type is asked for as its one member.
    wrapped = _form(wanted, *_schema_of(_typed_dict("Answer", {"value": wanted})))
    return Form(wrapped.schema, lambda content: wrapped.read(content)["value"])


def _form(wanted: Any, adapter: TypeAdapter[Any], schema: dict[str, Any]) -> Form:
    fields, required = schema["properties"], schema.get("required", [])
    absent = {name: None for name in required if _allows_none(fields[name])}
    form = {"type": "object", "properties": {name: _field(wanted, name, field) for name, field in fields.items()}}
    if needed := [name for name in required if name not in absent]:
        form["required"] = needed
    # As JSON and strictly: from a person, "3" is not 3, and a date is a text.
    validate = adapter.validator.validate_json

    def read(content: Any) -> Any:
        try:
            return validate(msgspec.json.encode({**absent, **_members(content)}), strict=True)
        except ValidationError as error:
            raise ValueError(in_one_line(error)) from None

    return Form(form, read)


def _members(content: Any) -> dict[str, Any]:
    """The members of an answer, with whole numbers as integers: a client may write 3.0 for 3."""
    if not isinstance(content, Mapping):
        raise ValueError("it is not an object")
    return {name: _whole(value) for name, value in content.items()}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _schema_of(wanted: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter = TypeAdapter(wanted)
        return adapter, inline(adapter.json_schema(schema_generator=Schemas, mode="validation"), "open")
    except NO_JSON_FORM as error:
        raise _refusal(wanted, f"{_culprit(wanted)}{reason_of(error)}") from None
    except ForeignReference as error:
        raise _refusal(wanted, f"its schema has a reference to {error}") from None


def _culprit(wanted: Any) -> str:
    """The field that cannot be in a form, which pydantic's error does not name; empty where none is found."""
    for name, type_ in get_type_hints(wanted, include_extras=True).items() if isinstance(wanted, type) else ():
        try:
            TypeAdapter(type_).json_schema()
        except NO_JSON_FORM:
            return f"{name!r}: "
    return ""


def _refusal(wanted: Any, reason: str) -> TypeError:
    shown = wanted.__name__ if isinstance(wanted, type) else str(wanted)
    return TypeError(f"{shown} cannot be a form: {reason}")


# --- fields --------------------------------------------------------------------------------------


class _NotInForms(Exception):
    """Raised for a field that a form cannot have; the message completes "it is …"."""


def _field(wanted: Any, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A field's schema, reduced to what forms have."""
    field = _without_none(schema)
    try:
        reduced = _reduced(field)
    except _NotInForms as error:
        raise _refusal(wanted, f"{name!r} is {error}") from None
    return {**reduced, **{word: field[word] for word in _LABELS if field.get(word) is not None}}


def _without_none(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field's values other than None, with the title, description and default of the whole field."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    others = {word: value for word, value in schema.items() if word != "anyOf"}
    return {**options[0], **others} if len(options) == 1 else {**others, "anyOf": options} if options else others


def _allows_none(schema: dict[str, Any]) -> bool:
    options = schema.get("anyOf", ())
    return None in schema.get("enum", ()) or any(option.get("type") == "null" for option in options)


def _reduced(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field in the few keywords that MCP's forms have. Raises _NotInForms."""
    if options := _options(field):
        # MCP's enums have titles for all options (oneOf) or for none (enum).
        titles = all("title" in option for option in options)
        return {"type": "string", **({"oneOf": options} if titles else {"enum": [each["const"] for each in options]})}
    kind = field.get("type")
    if kind == "string":
        return _text(field)
    if kind in ("integer", "number"):
        return _number(field)
    if kind == "array":
        return _several(field)
    if kind == "boolean":
        return {"type": kind}
    raise _NotInForms(f"{'an object' if kind == 'object' else 'not of one plain type'}; {_FORMS_HAVE}")


def _options(field: dict[str, Any]) -> list[dict[str, str]]:
    """The options of a choice, each with its value, and its title if it has one; none where the field is no choice."""
    several = field.get("oneOf") or field.get("anyOf") or ()
    if "enum" in field or "const" in field:
        options = [{"const": value} for value in field.get("enum", [field.get("const")]) if value is not None]
    elif several and all("const" in option for option in several):
        options = [{word: option[word] for word in ("const", "title") if word in option} for option in several]
    else:
        return []
    if not all(isinstance(option["const"], str) for option in options):
        raise _NotInForms(f"a choice from what is not text; {_FORMS_HAVE}")
    return options


def _text(field: dict[str, Any]) -> dict[str, Any]:
    format = field.get("format")
    if format == "password":
        raise _NotInForms("a secret, which no form may ask for; send the person to a page of yours with ask_url")
    known = {"format": format} if format in FORMATS else {}
    return {"type": "string", **known, **_kept(field, "minLength", "maxLength")}


def _number(field: dict[str, Any]) -> dict[str, Any]:
    """A number's schema. Forms have no exclusive bounds; for integers, the next integer is an inclusive one."""
    bounds = _kept(field, "minimum", "maximum")
    if field["type"] == "integer" and "exclusiveMinimum" in field:
        bounds["minimum"] = field["exclusiveMinimum"] + 1
    if field["type"] == "integer" and "exclusiveMaximum" in field:
        bounds["maximum"] = field["exclusiveMaximum"] - 1
    return {"type": field["type"], **bounds}


def _several(field: dict[str, Any]) -> dict[str, Any]:
    choice = _reduced(field.get("items", {}))
    if "oneOf" in choice:  # in a list of choices, MCP has anyOf for the same
        choice = {"anyOf": choice["oneOf"]}
    elif "enum" not in choice:
        raise _NotInForms(f"a list of what is not a choice; {_FORMS_HAVE}")
    return {"type": "array", "items": choice, **_kept(field, "minItems", "maxItems")}


def _kept(field: dict[str, Any], *words: str) -> dict[str, Any]:
    return {word: field[word] for word in words if word in field}


# --- answers -------------------------------------------------------------------------------------

_DONE = {"decline": "declined", "cancel": "cancelled"}


class Elicited(Struct):
    """A person's answer to a form or a link: MCP's `ElicitResult`."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Root(Struct):
    """A folder that the client works in: MCP's `Root`, without its name."""

    uri: str


class Roots(Struct):
    """All folders that the client works in: MCP's `ListRootsResult`."""

    roots: list[Root]


def accepted(answer: Any, name: str) -> dict[str, Any]:
    """What a person filled in. Raises Declined where they did not accept."""
    elicited = convert(answer, Elicited)
    if elicited.action != "accept":
        raise Declined(f"The question '{name}' was {_DONE[elicited.action]}", action=elicited.action)
    return elicited.content or {}


def sampled(answer: Any) -> str | dict[str, Any]:
    """What the client's model said: its text, or the whole result where that is not a text."""
    result = convert(answer, dict[str, Any])
    content = result.get("content")
    if isinstance(content, dict) and content.get("type") == "text":
        return str(content.get("text", ""))
    return result


def root_uris(answer: Any) -> list[str]:
    return [root.uri for root in convert(answer, Roots).roots]
