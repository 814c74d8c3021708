#!/usr/bin/env python3
"""`gordian mcp`: asked over pipes about real sessions, with good messages and with garbage.

  mcp.py BUILD [TEST]
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
GORDIAN = os.path.join(BUILD, "bin", "gordian")
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
              "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


class Mcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="gordian-mcp-")
        cls.sessions = os.path.join(cls.work, "sessions")
        os.mkdir(cls.sessions)
        cls.failed = False
        for name, job, ranks in (("hung", "inversion_sync", 2), ("late", "missing_rank", 3), ("elsewhere", "inversion_sync", 2)):
            where = cls.sessions if name != "elsewhere" else cls.work
            subprocess.run([GORDIAN, "run", "--emulator", "--session", os.path.join(where, name), "--on-verdict",
                            "kill-suspected", "--suspect-after", "3", "--", os.path.join(BUILD, "tests", "gordian_e2e_job"), job,
                            "--ranks", str(ranks)], capture_output=True, timeout=120, check=False)

    @classmethod
    def tearDownClass(cls):
        if cls.failed:
            print(f"evidence: {cls.work}\nrepeat: python3 {os.path.abspath(sys.argv[0])} {BUILD}")
        else:
            shutil.rmtree(cls.work, ignore_errors=True)

    def tearDown(self):
        type(self).failed |= any(error for _, error in self._outcome.result.failures + self._outcome.result.errors)

    def raw(self, data, folders=None):
        """All that the server answers to these bytes. It must end by itself, and well."""
        done = subprocess.run([GORDIAN, "mcp", *(folders or [self.sessions])], input=data, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        for answer in answers:
            self.assertEqual(answer["jsonrpc"], "2.0")
            self.assertEqual(len({"result", "error"} & set(answer)), 1, answer)
            if "error" in answer:
                self.assertEqual(set(answer["error"]), {"code", "message"})
                self.assertTrue(answer["error"]["message"])
        return answers

    def ask(self, *messages, folders=None):
        return self.raw("".join(json.dumps(message) + "\n" for message in messages).encode(), folders)

    def call(self, tool, folders=None, **arguments):
        (answer,) = self.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
                             folders=folders)
        return answer.get("error") or answer["result"]

    def result(self, tool, **arguments):
        result = self.call(tool, **arguments)
        self.assertFalse(result.get("isError", True), result)
        (content,) = result["content"]
        self.assertEqual((content["type"], json.loads(content["text"])), ("text", result["structuredContent"]))
        return result["structuredContent"]

    def refused(self, tool, **arguments):
        result = self.call(tool, **arguments)
        self.assertTrue(result.get("isError"), result)
        return result["content"][0]["text"]

    def test_a_clients_first_words(self):
        answers = self.ask(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"},
                           {"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        self.assertEqual([answer["id"] for answer in answers], [0, "a", 2])  # a notification has no answer
        first = answers[0]["result"]
        self.assertEqual((first["protocolVersion"], first["serverInfo"]["name"]), ("2025-06-18", "gordian"))
        self.assertIn("tools", first["capabilities"])
        self.assertEqual(answers[1]["result"], {})
        tools = {tool["name"]: tool for tool in answers[2]["result"]["tools"]}
        self.assertEqual(set(tools), {"list_sessions", "verdict", "who_waits", "rank_diff", "stacks", "explain_check"})
        for tool in tools.values():
            self.assertEqual(tool["inputSchema"]["type"], "object")
            self.assertTrue(tool["annotations"]["readOnlyHint"])
            self.assertLessEqual(set(tool["inputSchema"]["required"]), set(tool["inputSchema"]["properties"]))

    def test_versions(self):
        for asked, given in (("2024-11-05", "2024-11-05"), ("2031-01-01", "2025-06-18")):
            (answer,) = self.ask({**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": asked}})
            self.assertEqual(answer["result"]["protocolVersion"], given)

    def test_sessions(self):
        listed = self.result("list_sessions")
        self.assertEqual({one["name"]: one["verdict"] for one in listed["sessions"]},
                         {"hung": "deadlock", "late": "host_blocked"})
        self.assertEqual(listed["left_out"], 0)

    def test_the_verdict_is_that_of_explain(self):
        said = subprocess.run([GORDIAN, "explain", "--json", os.path.join(self.sessions, "hung")], capture_output=True, text=True,
                              check=False).stdout
        expected = json.loads(said)
        stacks = expected.pop("stacks")
        self.assertEqual(self.result("verdict", session="hung")["verdict"], expected)
        self.assertEqual(self.result("verdict", session=os.path.join(self.sessions, "hung"))["verdict"], expected)
        self.assertEqual(self.result("stacks", session="hung")["stacks"], stacks)
        self.assertTrue(stacks)
        of_one = self.result("stacks", session="hung", rank=1)["stacks"]
        self.assertTrue(of_one and all(1 in stack["ranks"] for stack in of_one))

    def test_who_waits(self):
        said = self.result("who_waits", session="hung")
        self.assertEqual({(wait["rank"], wait["waits_for_rank"]) for wait in said["waits"]}, {(0, 1), (1, 0)})
        late = self.result("who_waits", session="late", rank=2)
        self.assertEqual((late["culprit_ranks"], len(late["operations"])), ([2], 1))
        self.assertEqual(self.result("who_waits", session="late", rank=9)["operations"], [])

    def test_rank_diff(self):
        said = self.result("rank_diff", session="late", rank=0, other=2)
        self.assertEqual([rank["rank"] for rank in said["ranks"]], [0, 2])
        self.assertIn("pid", {field["field"] for field in said["fields_that_differ"]})
        (comm,) = said["communicators_that_differ"]
        self.assertEqual((comm["rank_behind_by"], comm["other_behind_by"]), (0, 1))
        self.assertEqual(self.result("rank_diff", session="late", rank=0, other=1)["communicators_that_differ"], [])
        self.assertIn("no rank 7", self.refused("rank_diff", session="late", rank=0, other=7))

    def test_a_check(self):
        self.assertIn("communicator-order-cycle", self.result("explain_check", check="communicator-order-cycle")["text"])
        self.assertIn("no check 'x'", self.refused("explain_check", check="x"))

    def test_nothing_else_is_read(self):
        outside = os.path.join(self.work, "elsewhere")
        self.assertEqual(subprocess.run([GORDIAN, "explain", outside], capture_output=True, check=False).returncode, 1)
        link = os.path.join(self.sessions, "link")
        os.symlink(outside, link)
        inside = os.path.join(self.sessions, "linked")
        os.mkdir(inside)
        os.symlink(os.path.join(outside, "verdict.json"), os.path.join(inside, "verdict.json"))
        try:
            for name in (outside, "../elsewhere", "link", "linked", "hung/../../elsewhere", "/", ".", "", "/etc/passwd", "nowhere\0x"):
                with self.subTest(name):
                    said = self.refused("verdict", session=name)
                    self.assertTrue("no session" in said or "holds a link" in said, said)
            listed = {one["name"]: one for one in self.result("list_sessions")["sessions"]}
            self.assertEqual(set(listed), {"hung", "late", "linked"})
            self.assertEqual((listed["linked"]["verdict"], listed["linked"]["problem"]), ("", "it holds a link"))
        finally:
            os.unlink(link)
            shutil.rmtree(inside)

    def test_nothing_is_written(self):
        def state():
            return sorted((os.path.join(at, name), os.stat(os.path.join(at, name)).st_mtime_ns)
                          for at, _, names in os.walk(self.work) for name in names)
        before = state()
        for tool in ("verdict", "who_waits", "stacks"):
            self.result(tool, session="late")
        self.result("rank_diff", session="hung", rank=0, other=1)
        self.assertEqual(state(), before)

    def test_each_bad_message_gets_an_error(self):
        ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
        for line, code, answer_to in (
                (b"{", -32700, None), (b"\xff\xfe", -32700, None), (b"nonsense", -32700, None), (b'{"a":1}}', -32700, None),
                (b"null", -32600, None), (b"[]", -32600, None), (b"3", -32600, None), (b"{}", -32600, None),
                (json.dumps([ping]).encode(), -32600, None),
                (b"[" * 100000, -32600, None), (b'{"a":' * 5000 + b"1" + b"}" * 5000, -32600, None),
                (json.dumps({**ping, "jsonrpc": "1.0"}).encode(), -32600, 5), (json.dumps({**ping, "id": None}).encode(), -32600, None),
                (json.dumps({**ping, "id": [1]}).encode(), -32600, None), (json.dumps({**ping, "id": 1.5}).encode(), -32600, None),
                (json.dumps({**ping, "method": 3}).encode(), -32600, 5), (json.dumps({**ping, "method": "nope"}).encode(), -32601, 5),
                (json.dumps({**ping, "params": []}).encode(), -32602, 5), (json.dumps({**INITIALIZE, "params": {}}).encode(), -32602, 0),
                (json.dumps(call).encode(), -32602, 5), (json.dumps({**call, "params": {"name": "rm"}}).encode(), -32602, 5),
                (json.dumps({**call, "params": {"name": "verdict"}}).encode(), -32602, 5),
                (json.dumps({**call, "params": {"name": "verdict", "arguments": []}}).encode(), -32602, 5),
                (json.dumps({**call, "params": {"name": "verdict", "arguments": {"session": 4}}}).encode(), -32602, 5),
                (json.dumps({**call, "params": {"name": "verdict", "arguments": {"session": "hung", "x": 1}}}).encode(), -32602, 5),
                (json.dumps({**call, "params": {"name": "stacks", "arguments": {"session": "hung", "rank": -1}}}).encode(), -32602, 5),
                (json.dumps({**call, "params": {"name": "stacks", "arguments": {"session": "hung", "rank": 1e30}}}).encode(), -32602, 5),
                (b" " * (1 << 20) + b"{}", -32600, None), (b"x" * 3_000_000, -32600, None)):
            with self.subTest(line[:80]):
                answers = self.raw(line + b"\n" + json.dumps(ping).encode())  # it goes on, and needs no last newline
                self.assertEqual([answer["id"] for answer in answers], [answer_to, 5])
                self.assertEqual(answers[0]["error"]["code"], code)

    def test_what_asks_for_nothing_has_no_answer(self):
        self.assertEqual(self.raw(b"\n  \n\r\n"), [])
        self.assertEqual(self.ask({"jsonrpc": "2.0", "method": "tools/call"}, {"jsonrpc": "2.0", "method": "nope"},
                                  {"jsonrpc": "2.0", "id": 7, "result": {}}), [])

    def test_garbage(self):
        seed = int(os.environ.get("GORDIAN_TEST_SEED", random.randrange(1 << 30)))
        chance = random.Random(seed)
        good = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                           "params": {"name": "stacks", "arguments": {"session": "hung", "rank": 1}}}).encode()
        lines = []
        for _ in range(2000):
            line = bytearray(good)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(line))
                line[at:at + chance.randrange(3)] = bytes(chance.choices(b'{}[]",:0a\\\xc3\x00-e', k=chance.randrange(3)))
            lines.append(bytes(line).replace(b"\n", b" "))
        ping = json.dumps({"jsonrpc": "2.0", "id": "end", "method": "ping"}).encode()
        try:
            answers = self.raw(b"\n".join([*lines, ping]) + b"\n")
            self.assertEqual(answers[-1], {"jsonrpc": "2.0", "id": "end", "result": {}})
        except AssertionError as error:
            raise AssertionError(f"GORDIAN_TEST_SEED={seed}") from error

    def test_a_folder_that_is_not_there(self):
        done = subprocess.run([GORDIAN, "mcp", os.path.join(self.work, "nowhere")], input=b"", capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"cannot read", done.stderr)


if __name__ == "__main__":
    if not BUILD:
        sys.exit(f"usage: {sys.argv[0]} BUILD [TEST]")
    del sys.argv[1]
    unittest.main(verbosity=2)
