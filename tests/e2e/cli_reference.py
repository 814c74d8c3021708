"""Man pages, completion scripts and gordian.toml, held against what `gordian VERB --help` prints; the scripts are asked in
the shells themselves.

  cli_reference.py BUILD
"""
import os
import re
import shutil
import subprocess
import tomllib

from cli_testing import CliTest, GORDIAN, clean_environment, main

NAME = re.compile(r"(?:^|[ ,])(--?[a-z][a-z0-9-]*)(?=[ ,=]|$)")


def sections(text):
    """The indented lines of a help text, by the heading over them."""
    found, heading = {}, ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            heading = line.rstrip(":")
        elif line.startswith("  ") and line[2:3] != " " and line.strip():
            found.setdefault(heading, []).append(line[2:])
    return found


class Help(CliTest):
    def help_of(self, path):
        done = self.gordian(*path, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def walk(self):
        """(path, names of options, names of verbs below) of each command, read from the help texts."""
        found, queue = [], [()]
        while queue:
            path = queue.pop(0)
            read = sections(self.help_of(path))
            options = [name for line in read.get("Options", []) for name in NAME.findall(line.split("  ")[0])]
            verbs = [line.split()[0] for line in read.get("Subcommands", [])]
            found.append((path, options, verbs))
            queue += [path + (verb,) for verb in verbs]
        return found

    def output(self, *arguments, **options):
        done = self.gordian(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


class Man(Help):
    def test_every_verb_and_option_has_its_place(self):
        walked = self.walk()
        self.assertGreater(len(walked), 20)
        self.output("man", "--to", self.path("pages"))
        self.assertEqual(sorted(os.listdir(self.path("pages"))),
                         sorted("-".join(("gordian",) + path) + ".1" for path, _, _ in walked))
        for path, options, verbs in walked:
            page = self.output("man", *path)
            with open(self.path("pages/" + "-".join(("gordian",) + path) + ".1")) as f:
                self.assertEqual(page, f.read())
            text = page.replace("\\-", "-")
            for name in options:
                self.assertIn(f"\\fB{name}\\fR", text, path)
            for verb in verbs:
                self.assertIn(f"\\fB{'-'.join(('gordian',) + path + (verb,))}\\fR(1)", text)
            self.assertIn(".SH EXAMPLES", text, path) if not verbs else None

    def test_an_unknown_verb_is_named(self):
        done = self.gordian("man", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "nonsense")

    def test_man_and_mandoc_take_them(self):
        checkers = [command for command in (["man", "-l", "--warnings", "-Tutf8", "-P", "cat"], ["mandoc", "-Tlint", "-Wwarning"])
                    if shutil.which(command[0])]
        if not checkers:
            self.skipTest("needs man or mandoc")
        self.output("man", "--to", self.path("pages"))
        for name in sorted(os.listdir(self.path("pages"))):
            for command in checkers:
                done = subprocess.run([*command, self.path("pages/" + name)], capture_output=True, text=True,
                                      env=dict(os.environ, MANWIDTH="100", LC_ALL="C.UTF-8", MANROFFSEQ=""), stdin=subprocess.DEVNULL)
                said = done.stderr + (done.stdout if command[0] == "mandoc" else "")
                self.assertEqual((done.returncode, said), (0, ""), f"{command[0]} {name}")


class Completion(Help):
    def test_every_verb_and_option_is_in_the_scripts(self):
        scripts = {shell: self.output("completion", shell) for shell in ("bash", "zsh", "fish")}
        for path, options, verbs in self.walk():
            for name in options:
                self.assertRegex(scripts["bash"], rf"'{' '.join(path)}'\) options='(.* )?{name}[ ']")
                self.assertIn(f"){name}", scripts["zsh"].replace("*" + name, ")" + name))
                flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                condition = f"'__gordian_in {' '.join(path)}'" if path else "__gordian_no_verb"
                self.assertRegex(scripts["fish"], rf"(?m)^complete -c gordian -n {re.escape(condition)} .*{flag}\b")
            for verb in verbs:
                for script in scripts.values():
                    self.assertIn(verb, script)

    def need_shell(self, name):
        if shutil.which(name) is None:
            self.skipTest(f"needs {name}")

    def bash(self, *words, extra=""):
        """What bash would offer for the last of `words`."""
        script = ('source <("$GORDIAN" completion bash); ' + extra + ' COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  'compopt() { :; }; _gordian; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True, text=True, cwd=self.work,
                              env=clean_environment(GORDIAN=GORDIAN), stdin=subprocess.DEVNULL)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes(self):
        self.need_shell("bash")
        self.write("file", "")
        verbs = next(verbs for path, _, verbs in self.walk() if path == ())
        self.assertEqual(sorted(self.bash("gordian", "")), sorted(verbs))
        self.assertEqual(self.bash("gordian", "simu"), ["simulate"])
        self.assertEqual(self.bash("gordian", "run", "--emul"), ["--emulator"])
        self.assertEqual(self.bash("gordian", "plan", "--solver", "e"), ["exact"])
        self.assertEqual(self.bash("gordian", "plan", "--solver", "=", "e"), ["exact"])
        self.assertEqual(self.bash("gordian", "bench", "coll"), ["collectives"])
        self.assertIn("--operation", self.bash("gordian", "bench", "collectives", "--"))
        self.assertEqual(self.bash("gordian", "explain", "fi"), ["file"])
        self.assertEqual(self.bash("gordian", "--config", "explain", "explai"), ["explain"])
        self.assertIn("--session", self.bash("gordian", "run", "--session", "status", "--sess"))
        # Behind "--" stands the job's command, whatever gordian calls its verbs.
        self.assertEqual(self.bash("gordian", "run", "--", "cat", "fi"), ["file"])
        self.assertEqual(self.bash("gordian", "run", "--", "cat", "--emul"), [])

    def test_fish_completes(self):
        self.need_shell("fish")
        self.write("file", "")
        self.write("gordian.fish", self.output("completion", "fish"))

        def ask(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source gordian.fish; complete -C '{line}'"], capture_output=True,
                                  text=True, cwd=self.work, stdin=subprocess.DEVNULL,
                                  env=clean_environment(HOME=self.work, PATH=os.path.dirname(GORDIAN) + ":" + os.environ["PATH"]))
            self.assertEqual(done.stderr, "")
            return [line.split("\t")[0] for line in done.stdout.splitlines()]

        self.assertEqual(ask("gordian simu"), ["simulate"])
        self.assertEqual(ask("gordian run --emul"), ["--emulator"])
        self.assertEqual(ask("gordian plan --solver e"), ["exact"])
        self.assertEqual(ask("gordian bench coll"), ["collectives"])
        self.assertIn("--operation", ask("gordian bench collectives --"))
        self.assertEqual(ask("gordian explain fi"), ["file"])
        self.assertNotIn("--emulator", ask("gordian status --emul"))

    def test_zsh_completes(self):
        self.need_shell("zsh")
        os.makedirs(self.path("functions"))
        self.write("functions/_gordian", self.output("completion", "zsh"))
        self.write("file", "")
        # A terminal of zsh's own, in which keys are typed: completion works in an editor of lines only.
        asks = r"""
zmodload zsh/zpty
ask() {
  zpty shell 'zsh -f -i'
  zpty -w shell "PROMPT=; stty columns 200; fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -d $PWD/dump"
  zpty -w shell "cd $PWD; bindkey '^I' expand-or-complete; zstyle ':completion:*' list-prompt ''; LISTMAX=1000; print rea''dy"
  zpty -r -m shell text '*ready*'
  zpty -n -w shell "$1"$'\t'
  zpty -n -w shell $'\x01print -r -- "<'$'\x05'$'>"\n'
  zpty -r -m shell text '*<*>*<*>*' || print -r -- failed
  print -r -- "${${text##*<}%%>*}"
  zpty -d shell
}
for line in "$@"; do ask $line; done
"""
        lines = {"gordian simu": "gordian simulate ", "gordian run --emul": "gordian run --emulator ",
                 "gordian plan --solver e": "gordian plan --solver exact ",
                 "gordian bench coll": "gordian bench collectives ", "gordian explain fi": "gordian explain file "}
        done = subprocess.run(["zsh", "-f", "-c", asks, "zsh", *lines], capture_output=True, text=True, cwd=self.work, timeout=60,
                              env=clean_environment(HOME=self.work, TERM="dumb",
                                                    PATH=os.path.dirname(GORDIAN) + ":" + os.environ["PATH"]))
        said = dict(zip(lines, map(str.rstrip, done.stdout.splitlines())))
        self.assertEqual(said, {line: whole.rstrip() for line, whole in lines.items()}, done.stderr)


class Settings(Help):
    def uncommented(self):
        """gordian.toml with every setting set."""
        return re.sub(r"(?m)^#(?=[a-z0-9-]+ = )", "", self.output("settings"))

    def test_it_holds_every_option_and_its_meaning(self):
        document = tomllib.loads(self.uncommented())
        told = {"help", "version", "config"}  # which a file cannot hold
        for path, options, _ in self.walk():
            table = document
            for part in path:
                table = table.get(part, {})
            wanted = {name[2:] for name in options if name.startswith("--")} - told
            self.assertEqual({key for key, value in table.items() if not isinstance(value, dict)}, wanted, path)
        text = self.output("settings")
        for match in re.finditer(r"(?m)^#[a-z0-9-]+ = ", text):
            line_before = text[:match.start()].splitlines()[-1]
            self.assertTrue(line_before.startswith("# "), match.group())
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertEqual({key for table in tomllib.loads(text).values() for key in table} - {"collectives"}, set())

    def test_gordian_takes_all_of_it(self):
        self.write("all.toml", self.uncommented())
        self.output("--config", "all.toml", "version")

    def test_a_setting_is_the_option_and_the_command_line_comes_first(self):
        self.write("gordian.toml", "[version]\njson = true\n[checks]\njson = true\n")
        plain = self.output("version")
        self.assertNotEqual(self.output("--config", "gordian.toml", "version"), plain)
        self.assertEqual(self.output("--config", "gordian.toml", "version"), self.output("version", "--json"))
        self.assertEqual(self.output("version", env=clean_environment(GORDIAN_CONFIG=self.path("gordian.toml"))),
                         self.output("version", "--json"))
        self.write("run.toml", "[run]\nsession = 'from-file'\nsuspect-after = 7\nquiet = true\n")
        self.output("--config", "run.toml", "run", "--", "true")
        self.assertTrue(os.path.exists(self.path("from-file/manifest.json")))
        self.output("--config", "run.toml", "run", "--session", "from-line", "--", "true")
        self.assertTrue(os.path.exists(self.path("from-line/manifest.json")))

    def test_mistakes_are_named(self):
        for text, words in (("[run]\nnonsense = 1\n", "run.nonsense"), ("[nonsense]\nx = 1\n", "nonsense"),
                            ("[run]\nemulator = 3\n", "run.emulator"), ("[run]\nsession = true\n", "run.session"),
                            ("[explain]\nsession = 'x'\n", "explain.session"), ("[run]\nsession = ['a', 'b']\n", "run.session"),
                            ("[run\n", "line 1"), ("[plan]\nsolver = 'other'\n", "bad.toml")):
            with self.subTest(text=text):
                self.write("bad.toml", text)
                done = self.gordian("--config", "bad.toml", "version")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assert_one_line(done.stderr, words)
        done = self.gordian("--config", "missing.toml", "version")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "missing.toml")
        done = self.gordian("version", env=clean_environment(GORDIAN_CONFIG="missing.toml"))
        self.assertEqual(done.returncode, 2)

    def test_help_is_the_same_with_a_file(self):
        self.write("gordian.toml", "")
        for words in (["--help"], ["status", "--help"]):
            self.assertEqual(self.output(*words, env=clean_environment(GORDIAN_CONFIG=self.path("gordian.toml"))),
                             self.output(*words))


if __name__ == "__main__":
    main()
