"""The Python package `gordian` reads sessions of real jobs: what it gives is what the command line prints, with
pandas and without it, and the notebook of examples/notebook is executed.

  notebook.py BUILD
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

from cli_testing import EMULATOR, GORDIAN, JOB, CliTest, alive, clean_environment, end_with_job, main, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "python", "gordian")
NOTEBOOK = os.path.join(ROOT, "examples", "notebook", "hung_job.ipynb")
TABLES = ("ranks", "communicators", "cycle", "stuck_operations", "stacks", "operations")
STEADY = [JOB, "steady_then_inversion", "--ranks", "2"]
STEPS = 20  # before the hang, at least


def interpreter_with(*modules):
    """A python3 of this machine that has the modules; None: there is none. Debian's are for its own one."""
    asks = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in {modules!r}))"
    for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", asks], capture_output=True).returncode == 0:
            return python
    return None


WITH_PANDAS = interpreter_with("pandas")
WITH_JUPYTER = interpreter_with("pandas", "nbclient", "nbformat", "ipykernel")
NEEDED = "(Debian: {}; ./dev test installs them)"

# What a program writes in the place of `gordian export -f jsonl`.
HEADER = json.dumps({"schema": "gordian.operations.v1", "communicators": [{"name": "dp", "ranks": [0, 1]}]})
ROW = json.dumps({"rank": 0, "communicator": 0, "operation": "AllReduce", "sequence": 0, "member": 0,
                  "root_or_peer": -1, "count": 1, "datatype": 7, "reduce_op": 0, "stream": 1, "thread": 1, "batch": 0,
                  "order": 1, "called_ns": 1, "done_ns": 0, "state": "called", "site": "a.py:1"})

# Programs that run with the package in PYTHONPATH.
BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "numpy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""
LISTS = BLOCK + """
import json, gordian
session = gordian.open_session(sys.argv[1])
found = {"verdict": session.verdict, "status": session.status(), "errors": {}}
for table in sys.argv[2].split(","):
    found[table] = getattr(session, table)(frame=False)
    try:
        getattr(session, table)()
    except ImportError as error:
        found["errors"][table] = str(error)
print(json.dumps(found))
"""
FRAMES = """
import json, sys, gordian, gordian.session
found = {"pandas loaded": "pandas" in sys.modules}
session = gordian.open_session(sys.argv[1], program=sys.argv[3] if len(sys.argv) > 3 else None)
for table in sys.argv[2].split(","):
    frame = getattr(session, table)()
    found[table] = {"columns": list(frame.columns), "rows": frame.to_dict("records"), "index": list(frame.index),
                    "types": {name: str(kind) for name, kind in frame.dtypes.items()}}
print(json.dumps(found))
"""
EXECUTE = """
import json, sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
place = {"metadata": {"path": sys.argv[2]}}
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
print(json.dumps(notebook))
"""


def record(folder, *arguments):
    """Runs the job in a folder, and returns its session, which is where `latest` leads to."""
    os.mkdir(folder)
    session, until = os.path.join(folder, "latest"), os.path.join(folder, "until")
    run = subprocess.Popen(
        [GORDIAN, "run", "--emulator", "--on-verdict", "kill", "--", *STEADY, *arguments], cwd=folder,
        env=clean_environment(JOB_UNTIL=until), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True)

    def has_stepped():
        done = subprocess.run([GORDIAN, "status", session, "--json"], capture_output=True, text=True)
        status = json.loads(done.stdout) if done.stdout else {"communicators": []}
        return max((comm["sequence_max"] for comm in status["communicators"]), default=0) > STEPS
    try:
        stepped = wait_until(has_stepped, every=0.1)
        open(until, "w").close()
        said = run.communicate(timeout=60)[1]
    finally:
        end_with_job(run)
    if not stepped or run.returncode != (0 if arguments else 137):
        raise AssertionError(f"{folder}: {run.returncode}: {said}")
    return session


def setUpModule():
    """Records the job and its twin, and lays the package out as an installation does."""
    for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
        if not os.path.exists(path):
            raise unittest.SkipTest(f"{path} is not built")
    made = tempfile.mkdtemp(prefix="gordian-notebook-")
    unittest.addModuleCleanup(shutil.rmtree, made, ignore_errors=True)
    PackageTest.modules = os.path.join(made, "share", "gordian", "python")
    os.makedirs(PackageTest.modules)
    os.mkdir(os.path.join(made, "bin"))
    os.symlink(PACKAGE, os.path.join(PackageTest.modules, "gordian"))
    os.symlink(GORDIAN, os.path.join(made, "bin", "gordian"))
    sys.path.insert(0, PackageTest.modules)
    PackageTest.hung = record(os.path.join(made, "hung"))
    PackageTest.twin = record(os.path.join(made, "twin"), "--twin")


class PackageTest(CliTest):
    modules = hung = twin = None  # paths, of setUpModule

    def python(self, script, *arguments, python=sys.executable, code=0, **variables):
        kept = {k: v for k, v in clean_environment().items() if not k.startswith(("PYTHON", "JUPYTER", "IPYTHON"))}
        env = {**kept, "PYTHONPATH": self.modules, "PYTHONDONTWRITEBYTECODE": "1", "HOME": self.work, **variables}
        done = subprocess.run([python, "-c", script, *arguments], env=env, cwd=self.work, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def printed(self, session, *options):
        """The same from the command line."""
        verdict = json.loads(self.gordian("explain", session, "--json").stdout)
        status = json.loads(self.gordian("status", session, "--json").stdout)
        lines = self.gordian("export", session, "-f", "jsonl", *options).stdout.splitlines()
        header, *operations = map(json.loads, lines)
        for operation in operations:
            operation["communicator_name"] = header["communicators"][operation["communicator"]]["name"]
        return {"verdict": verdict, "status": status, "ranks": status["ranks"],
                "communicators": status["communicators"], "cycle": verdict["cycle"], "operations": operations,
                "stuck_operations": [{**{k: v for k, v in operation.items() if k != "members"}, **member}
                                     for operation in verdict["operations"] for member in operation["members"]],
                "stacks": [{"stack": i, "ranks": stack["folded_ranks"], "frame": j, **frame}
                           for i, stack in enumerate(verdict["stacks"]) for j, frame in enumerate(stack["frames"])]}

    def program(self, text):
        """A program in the place of `gordian`."""
        return self.write("program", f"#!{sys.executable}\n{text}", mode=0o755)

    def open(self, path, **options):
        import gordian
        return gordian.open_session(path, **options)


class Lists(PackageTest):
    def test_they_are_what_the_command_line_prints(self):
        for name in ("hung", "twin"):
            with self.subTest(name):
                session = getattr(self, name)
                found, wanted = json.loads(self.python(LISTS, session, ",".join(TABLES))), self.printed(session)
                errors = found.pop("errors")
                self.assertEqual(found, wanted)
                self.assertEqual(set(errors), set(TABLES))
                for table, error in errors.items():
                    self.assertRegex(error, rf"^{table}\(\) .*pandas.* not installed .*{table}\(frame=False\)")
                for table in ("ranks", "communicators", "operations"):
                    self.assertGreaterEqual(len(found[table]), 2, table)
                with open(os.path.join(session, "verdict.json")) as f:
                    kept = json.load(f)
                self.assertEqual({key: kept[key] for key in found["verdict"]}, found["verdict"])
        self.assertEqual(self.open(self.twin).cycle(frame=False), [])

    def test_the_hang_is_in_them(self):
        session = self.open(self.hung)
        self.assertEqual((session.verdict["verdict"], session.verdict["confidence"]), ("deadlock", "confirmed"))
        self.assertEqual([(row["rank"], row["waits_for_rank"]) for row in session.cycle(frame=False)], [(0, 1), (1, 0)])
        self.assertEqual([(row["rank"], row["operation"][:9]) for row in session.ranks(frame=False)],
                         [(0, "AllReduce"), (1, "AllReduce")])
        unfinished = [row for row in session.each_operation() if row["done_ns"] == 0]
        self.assertEqual(len({(row["rank"], row["communicator_name"]) for row in unfinished}), 4, unfinished)
        self.assertTrue(any("steady.cc" in row["file"] for row in session.stacks(frame=False)))
        finished = self.open(self.twin)
        self.assertEqual(finished.verdict["verdict"], "finished")
        self.assertEqual({row["state"] for row in finished.each_operation()}, {"done"})

    def test_the_last_operations_and_those_of_a_rank(self):
        session, every = self.open(self.hung), self.printed(self.hung)["operations"]
        self.assertGreater(len(every), 2 * STEPS)
        self.assertEqual(session.operations(rank=1, frame=False), [row for row in every if row["rank"] == 1])
        last = self.printed(self.hung, "--last", "3")["operations"]
        self.assertLess(len(last), len(every))
        self.assertEqual(session.operations(last=3, frame=False), last)
        self.assertEqual(session.operations(0, 3, frame=False), [row for row in last if row["rank"] == 0])
        self.assertEqual(session.operations(rank=7, frame=False), [])
        with self.assertRaisesRegex(ValueError, "last=0"):
            session.each_operation(last=0)

    def test_a_trace_without_its_session(self):
        trace = os.path.join(self.hung, "trace.gtrace")
        session = self.open(trace)
        self.assertEqual(session.verdict, json.loads(self.gordian("explain", trace, "--json").stdout))
        self.assertEqual(session.operations(frame=False), self.open(self.hung).operations(frame=False))

    def test_a_session_that_latest_named_stays_the_same(self):
        link = self.path("latest")
        os.symlink(os.path.realpath(self.hung), link)
        session = self.open(link)
        os.remove(link)
        os.symlink(os.path.realpath(self.twin), link)
        self.assertEqual(session.verdict["verdict"], "deadlock")
        self.assertEqual(self.open(link).verdict["verdict"], "finished")

    def test_a_job_that_runs_is_read_again_on_demand(self):
        env = clean_environment(JOB_UNTIL=self.path("until"))
        run = self.start("run", "--emulator", "--quiet", "--session", "s", "--", *STEADY, "--twin", env=env)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("s/verdict.json"))
                                   and self.verdict("s")["evidence"]["ranks_seen"] == 2))
        session = self.open(self.path("s"))
        self.assertFalse(session.status()["job_ended"])
        self.write("until", "")
        run.communicate(timeout=60)
        self.assertFalse(session.status()["job_ended"])
        session.refresh()
        self.assertTrue(session.status()["job_ended"])
        self.assertEqual(session.verdict["verdict"], "finished")


class Importing(PackageTest):
    def test_it_loads_nothing_else(self):
        loaded = self.python("import sys; before = set(sys.modules); import gordian\n"
                             "print(sorted(set(sys.modules) - before))")
        self.assertEqual(loaded, "['gordian']\n")
        names = self.python("import gordian; print('open_session' in dir(gordian), hasattr(gordian, 'pandas'))")
        self.assertEqual(names, "True False\n")

    def test_the_program_is_the_one_beside_the_package(self):
        """In each place where packages and builds put it, and else in PATH."""
        asks = "import gordian, sys; print(gordian.open_session(sys.argv[1]).program)"
        other = self.path("other/gordian")
        os.makedirs(os.path.dirname(other))
        os.symlink(GORDIAN, other)
        for place in ("share/gordian/python", "lib/gordian/python", "lib/x86_64-linux-gnu/gordian/python", "lib/python",
                      "lib/python3.11/site-packages", "lib/python3/dist-packages"):
            with self.subTest(place):
                prefix = tempfile.mkdtemp(dir=self.work)
                modules = os.path.join(prefix, place)
                shutil.copytree(PACKAGE, os.path.join(modules, "gordian"), ignore=shutil.ignore_patterns("__pycache__"))
                found = self.python(asks, self.hung, PYTHONPATH=modules, PATH=os.path.dirname(other))
                self.assertEqual(found.strip(), other)
                os.mkdir(os.path.join(prefix, "bin"))
                beside = os.path.join(prefix, "bin", "gordian")
                os.symlink(GORDIAN, beside)
                found = self.python(asks, self.hung, PYTHONPATH=modules, PATH=os.path.dirname(other))
                self.assertEqual(found.strip(), beside)

    def test_without_the_program_it_says_so(self):
        modules = self.path("alone")
        shutil.copytree(PACKAGE, os.path.join(modules, "gordian"), ignore=shutil.ignore_patterns("__pycache__"))
        said = self.python("import gordian, sys\ntry: gordian.open_session(sys.argv[1])\n"
                           "except gordian.SessionError as error: print(error)",
                           self.hung, PYTHONPATH=modules, PATH=self.path("empty"))
        self.assertIn(modules, said)
        self.assertIn("PATH", said)


class Errors(PackageTest):
    def error(self, call):
        import gordian
        with self.assertRaises(gordian.SessionError) as raised:
            call()
        return str(raised.exception)

    def test_what_is_no_session(self):
        missing = self.path("missing")
        self.assertRegex(self.error(lambda: self.open(missing)), f"^there is no session {missing} .*gordian run")
        os.mkdir(self.path("empty"))
        session = self.open(self.path("empty"))
        for call in (lambda: session.verdict, session.status, lambda: session.operations(frame=False)):
            said = self.error(call)
            self.assertIn(f"{os.path.realpath(self.path('empty'))} cannot be read: ", said)
            self.assertRegex(said, r"\(try: .*gordian (explain|status|export) ")
        self.assertRegex(self.error(lambda: self.open(self.hung, program=missing)), f"^{missing} is no program")

    def test_a_trace_that_was_cut_off_is_read_with_a_warning(self):
        with open(os.path.join(self.hung, "trace.gtrace"), "rb") as f:
            whole = f.read()
        with open(self.path("cut.gtrace"), "wb") as f:
            f.write(whole[:-40])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = self.open(self.path("cut.gtrace")).operations(frame=False)
        self.assertTrue(rows)
        self.assertTrue(any("cut.gtrace is incomplete" in str(one.message) for one in caught), caught)

    def test_a_program_of_another_version(self):
        session = self.open(self.hung, program=self.program("print('{\"schema\": \"gordian.other.v9\"}')"))
        for call in (lambda: session.verdict, session.status, lambda: session.operations(frame=False)):
            self.assertRegex(self.error(call), r"program writes the schema gordian\.other\.v9, and this package reads")
        session = self.open(self.hung, program=self.program("print('hello')"))
        self.assertRegex(self.error(session.status), "wrote no JSON: 'hello")

    def test_operations_that_break_off_are_an_error(self):
        for ending in ("", '{"rank": 0, "comm'):
            with self.subTest(ending):
                program = self.program(f"import os\nprint({HEADER!r})\nprint({ROW!r})\n"
                                       f"print({ending!r}, end='', flush=True)\nos.kill(os.getpid(), 9)\n")
                rows = self.open(self.hung, program=program).each_operation()
                self.assertEqual(next(rows)["communicator_name"], "dp")
                self.assertRegex(self.error(lambda: list(rows)), "cannot be read: it ended with -9")

    def test_operations_are_read_while_they_are_written(self):
        program = self.program(f"import os, time\n"
                               f"with open({self.path('pid')!r}, 'w') as f: print(os.getpid(), file=f)\n"
                               f"print({HEADER!r})\nprint({ROW!r}, flush=True)\ntime.sleep(600)\n")
        rows = self.open(self.hung, program=program).each_operation()
        self.assertEqual(next(rows)["operation"], "AllReduce")
        with open(self.path("pid")) as f:
            pid = int(f.read())
        self.assertTrue(alive(pid))
        rows.close()
        self.assertFalse(alive(pid))


@unittest.skipUnless(WITH_PANDAS, "no python3 here has pandas " + NEEDED.format("python3-pandas"))
class Frames(PackageTest):
    def test_they_are_what_the_command_line_prints(self):
        for name in ("hung", "twin"):
            with self.subTest(name):
                session = getattr(self, name)
                found = json.loads(self.python(FRAMES, session, ",".join(TABLES), python=WITH_PANDAS))
                wanted = self.printed(session)
                self.assertFalse(found["pandas loaded"])
                for table in TABLES:
                    self.assertEqual(found[table]["rows"], wanted[table], table)
                    self.assertEqual(found[table]["index"], list(range(len(wanted[table]))), table)
                for column in ("rank", "sequence", "called_ns", "done_ns"):
                    self.assertEqual(found["operations"]["types"][column], "int64")
                # A table without rows has its columns all the same.
                self.assertEqual(found["cycle"]["columns"][:2], ["rank", "waits_for_rank"])

    def test_many_operations_keep_their_numbers(self):
        """More than are made columns at once, and a number beyond 63 bits among the last of them."""
        program = self.program(f"import json\nprint({HEADER!r})\nrow = json.loads({ROW!r})\n"
                               "for i in range(70000):\n"
                               "    row.update(sequence=i, count=2**63 + 1 if i == 69999 else 2**62 + 1)\n"
                               "    print(json.dumps(row))\n")
        frame = json.loads(self.python(FRAMES, self.hung, "operations", program, python=WITH_PANDAS))["operations"]
        self.assertEqual([one["sequence"] for one in frame["rows"]], list(range(70000)))
        self.assertEqual(frame["rows"][0]["count"], 2**62 + 1)
        self.assertEqual(frame["rows"][-1]["count"], 2**63 + 1)
        self.assertEqual(frame["index"], list(range(70000)))


@unittest.skipUnless(WITH_JUPYTER, "no python3 here has pandas, nbclient and ipykernel "
                     + NEEDED.format("python3-pandas python3-nbclient python3-ipykernel"))
class Notebook(PackageTest):
    def executed(self, session):
        """What each cell of code printed or shows, as text."""
        notebook = json.loads(self.python(EXECUTE, NOTEBOOK, os.path.dirname(session), python=WITH_JUPYTER))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertEqual([cell["execution_count"] for cell in cells], list(range(1, len(cells) + 1)))
        shown = []
        for cell in cells:
            for output in cell["outputs"]:  # an error would have ended it; a warning is not for an example
                self.assertNotEqual(output.get("name"), "stderr", output)
            shown.append("".join(output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]))
            self.assertTrue(shown[-1], cell["source"])
        return shown

    def test_it_shows_the_hang(self):
        wanted = self.printed(self.hung)
        shown = self.executed(self.hung)
        self.assertIn(f"deadlock (confirmed)\n{wanted['verdict']['summary']}\n{wanted['verdict']['advice']}", shown[0])
        (table,) = [text for text in shown if text.startswith("rank ") and "back" in text]
        for rank in (0, 1):
            last = [row for row in wanted["operations"] if row["rank"] == rank][-1]
            self.assertIn(f"{last['operation']} {last['communicator_name']} #{last['sequence']} {last['state']}", table)
        self.assertTrue(any("waits_for_rank" in text for text in shown))

    def test_it_reads_a_healthy_job_as_well(self):
        self.assertIn("finished", self.executed(self.twin)[0])

    def test_it_stores_no_outputs(self):
        with open(NOTEBOOK, encoding="utf-8") as f:
            text = f.read()
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        self.assertEqual([(cell["outputs"], cell["execution_count"]) for cell in cells], [([], None)] * len(cells))


if __name__ == "__main__":
    main()
