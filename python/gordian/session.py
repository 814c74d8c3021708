"""Reads what `gordian run` recorded, as tables for a notebook.

    import gordian
    session = gordian.open_session("latest")
    session.verdict["summary"]
    session.ranks()                   # a pandas.DataFrame
    session.ranks(frame=False)        # a list of dicts, for which pandas is not needed
    session.operations(rank=0, last=100)

The program `gordian` reads the session; the names and values of columns are those of its JSON
(docs/schemas). A name says its unit: `_ns` nanoseconds, `_s` seconds. Notes of the program, as on
a trace that was cut off, become warnings.
"""

import importlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings

_RANKS = ("rank", "pid", "incarnation", "node", "state", "call", "operation", "ending", "since_s",
          "site", "nccl_calls")
_COMMUNICATORS = ("name", "uid", "size", "ranks", "ranks_seen", "made_by_rank", "site",
                  "destroyed", "sequence_min", "sequence_max", "behind", "behind_by")
_CYCLE = ("rank", "waits_for_rank", "reason", "op", "comm", "comm_name", "seq", "stream", "bytes",
          "site", "detail")
_STUCK = ("op", "comm", "comm_name", "seq", "bytes", "rank", "state", "instead", "site")
_STACKS = ("stack", "ranks", "frame", "function", "file", "line", "module", "python")
_OPERATIONS = ("rank", "communicator", "communicator_name", "operation", "sequence", "member",
               "root_or_peer", "count", "datatype", "reduce_op", "stream", "thread", "batch",
               "order", "called_ns", "done_ns", "state", "site")

# The folder of the package is below that of the program in: what `cmake --install` and packages
# make, for users and for jobs; a build; a Python that has the wheel.
_PLACES = re.compile(r"(?P<prefix>.*)/(?:share/gordian/python|lib[^/]*(?:/[^/]+)?/gordian/python|"
                     r"lib/python|lib[^/]*/python[\d.]+t?/(?:site|dist)-packages)")
_DECIDED = (0, 1, 3)  # what verbs that give a verdict end with; 2: they could not read
_ROWS_AT_ONCE = 65536


class SessionError(RuntimeError):
    """A session that cannot be read, and what to try."""


def open_session(path="latest", program=None):
    """Opens a session, or a .gtrace file. `program`: the `gordian` to read it with; without it the
    one that came with this package, else the first in PATH."""
    return Session(path, program)


class Session:
    """A recorded job, or one that still runs. Verdict and status are read at their first use, and
    again after refresh()."""

    def __init__(self, path="latest", program=None):
        named = os.path.abspath(os.fspath(path))
        if not os.path.exists(named):
            raise SessionError(f"there is no session {named} (try: the folder that `gordian run` "
                               "named when it ended, or `latest` where it was started)")
        self.path = os.path.realpath(named)  # the next run points `latest` at another one
        self.program = _program(program)
        self.refresh()

    def __repr__(self):
        return f"gordian.open_session({self.path!r})"

    def refresh(self):
        """Has verdict and status read again, as of a job that still runs."""
        self._verdict = self._status = None

    @property
    def verdict(self):
        """The verdict as a dict (schema gordian.verdict.v1): what verdict.json holds. Of a session
        without one, or whose gordian was killed, it is decided again from the records."""
        if self._verdict is None:
            self._verdict = self._ask("gordian.verdict.v1", "explain", self.path, "--json")
        return self._verdict

    def status(self):
        """What ranks and communicators do, or did last, as a dict (schema gordian.status.v1)."""
        if self._status is None:
            self._status = self._ask("gordian.status.v1", "status", self.path, "--json")
        return self._status

    def ranks(self, frame=True):
        """A row a rank: its state, and the call and the operation that it is in."""
        return _table("ranks", _RANKS, lambda: self.status()["ranks"], frame)

    def communicators(self, frame=True):
        """A row a communicator: its ranks, how far they are, and which are behind."""
        return _table("communicators", _COMMUNICATORS, lambda: self.status()["communicators"],
                      frame)

    def cycle(self, frame=True):
        """Who waits for whom: a row an arrow of the witness. Empty if no cycle was found."""
        return _table("cycle", _CYCLE, lambda: self.verdict["cycle"], frame)

    def stuck_operations(self, frame=True):
        """A row for each member of an operation that cannot end: how far the member is with it,
        and what it does instead. Also of a hang without a cycle."""
        return _table("stuck_operations", _STUCK, lambda: [
            {**{key: operation[key] for key in ("op", "comm", "comm_name", "seq", "bytes")},
             **member}
            for operation in self.verdict["operations"] for member in operation["members"]], frame)

    def stacks(self, frame=True):
        """A row a stack frame, innermost first. Ranks whose stacks are equal share one."""
        return _table("stacks", _STACKS, lambda: [
            {"stack": number, "ranks": stack["folded_ranks"], "frame": depth, **function}
            for number, stack in enumerate(self.verdict["stacks"])
            for depth, function in enumerate(stack["frames"])], frame)

    def operations(self, rank=None, last=None, frame=True):
        """A row an operation (schema gordian.operations.v1), rank by rank; `called_ns` and
        `done_ns` count from 1970, and `done_ns` is 0 of what is not done.

        rank: of this one alone. last: of each rank only its last N, and all that are unfinished."""
        if not frame:
            return list(self.each_operation(rank, last))
        pandas = _pandas("operations")
        return _frame_of_operations(pandas, self.each_operation(rank, last))

    def each_operation(self, rank=None, last=None):
        """Yields the rows of operations() as dicts while the program writes them, so that memory
        does not grow with the session."""
        if last is not None and last < 1:
            raise ValueError(f"last={last}: name how many operations of each rank, or leave it out")
        return self._read_operations(rank, last)

    def _read_operations(self, rank, last):
        command = [self.program, "export", self.path, "-f", "jsonl"]
        command += [] if last is None else ["--last", str(last)]
        with tempfile.TemporaryFile() as notes, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=notes,
                encoding="utf-8") as process:
            header, whole, ended = None, True, False
            try:
                for line in process.stdout:
                    whole = line.endswith("\n")
                    if not whole:
                        break
                    row = self._parse(line, command)
                    if header is None:
                        header = self._checked(row, "gordian.operations.v1")
                        names = [one["name"] for one in header["communicators"]]
                    elif rank is None or row["rank"] == rank:
                        row["communicator_name"] = names[row["communicator"]]
                        yield row
                ended = True
            finally:
                if not ended:  # its reader wants no more of it
                    process.kill()
            code = process.wait()
            notes.seek(0)
            said = notes.read().decode("utf-8", "replace")
        if code != 0 or header is None or not whole:
            raise self._failed(command, code, said)
        _warn(said)

    def _ask(self, schema, *arguments):
        command = [self.program, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                              check=False)
        if done.returncode not in _DECIDED:
            raise self._failed(command, done.returncode, done.stderr)
        document = self._checked(self._parse(done.stdout, command), schema)
        _warn(done.stderr)
        return document

    def _parse(self, text, command):
        try:
            return json.loads(text)
        except ValueError as error:
            raise SessionError(f"{self.path}: `{shlex.join(command)}` wrote no JSON: "
                               f"{text[:100]!r} (try: the command in a shell)") from error

    def _checked(self, document, schema):
        found = document.get("schema") if isinstance(document, dict) else None
        if found != schema:
            raise SessionError(f"{self.path}: {self.program} writes the schema {found}, and this "
                               f"package reads {schema} (try: program= and package of one version)")
        return document

    def _failed(self, command, code, said):
        lines = "; ".join(_lines(said)) or f"it ended with {code} and said nothing"
        return SessionError(f"{self.path} cannot be read: {lines} (try: {shlex.join(command)})")


def _program(named):
    if named is not None:
        found = shutil.which(os.fspath(named))
        if found is None:
            raise SessionError(f"{named} is no program (try: the path of `gordian`)")
        return found
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    place = _PLACES.fullmatch(folder)
    beside = place and os.path.join(place["prefix"] or "/", "bin", "gordian")
    found = (beside and shutil.which(beside)) or shutil.which("gordian")
    if found is None:
        raise SessionError(f"no program `gordian` belongs to the package in {folder}, and none is "
                           "in PATH (try: open_session(path, program=\"/path/of/gordian\"))")
    return found


def _pandas(method):
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError(f"{method}() makes a frame of pandas, which is not installed (try: pip "
                          f"install pandas; Debian: python3-pandas); {method}(frame=False) gives "
                          "a list of dicts without it", name="pandas") from error


def _table(method, columns, rows, frame):
    if not frame:
        return rows()
    return _pandas(method).DataFrame(rows(), columns=list(columns))


def _frame_of_operations(pandas, rows):
    """Some rows at a time become columns, so that not all of them are dicts at once."""
    parts, texts = [], {}
    while True:
        some = list(itertools.islice(rows, _ROWS_AT_ONCE))
        if not some and parts:
            return pandas.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
        for row in some:
            for key in ("operation", "state", "site"):  # few are different
                row[key] = texts.setdefault(row[key], row[key])
        part = pandas.DataFrame(some, columns=list(_OPERATIONS))
        for name in part.columns:
            if part[name].dtype == "uint64":  # which beside int64 would become float64
                part[name] = part[name].astype(object)
        parts.append(part)


def _lines(said):
    return [re.sub(r"^gordian: ", "", line) for line in said.splitlines() if line]


def _warn(said):
    for line in _lines(said):
        warnings.warn(line, stacklevel=4)
