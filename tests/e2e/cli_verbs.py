"""Parsing, and the verbs that print data: env, doctor, hooks, version, and analyze on bad input."""
import json
import os
import re

from cli_testing import BUILD, EMULATOR, GORDIAN, CliTest, clean_environment, main

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERBS = ["run", "env", "status", "watch", "analyze", "explain", "checks", "doctor", "hooks", "version"]


class Parsing(CliTest):
    def test_every_verb_has_help_with_an_example(self):
        for verb in VERBS:
            done = self.gordian(verb, "--help")
            self.assertEqual(done.returncode, 0, verb)
            self.assertIn("Example: ", done.stdout, verb)
            self.assertIn("gordian " + verb, done.stdout, verb)
            self.assertEqual(done.stderr, "", verb)

    def test_help_names_each_patience_of_the_suspicions(self):
        table = os.path.join(SOURCE, "analyzer", "model", "verdict", "suspicion_table.cc")
        with open(table, encoding="utf-8") as f:
            text = f.read()
        rows = re.findall(r"LeafKind::k\w+,\s+(\d+),\s+(\d+),\s+\"", text)
        self.assertEqual(len(rows), text.count("{Suspicion::"))
        multiples = {int(number) for row in rows for number in row} - {1}
        for verb in ("run", "serve"):
            said = next(line for line in self.gordian(verb, "--help").stdout.splitlines() if "--suspect-after" in line)
            self.assertEqual(multiples, {int(number) for number in re.findall(r"(\d+) times", said)}, said)

    def test_help_lists_the_verbs(self):
        done = self.gordian("--help")
        self.assertEqual(done.returncode, 0)
        for verb in VERBS:
            self.assertIn(verb, done.stdout)

    def test_mistakes_are_one_line_and_exit_code_2(self):
        for arguments, words in [
            ([], ["verb"]),
            (["rnu"], ["rnu"]),
            (["--bogus"], ["--bogus"]),
            (["run", "--bogus", "--", "true"], ["--bogus", "gordian run --help"]),
            (["run", "--sesion", "x", "--", "true"], ["--sesion"]),
            (["run", "word", "--", "true"], ["word"]),
            (["run"], ["command"]),
            (["run", "--"], ["command"]),
            (["run", "--on-verdict", "panic", "--", "true"], ["--on-verdict", "panic", "kill-suspected"]),
            (["run", "--on-verdict", "exec:", "--", "true"], ["--on-verdict"]),
            (["run", "--suspect-after", "soon", "--", "true"], ["--suspect-after", "soon"]),
            (["run", "--suspect-after", "0", "--", "true"], ["--suspect-after"]),
            (["run", "--error-exitcode", "300", "--", "true"], ["--error-exitcode"]),
            (["run", "--session", "", "--", "true"], ["--session"]),
            (["version", "--jsn"], ["--jsn"]),
            (["analyze"], ["path"]),
            (["analyze", "nowhere"], ["nowhere"]),
            (["explain", "nowhere"], ["nowhere"]),
            (["explain", "."], ["session"]),
            (["status"], ["latest"]),
            (["status", "nowhere"], ["nowhere"]),
            (["status", "."], ["session"]),
            (["status", "--job", "x"], ["--job", "--analyzer"]),
            (["watch"], ["latest"]),
            (["watch", "nowhere"], ["nowhere"]),
        ]:
            with self.subTest(arguments=arguments):
                done = self.gordian(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assert_one_line(done.stderr, *words)
                self.assertEqual(done.stdout, "")
        self.assertEqual(os.listdir(self.work), [], "a mistake made a session")

    def test_wrong_environment_is_named(self):
        done = self.gordian("run", "--", "true", env=clean_environment(GORDIAN_ON_VERDICT="panic"))
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "GORDIAN_ON_VERDICT", "panic")

    def test_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            import subprocess
            done = subprocess.run([GORDIAN, "hooks"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assert_one_line(done.stderr, "standard output")


class Printing(CliTest):
    def test_version(self):
        data = json.loads(self.gordian("version", "--json").stdout)
        self.assertEqual(set(data), {"version", "ring_abi", "trace_format", "ingest_protocol"})
        self.assertIn(data["version"], self.gordian("version").stdout)
        self.assertIn(data["version"], self.gordian("--version").stdout)

    def test_hooks(self):
        data = json.loads(self.gordian("hooks", "--json").stdout)
        rows = {row["symbol"]: row for row in data["hooks"]}
        self.assertEqual(rows["ncclAllReduce"]["library"], "nccl")
        self.assertEqual(rows["ncclAllReduce"]["recorded"], "begin-end")
        self.assertEqual(rows["ncclAllReduce"]["payload"], "operation")
        self.assertIn("cudaStreamSynchronize", rows)
        self.assertEqual([row["call"] for row in data["hooks"]], list(range(1, len(rows) + 1)))
        self.assertTrue(rows["ncclCommGrow"]["may_block"])
        self.assertIsNone(rows["ncclCommGrow"]["introduced_in"])
        self.assertEqual(rows["ncclCommRevoke"]["introduced_in"], "2.28.7")
        wait = rows["cuStreamWaitValue32_v2_ptsz"]
        self.assertEqual((wait["name"], wait["variant"]), ("cuStreamWaitValue32", "v2, per-thread default stream"))
        self.assertEqual(wait["parameters"], "(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)")
        self.assertEqual((wait["rules"], wait["may_block"]), (["W2", "W10"], False))
        self.assertEqual(rows["cuMemFree_v2"]["introduced_in"], "3.2")
        effects = {name: rows[name]["effect"] for name in (
            "cuMemFree_v2", "cudaEventQuery", "cuStreamWaitEvent", "cudaIpcGetMemHandle", "cudaGraphExecDestroy", "ncclSend")}
        self.assertEqual(list(effects.values()), ["free", "poll", "event-wait", "memory-shared", "exec-destroy", ""])
        self.assertEqual(rows["ncclGetVersion"]["rules"], [])
        self.assertEqual(rows["cuStreamWaitEvent"]["sources"], ["symbol", "cupti"])
        self.assertEqual(rows["cudaStreamWaitEvent"]["sources"], ["symbol"])
        table = self.gordian("hooks").stdout.splitlines()
        self.assertEqual(len(table), len(rows) + 1)

    def test_checks(self):
        data = json.loads(self.gordian("checks", "--json").stdout)
        self.assertEqual([row["number"] for row in data["classes"]], list(range(1, 50)))
        ids = [check["id"] for check in data["checks"]]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual([line.split()[0] for line in self.gordian("checks").stdout.splitlines()], ["CHECK"] + ids)
        said = self.gordian("checks", "host-wait-cycle")
        self.assertIn("e2e.inversion_sync", said.stdout)
        self.assertEqual(self.gordian("explain", "host-wait-cycle").stdout, said.stdout)
        wrong = self.gordian("checks", "host-wait")
        self.assertEqual((wrong.returncode, len(wrong.stderr.splitlines())), (2, 1))

    def test_doctor_names_what_is_newer_than_the_table(self):
        newer = os.path.join(os.path.dirname(os.path.dirname(GORDIAN)), "tests", "newer")
        data = json.loads(self.gordian("doctor", "--json", env=clean_environment(LD_LIBRARY_PATH=newer)).stdout)
        check = next(c for c in data["checks"] if c["name"] == "libnccl functions")
        self.assertEqual(check["state"], "note")
        self.assertIn("1 not in gordian's table, so gordian does not see their calls: ncclTomorrow", check["detail"])
        self.assertTrue(check["path"].startswith(newer))
        emulated = os.path.join(os.path.dirname(os.path.dirname(GORDIAN)), "lib", "emulator")
        data = json.loads(self.gordian("doctor", "--json", env=clean_environment(LD_LIBRARY_PATH=emulated)).stdout)
        states = {c["name"]: c for c in data["checks"]}
        for library in ("libnccl", "libcudart", "libcuda"):
            self.assertEqual(states[library + " functions"]["state"], "ok", states[library + " functions"])

    def test_env(self):
        rings = self.path("rings")
        os.mkdir(rings)
        data = json.loads(self.gordian("env", "--json", "--ring-dir", "rings").stdout)
        self.assertEqual(data["GORDIAN_RING_DIR"], rings)
        self.assertTrue(data["LD_PRELOAD"].endswith("/libgordian_interpose.so"))
        self.assertNotIn("LD_LIBRARY_PATH", data)
        done = self.gordian("env", "--ring-dir", "rings", "--emulator",
                            env=clean_environment(LD_LIBRARY_PATH="/with space"))
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"export LD_LIBRARY_PATH='{EMULATOR}:/with space'\n", done.stdout)
        self.assertNotIn("NCCL_PROFILER_PLUGIN", data)
        self.assertNotIn("GORDIAN_GRAPH_MARKERS", data)
        data = json.loads(self.gordian("env", "--json", "--ring-dir", "rings", "--nccl-profiler", "--graph-markers",
                                       env=clean_environment(NCCL_PROFILER_PLUGIN="own")).stdout)
        self.assertEqual(data["NCCL_PROFILER_PLUGIN"], data["LD_PRELOAD"])
        self.assertEqual(data["GORDIAN_NCCL_PROFILER_PLUGIN"], "own")
        self.assertEqual(data["GORDIAN_GRAPH_MARKERS"], "1")
        data = json.loads(self.gordian("env", "--json", "--ring-dir", "rings", "--stub-compute", "--stub-keep", "a*", "--stub-keep", "b").stdout)
        self.assertEqual((data["GORDIAN_STUB_COMPUTE"], data["GORDIAN_STUB_COMPUTE_KEEP"]), ("1", "a*:b"))
        done = self.gordian("env", "--ring-dir", "rings", "--stub-skip", "a*")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "--stub-skip needs --stub-compute")
        done = self.gordian("env")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("GORDIAN_RING_DIR", done.stdout)
        self.assert_one_line(done.stderr, "--ring-dir")
        done = self.gordian("env", "--ring-dir", "absent")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "absent", "mkdir")

    def test_env_follows_gordian_lib_dir(self):
        data = json.loads(self.gordian("env", "--json", env=clean_environment(GORDIAN_LIB_DIR="/opt/g")).stdout)
        self.assertEqual(data["LD_PRELOAD"], "/opt/g/libgordian_interpose.so")

    def test_doctor(self):
        done = self.gordian("doctor", "--json")
        self.assertIn(done.returncode, (0, 1))
        data = json.loads(done.stdout)
        self.assertEqual(data["can_observe"], done.returncode == 0)
        checks = {check["name"]: check for check in data["checks"]}
        for name in ["shim", "emulator", "libnccl", "libcudart", "libcuda", "shared memory", "ptrace", "clock", "libdw"]:
            self.assertIn(name, checks)
            self.assertIn(checks[name]["state"], ("ok", "note", "failed"))
            self.assertTrue(checks[name]["detail"])
        if os.path.exists(os.path.join(BUILD, "lib", "libgordian_interpose.so")):
            self.assertEqual(checks["shim"]["state"], "ok")

    def test_doctor_sees_the_emulated_libraries_when_they_come_first(self):
        self.need(os.path.join(EMULATOR, "libnccl.so.2"))
        data = json.loads(self.gordian("doctor", "--json", env=clean_environment(LD_LIBRARY_PATH=EMULATOR)).stdout)
        checks = {check["name"]: check for check in data["checks"]}
        for name in ["libnccl", "libcudart", "libcuda"]:
            self.assertEqual(checks[name]["state"], "ok", checks[name])
            self.assertTrue(checks[name]["path"].startswith(EMULATOR), checks[name])
        self.assertIn("NCCL 2.", checks["libnccl"]["detail"])
        self.assertIn("CUDA 1", checks["libcudart"]["detail"])

    def test_doctor_without_a_shim_fails(self):
        done = self.gordian("doctor", env=clean_environment(GORDIAN_LIB_DIR=self.work))
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed", done.stdout)

    def test_doctor_of_a_program(self):
        script = self.write("script", "#!/bin/sh\n", 0o755)
        setuid = self.path("setuid")
        with open("/bin/true", "rb") as src, open(setuid, "wb") as dst:
            dst.write(src.read())
        os.chmod(setuid, 0o4755)
        for program, state, words in [
            (script, "ok", "script of /bin/sh"),
            ("true", "ok", "dynamically linked"),
            (setuid, "failed", "setuid"),
            ("no-such-program", "failed", "not found"),
        ]:
            data = json.loads(self.gordian("doctor", "--json", "--", program).stdout)
            check = next(c for c in data["checks"] if c["name"] == "program")
            self.assertEqual(check["state"], state, check)
            self.assertIn(words, check["detail"])
        job = os.path.join(BUILD, "tests", "gordian_e2e_job")
        if os.path.exists(job):
            data = json.loads(self.gordian("doctor", "--json", "--", job).stdout)
            check = next(c for c in data["checks"] if c["name"] == "program's NCCL")
            self.assertIn("libnccl.so.2", check["detail"])

    def test_doctor_of_what_was_recorded(self):
        job = os.path.join(BUILD, "tests", "gordian_e2e_job")
        self.need(job)
        self.need(os.path.join(EMULATOR, "libnccl.so.2"))
        self.gordian("run", "--emulator", "--quiet", "--session", "s", "--", job, "hybrid_recv_all_reduce", "--twin", "--ranks", "2")
        done = self.gordian("doctor", "--recover", "s")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^partly  .*: \d+ operations")
        self.assertRegex(done.stdout, r"R3: (Send|Recv) can be finished at one end alone, .*rank \d, \w+\.cc:\d+")
        self.assertIn("as far as the records show", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        done = self.gordian("doctor", "--recover", "absent")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "absent")
        self.gordian("run", "--emulator", "--quiet", "--session", "none", "--", "true")
        done = self.gordian("doctor", "--recover", "none")
        self.assertEqual((done.returncode, done.stdout), (3, "no communicator of NCCL was recorded\n"))

    def test_doctor_finds_nccl_inside_a_program(self):
        def sources(program, **env):
            data = json.loads(self.gordian("doctor", "--json", "--", program, env=clean_environment(**env)).stdout)
            return {check["name"]: check for check in data["checks"]}
        for name, more, state, words in [  # /bin/true, stripped, with what such an NCCL has in it
            ("new", b"NCCL version 2.28.9+cuda13.0\0ncclProfiler_v4\0ncclProfiler_v5\0", "note",
             ["NCCL 2.28.9 linked statically", "--nccl-profiler", "interface 5"]),
            ("newest", b"NCCL version 2.31.0+cuda13.1\0ncclProfiler_v7\0", "note", ["2.31.0", "interface 7"]),
            ("newer", b"NCCL version 2.39.0+cuda13.1\0ncclProfiler_v8\0", "note", ["2.39.0", "interface 7"]),
            ("older", b"NCCL version 2.27.3+cuda12.9\0ncclProfiler_v4\0", "note", ["without their streams"]),
            ("old", b"NCCL version 2.21.5+cuda12.4\0", "note", ["NCCL 2.21.5 linked statically", "too old"]),
            ("speaks_of_it", b"NCCL version 2.28.9 is wanted\0ncclProfiler_vendor\0", "ok", ["not linked"]),
        ]:
            path = self.path(name)
            with open("/bin/true", "rb") as src, open(path, "wb") as dst:
                dst.write(src.read() + more)
            os.chmod(path, 0o755)
            check = sources(path)["program's NCCL"]
            self.assertEqual(check["state"], state, check)
            for word in words:
                self.assertIn(word, check["detail"])
        plugin = self.path("plugin.so")
        with open(plugin, "wb") as f:
            f.write(b"\0ncclProfiler_v5\0")
        self.assertNotIn("own profiler plugin", sources("true"))
        check = sources("true", NCCL_PROFILER_PLUGIN=plugin)["own profiler plugin"]
        self.assertIn("version 4, 6, 7, which it lacks", check["detail"])

    def test_doctor_knows_what_becomes_of_cupti(self):
        def cupti(**env):
            data = json.loads(self.gordian("doctor", "--json", "--", "true", env=clean_environment(**env)).stdout)
            return next(check for check in data["checks"] if check["name"] == "CUPTI")
        toolkit = self.path("toolkit")
        library = os.path.join(toolkit, "extras", "CUPTI", "lib64", "libcupti.so.13")
        os.makedirs(os.path.dirname(library))
        with open(library, "wb"):
            pass
        self.assertEqual(cupti(CUDA_HOME=toolkit)["path"], library)
        other = cupti(CUDA_HOME=toolkit, CUDA_INJECTION64_PATH="/opt/other.so")
        self.assertEqual(other["state"], "note")
        self.assertIn("/opt/other.so", other["detail"])
        self.assertIn("cannot be read", cupti(GORDIAN_CUPTI_LIBRARY="/no/libcupti.so")["detail"])

    def test_run_says_when_it_leaves_cupti_out(self):
        done = self.gordian("run", "--cupti", "--session", self.path("s"), "--", "sh", "-c", "echo $CUDA_INJECTION64_PATH",
                            env=clean_environment(CUDA_INJECTION64_PATH="/opt/other.so"))
        self.assertIn("/opt/other.so", done.stdout)
        self.assertIn("ignoring --cupti", done.stderr)
        done = self.gordian("run", "--cupti", "--session", self.path("t"), "--", "sh", "-c", "echo $CUDA_INJECTION64_PATH",
                            env=clean_environment())
        self.assertIn("libgordian_interpose.so", done.stdout)
        both = self.gordian("run", "--cupti", "--stub-compute", "--", "true", env=clean_environment())
        self.assertNotEqual(both.returncode, 0)
        self.assertIn("--stub-compute", both.stderr)

    def test_run_without_a_shim_is_our_own_failure(self):
        done = self.gordian("run", "--", "true", env=clean_environment(GORDIAN_LIB_DIR="/nowhere"))
        self.assertEqual(done.returncode, 125)
        self.assert_one_line(done.stderr, "/nowhere", "GORDIAN_LIB_DIR")


class BadInput(CliTest):
    def test_not_a_trace(self):
        self.write("empty.gtrace", "")
        self.write("text.gtrace", "not a trace at all\n" * 10)
        with open(self.path("noise.gtrace"), "wb") as f:
            f.write(b"GTRACE1\n" + os.urandom(5000))
        for name in ["empty.gtrace", "text.gtrace", "noise.gtrace"]:
            done = self.gordian("analyze", name)
            self.assertEqual(done.returncode, 2, name)
            self.assert_one_line(done.stderr, name)

    def test_a_session_with_a_broken_verdict(self):
        os.mkdir(self.path("s"))
        self.write("s/verdict.json", "{")
        done = self.gordian("explain", "s")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "verdict.json")


if __name__ == "__main__":
    main()
