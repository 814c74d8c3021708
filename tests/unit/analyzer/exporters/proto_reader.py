"""Reads protobuf messages by a schema, with protoc: a reader that shares nothing with gordian's writer."""

import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Malformed(Exception):
    """The bytes are no message of the schema, or hold a field that it does not have."""


def text_of(quoted):
    return quoted[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1").decode("utf-8")


def value_of(word):
    if word.startswith('"'):
        return text_of(word)
    if word in ("true", "false"):
        return word == "true"
    return int(word) if re.fullmatch(r"-?\d+", word) else word  # a name of an enumeration


def decode(schema, message, data):
    """The message as a dict of lists: each field may be repeated."""
    done = subprocess.run(["protoc", f"--decode={message}", f"-I{HERE}", os.path.join(HERE, schema)], input=data,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Malformed(done.stderr.decode(errors="replace"))
    stack = [{}]
    for line in done.stdout.decode("latin-1").splitlines():
        line = line.strip()
        if line == "}":
            stack.pop()
            continue
        field = re.match(r"\w+", line).group()
        if field.isdigit():
            raise Malformed(f"{message}: a field that {schema} does not have: {line}")
        if line.endswith("{"):
            inner = {}
            stack[-1].setdefault(field, []).append(inner)
            stack.append(inner)
        else:
            stack[-1].setdefault(field, []).append(value_of(line.split(": ", 1)[1]))
    return stack[0]


def delimited(data):
    """The messages of a file that has each behind its length."""
    messages, at = [], 0
    while at < len(data):
        length = shift = 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if at + length > len(data):
            raise Malformed(f"a message of {length} bytes is cut at {len(data) - at}")
        messages.append(data[at:at + length])
        at += length
    return messages
