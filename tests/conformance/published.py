"""The published OpenAPI documents, as validators for replies, when they lie beside the checkout.

They have slips that would refuse every correct reply, or accept anything. `REPAIRS` names each one and puts
right what was plainly meant; where the draft's document disagrees with its text, the text is followed.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema_rs

from .sentences import SPEC

SCHEMAS = SPEC / "schemas"
FILES = {"oxp": "oxp-1.0.openapi.json", "otc": "otc-1.0.openapi.json", "otc_draft": "otc-draft.openapi.json"}
TOOL = "/components/schemas/ToolDefinition"


@dataclass(frozen=True)
class Repair:
    wires: tuple[str, ...]
    at: str
    why: str
    drop: tuple[str, ...] = ()
    put: Mapping[str, Any] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)


REPAIRS = (
    Repair(
        ("oxp", "otc"),
        "/components/schemas/CallToolResponse",
        "closed by additionalProperties, which does not see `value` and `error` inside oneOf",
        drop=("additionalProperties",),
        put={"unevaluatedProperties": False},
    ),
    Repair(
        ("oxp", "otc", "otc_draft"),
        f"{TOOL}/properties/requirements/properties/authorization",
        "`required` and `additionalProperties` stand beside `items`, where they mean nothing for an array",
        drop=("required", "additionalProperties"),
    ),
    Repair(
        ("oxp", "otc", "otc_draft"),
        f"{TOOL}/properties/requirements/properties/authorization/items",
        "an authorization requirement needs an id",
        put={"required": ["id"]},
    ),
    Repair(
        ("otc_draft",),
        "/components/schemas/SimpleJSONSchema",
        "`not` with `properties` refuses every object; meant: no member called $ref, $defs or definitions",
        drop=("not",),
        put={"propertyNames": {"not": {"enum": ["$ref", "$defs", "definitions"]}}},
    ),
    Repair(
        ("otc_draft",),
        f"{TOOL}/properties/input_schema/properties/parameters",
        "asks every JSON Schema for members `name` and `description`",
        drop=("required",),
    ),
    Repair(
        ("otc_draft",),
        f"{TOOL}/properties/input_schema/properties",
        "the text has `non_inferrable_parameters`",
        put={"non_inferrable_parameters": {"type": "array", "items": {"type": "string"}}},
    ),
    Repair(
        ("otc_draft",),
        f"{TOOL}/properties",
        "the text and its example say `input` and `output`",
        rename={"input_schema": "input", "output_schema": "output"},
    ),
    Repair(
        ("otc_draft",),
        TOOL,
        "the same names; the text makes `output` optional",
        put={"required": ["id", "name", "description", "toolkit", "input"]},
    ),
)


def resolve(document: Any, pointer: str) -> Any:
    """What a JSON pointer points at; KeyError when there is nothing."""
    place = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = place[int(name)] if isinstance(place, list) else place[name]
    return place


def repaired(wire: str, document: Any) -> Any:
    result = copy.deepcopy(document)
    for repair in REPAIRS:
        if wire in repair.wires:
            place = resolve(result, repair.at)
            for name in repair.drop:
                del place[name]
            for old, new in repair.rename.items():
                place[new] = place.pop(old)
            place.update(repair.put)
    return result


@cache
def published(wire: str) -> Any:
    return json.loads((SCHEMAS / FILES[wire]).read_text(encoding="utf-8"))


@cache
def validator(wire: str, name: str) -> Any:
    components = repaired(wire, published(wire))["components"]
    if name not in components["schemas"]:
        raise KeyError(f"{FILES[wire]} has no component schema {name}")
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": components},
    )


def schema_problems(wire: str, name: str, value: Any) -> list[str]:
    errors = validator(wire, name).iter_errors(value)
    return [f"{name} at {'/'.join(map(str, e.instance_path)) or '$'}: {e.message}" for e in errors]
