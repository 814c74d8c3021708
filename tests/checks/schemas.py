"""Holds JSON that gordian wrote against docs/schemas, with Debian's python3-jsonschema."""

import copy
import importlib
import json
import os
import sys

SOURCES = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir))
FOLDER = os.path.join(SOURCES, "docs", "schemas")

# What has no schema here yet: their pages describe it.
WITHOUT = {"gordian.alert.v1", "gordian.checkpoint.v1", "gordian.collectives.v1", "gordian.job.v1", "gordian.jobs.v1", "gordian.manifest.v1",
           "gordian.page.v1", "gordian.plan.v1", "gordian.samples.v1", "gordian.simulation.v1", "gordian.sweep.v1"}


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


def problems(document, name=None):
    """What is wrong with the document, a line each; of one without a schema nothing."""
    name = name or document.get("schema")
    if name is None or name in WITHOUT:
        return []
    if name not in names():
        return [f"there is no docs/schemas/{name}.json"]
    if name not in _validators:
        whole = schema(name)
        # One may refer to another by its name, which is found among its definitions.
        others = {other: schema(other) for other in names() if f'"$ref": "{other}"' in json.dumps(whole)}
        whole["$defs"] = {**whole.get("$defs", {}), **others}
        _validators[name] = jsonschema().Draft202012Validator(whole)
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


def with_a_new_field(document, at=()):
    """Copies of the document, in each of which another object has a field more: (path, copy)."""
    def objects(value, path):
        if isinstance(value, dict):
            yield path
            for key, inner in value.items():
                yield from objects(inner, (*path, key))
        elif isinstance(value, list) and value:
            yield from objects(value[0], (*path, 0))
    for path in objects(document, at):
        changed = copy.deepcopy(document)
        place = changed
        for key in path:
            place = place[key]
        place["a_new_field"] = None
        yield path, changed
