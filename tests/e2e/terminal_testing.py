"""A terminal for tests: a program in a session of its own on a pty, what its screen shows, and keys."""
import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
STYLES = {"", "0", "1", "2", "7", "1;31", "1;32", "1;33"}


class Screen:
    """The sequences that `gordian watch` writes, and no others: one that it does not know fails the test."""

    def __init__(self, rows, columns):
        self.size = (rows, columns)
        self.other = None  # the user's screen, while the program has one of its own
        self.cursor_shown = True
        self.own_screen = False
        self.seen_styles = set()
        self.rest = ""
        self.scrolled = []  # lines that have left the user's screen at its top
        self.size_known = True  # else what comes may still be for the size before
        self.clear()

    def clear(self):
        self.lines = [[" "] * self.size[1] for _ in range(self.size[0])]
        self.row = self.column = 0

    def resize(self, rows, columns):
        self.size = (rows, columns)
        self.lines = [(line + [" "] * columns)[:columns] for line in self.lines[:rows]]
        self.lines += [[" "] * columns for _ in range(rows - len(self.lines))]
        self.row = min(self.row, rows - 1)

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if found is None:
                    if len(text) - at < 16:
                        self.rest = text[at:]
                        return
                    raise AssertionError(f"unknown sequence {text[at:at + 16]!r}")
                self.sequence(found[1], found[2])
                at = found.end()
                continue
            self.character(text[at])
            at += 1

    def character(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":  # ONLCR has made it "\r\n"
            self.feed_line()
        elif c < " ":
            raise AssertionError(f"control character {c!r} on the screen")
        else:
            if self.column >= self.size[1] and not self.own_screen:
                self.column = 0
                self.feed_line()
            if self.row < self.size[0] and self.column < self.size[1]:
                self.lines[self.row][self.column] = c
            elif self.size_known:
                raise AssertionError("beyond the screen, behind " + "".join(self.lines[self.row]))
            self.column += 1

    def feed_line(self):
        if self.row + 1 < self.size[0]:
            self.row += 1
            return
        if not self.own_screen:
            self.scrolled.append(self.lines[0])
        self.lines = self.lines[1:] + [[" "] * self.size[1]]

    def sequence(self, numbers, last):
        if last == "H":
            row, column = (numbers or "1;1").split(";")
            self.row, self.column = int(row) - 1, int(column) - 1
            self.size_known = self.size_known or self.row == 0  # all is drawn anew
        elif last == "K":
            if self.row < self.size[0]:
                self.lines[self.row][self.column:] = [" "] * max(self.size[1] - self.column, 0)
        elif last == "J" and numbers == "2":
            self.clear()
        elif last == "J":
            self.lines[self.row][self.column:] = [" "] * max(self.size[1] - self.column, 0)
            self.lines[self.row + 1:] = [[" "] * self.size[1] for _ in self.lines[self.row + 1:]]
        elif last == "m":
            assert numbers in STYLES, numbers
            self.seen_styles.add(numbers)
        elif (numbers, last) in (("?25", "l"), ("?25", "h")):
            self.cursor_shown = last == "h"
        elif numbers == "?1049":
            self.switch(last == "h")
        else:
            raise AssertionError(f"unknown sequence {numbers}{last}")

    def switch(self, own):
        if own == self.own_screen:
            return
        self.own_screen = own
        if own:
            self.other = (self.lines, self.row, self.column)
            self.clear()
        else:
            self.lines, self.row, self.column = self.other
            self.resize(*self.size)

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)

    def text_with_scrolled(self):
        return "\n".join("".join(line).rstrip() for line in self.scrolled + self.lines)


class OnTerminal:
    """A process on a pty; also the pty's settings as they were before it started."""

    def __init__(self, arguments, cwd, env, rows=30, columns=100, stdin=None, earlier=""):
        self.master, self.slave = os.openpty()
        self.screen = Screen(rows, columns)
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.raw = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        os.write(self.slave, earlier.encode())  # what the user had there

        def take_terminal():
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(arguments, cwd=cwd, stdin=self.slave if stdin is None else stdin,
                                        stdout=self.slave, stderr=self.slave, env=env, preexec_fn=take_terminal)

    def set_size(self, rows, columns):
        self.screen.size_known = (rows, columns) == self.screen.size
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def pump(self, seconds):
        """Takes what comes within that time; whether anything did."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            text = self.decoder.decode(os.read(self.master, 65536))
        except OSError:
            return False
        self.raw += text
        self.screen.feed(text)
        return True

    def until(self, condition, seconds=60):
        """Whether the condition holds, of a screen that has all that was written by then."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.pump(0.1)
        return True

    def shows(self, *words, seconds=60):
        return self.until(lambda: all(word in self.screen.text() for word in words), seconds)

    def wait(self, seconds=60):
        self.until(lambda: self.process.poll() is not None, seconds)
        while self.pump(0):
            pass
        return self.process.poll()

    def settings(self):
        return termios.tcgetattr(self.slave)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)
