"""A peer that speaks HTTP/2 and gRPC by hand, so that it may say what no gRPC client says."""
import select
import socket
import struct
import time


class Stream:
    """A call of gordian.v1.Ingest/Collect: RFC 9113 (HTTP/2), with headers as literals (RFC 7541, 6.2.2)."""
    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8

    def __init__(self, port, reads=True):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.reads = reads
        self.ended = False
        self.windows = {0: 65535, 1: 65535}
        self.heard = b""
        self.to_send = bytearray(self.PREFACE)
        self.frame(self.SETTINGS, 0, b"", stream=0)
        headers = [(":method", "POST"), (":scheme", "http"), (":path", "/gordian.v1.Ingest/Collect"), (":authority", "a"),
                   ("content-type", "application/grpc"), ("te", "trailers")]
        self.frame(self.HEADERS, 4, b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode()
                                             for k, v in headers))

    def frame(self, kind, flags, contents, stream=1):
        self.to_send += struct.pack(">I", len(contents))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + contents

    def message(self, contents):
        """A gRPC message, as far as the windows let it."""
        contents = b"\0" + struct.pack(">I", len(contents)) + contents
        for at in range(0, len(contents), 16384):
            self.frame(self.DATA, 0, contents[at:at + 16384])

    def step(self):
        """Sends and receives what can be. An end by the other side is what a hostile peer must expect."""
        try:
            if self.to_send and min(self.windows.values()) > 0:
                sent = self.socket.send(self.to_send[:min(1 << 16, *self.windows.values())])
                del self.to_send[:sent]
                for stream in self.windows:  # frames' own nine bytes count for nothing there: a little slower is fine
                    self.windows[stream] -= sent
            if self.reads:
                data = self.socket.recv(1 << 16)
                self.ended |= not data
                self.heard += data
                self.take_frames()
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True

    def take_frames(self):
        while len(self.heard) >= 9:
            length = int.from_bytes(self.heard[:3], "big")
            if len(self.heard) < 9 + length:
                return
            kind, flags, stream = self.heard[3], self.heard[4], int.from_bytes(self.heard[5:9], "big")
            contents = self.heard[9:9 + length]
            self.heard = self.heard[9 + length:]
            if kind == self.WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += int.from_bytes(contents[:4], "big")
            elif kind in (self.SETTINGS, self.PING) and flags & 1 == 0:
                self.frame(kind, 1, contents if kind == self.PING else b"", stream=0)

    def close(self):
        self.socket.close()


def streams_for(streams, seconds, between=lambda: None):
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all(s.ended for s in streams):
        for stream in streams:
            if not stream.ended:
                stream.step()
        between()
        select.select([], [], [], 0.002)
