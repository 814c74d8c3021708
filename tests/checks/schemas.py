"""Holds JSON that gordian wrote against docs/schemas, with Debian's python3-jsonschema."""

import copy
import importlib
import inspect
import json
import os
import sys

SOURCES = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir))
FOLDER = os.path.join(SOURCES, "docs", "schemas")

# What gordian alone reads back, in the version that wrote it.
WITHOUT = {"gordian.checkpoint.v1", "gordian.sweep-checkpoint.v1"}


class Missing(Exception):
    """jsonschema is not installed: a test says so and skips."""


def jsonschema():
    try:
        return importlib.import_module("jsonschema")
    except ImportError:
        pass
    # Debian's packages are for its own interpreter; this one is written in Python alone.
    debian = "/usr/lib/python3/dist-packages"
    sys.path.append(debian)
    try:
        return importlib.import_module("jsonschema")
    except ImportError as error:
        raise Missing("jsonschema is not installed (Debian: python3-jsonschema)") from error
    finally:
        sys.path.remove(debian)


def names():
    return sorted(name[:-len(".json")] for name in os.listdir(FOLDER) if name.endswith(".json"))


def schema(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
        return json.load(f)


_validators = {}


def _validator(name):
    """Of the schema, which may refer to others by their names."""
    whole = {"$ref": name}
    validator = jsonschema().Draft202012Validator
    others = {other: schema(other) for other in names()}
    if "registry" in inspect.signature(validator).parameters:
        referencing = importlib.import_module("referencing")
        resources = [(other, referencing.Resource.from_contents(contents)) for other, contents in others.items()]
        return validator(whole, registry=referencing.Registry().with_resources(resources).crawl())
    return validator({**whole, "$defs": others})  # jsonschema before 4.18 finds them there


def problems(document, name=None):
    """What is wrong with the document, a line each; of one without a schema nothing. A name may go on
    with #/$defs/PART: the document is that part alone."""
    name = name or document.get("schema")
    if name is None or name in WITHOUT:
        return []
    if name.partition("#")[0] not in names():
        return [f"there is no docs/schemas/{name}.json"]
    if name not in _validators:
        _validators[name] = _validator(name)
    return [f"{name}: /{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
            for error in _validators[name].iter_errors(document)]


def check(text):
    """Raises AssertionError if the text is a JSON object that its schema does not allow. Without jsonschema: nothing."""
    try:
        document = json.loads(text)
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    try:
        found = problems(document)
    except Missing:
        return
    if found:
        raise AssertionError("\n".join(found))


def with_short_lists(value):
    """A copy in which each list has its first element alone: small, and with all the kinds of objects."""
    if isinstance(value, dict):
        return {key: with_short_lists(inner) for key, inner in value.items()}
    return [with_short_lists(inner) for inner in value[:1]] if isinstance(value, list) else value


def _places(value, path=()):
    """The paths of all that is in a document."""
    yield path
    inners = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inners:
        yield from _places(inner, (*path, key))


def _at(document, path):
    for key in path:
        document = document[key]
    return document


def with_a_new_field(document):
    """Copies of the document, in each of which another object has a field more: (path, copy)."""
    for path in _places(document):
        if isinstance(_at(document, path), dict):
            changed = copy.deepcopy(document)
            _at(changed, path)["a_new_field"] = None
            yield path, changed


def without_a_field(document):
    """Copies of the document, each of which lacks another field: (path of the field, copy)."""
    for path in _places(document):
        if path and isinstance(path[-1], str):
            changed = copy.deepcopy(document)
            del _at(changed, path[:-1])[path[-1]]
            yield path, changed


def with_another_type(document):
    """Copies of the document, in each of which another value is of a type that it never has: (path, copy)."""
    for path in _places(document):
        if path:
            changed = copy.deepcopy(document)
            is_object = isinstance(_at(document, path), dict)
            _at(changed, path[:-1])[path[-1]] = ["of another type"] if is_object else {"of": "another type"}
            yield path, changed
