"""Protobuf's wire format by hand, for messages that no serialiser makes."""


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def field(field, contents):
    return varint(field << 3 | 2) + varint(len(contents)) + contents
