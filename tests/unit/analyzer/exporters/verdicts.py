#!/usr/bin/env python3
"""`gordian export` of who waits for whom and of the verdict: DOT, GraphML, SARIF, read by programs of others; SARIF
of predictions, too.

  verdicts.py BUILD [TEST]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

from export_testing import BUILD, ExportTest, gordian, main

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.abspath(os.path.join(HERE, *[os.pardir] * 4))
sys.path.insert(0, os.path.join(SOURCES, "tests", "npm"))
import packages  # noqa: E402

# Debian's python3-networkx is for Debian's own interpreter.
READ_GRAPHML = """
import json, sys, networkx
graph = networkx.read_graphml(sys.argv[1])
assert graph.is_directed()
print(json.dumps({"nodes": dict(graph.nodes(data=True)), "edges": [[a, b, d] for a, b, d in graph.edges(data=True)],
                  "cycles": list(networkx.simple_cycles(graph)) if len(graph) < 50 else []}))
"""


class Graphs(ExportTest):
    def graphml(self, session, *options):
        path = os.path.join(self.work, "waits.graphml")
        gordian("export", session, "-f", "graphml", "-o", path, *options)
        python = "/usr/bin/python3"
        if not os.path.exists(python) or subprocess.run([python, "-c", "import networkx"], capture_output=True).returncode != 0:
            self.skipTest("networkx is not installed (Debian: python3-networkx)")
        done = subprocess.run([python, "-c", READ_GRAPHML, path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def dot(self, session, *options):
        text = gordian("export", session, "-f", "dot", *options).stdout
        return (dict(re.findall(r'^(\d+)\[label="((?:[^"\\]|\\.)*)"', text, re.M)), re.findall(r"^(\d+)->(\d+)", text, re.M), text)

    def test_both_say_the_same(self):
        session = self.session("inversion_one_stream")
        for options in ([], ["--witness"], ["--rank", "1"]):
            with self.subTest(options):
                graph = self.graphml(session, *options)
                labels, edges, _ = self.dot(session, *options)
                self.assertEqual({n: d["label"] for n, d in graph["nodes"].items()}, labels)
                self.assertEqual(sorted([a, b] for a, b, _ in graph["edges"]), sorted(map(list, edges)))
                self.assertTrue(labels)

    def test_the_witness_is_one_cycle(self):
        session = self.session("inversion_one_stream")
        whole, witness = self.graphml(session), self.graphml(session, "--witness")
        self.assertLess(len(witness["nodes"]), len(whole["nodes"]))
        self.assertEqual([sorted(cycle) for cycle in witness["cycles"]], [sorted(witness["nodes"])])
        self.assertTrue(all(node["witness"] for node in witness["nodes"].values()))
        self.assertEqual({node["label"] for node in whole["nodes"].values() if node["witness"]},
                         {node["label"] for node in witness["nodes"].values()})
        self.assertEqual({node["rank"] for node in witness["nodes"].values()} - {-1}, {0, 1})
        reasons = {edge["reason"] for _, _, edge in witness["edges"]}
        self.assertLessEqual({edge["reason"] for edge in self.verdict(session)["cycle"]}, reasons)

    def test_without_a_cycle_there_is_no_witness(self):
        session = self.session("missing_rank", 3)
        self.assertTrue(self.graphml(session)["nodes"])
        done = gordian("export", session, "-f", "graphml", "--witness")
        self.assertIn("no cycle is among the waits", done.stderr)
        self.assertEqual(len(ElementTree.fromstring(done.stdout).findall(".//{*}node")), 0)

    def test_graphviz_draws_it(self):
        if not shutil.which("dot"):
            self.skipTest("Graphviz is not installed (Debian: graphviz)")
        labels, edges, text = self.dot(self.session("inversion_one_stream"))
        done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        svg = ElementTree.fromstring(done.stdout)
        drawn = {kind: [g for g in svg.findall(".//{*}g") if (g.get("class") or "").split()[:1] == [kind]] for kind in ("node", "edge")}
        self.assertEqual((len(drawn["node"]), len(drawn["edge"])), (len(labels), len(edges)))
        self.assertTrue(any("cycle" in g.get("class") for g in drawn["node"]))


class Sarif(ExportTest):
    def run_of(self, text):
        try:
            code, said = packages.run(BUILD, "sarif_logs.cjs", json.dumps([json.loads(text)]))
        except packages.Missing as missing:
            self.skipTest(str(missing))
        self.assertEqual(code, 0, said)
        (run,) = json.loads(text)["runs"]
        return run

    def sarif(self, session, cwd=None):
        return self.run_of(gordian("export", session, "-f", "sarif", cwd=cwd).stdout)

    def test_a_deadlock(self):
        session = self.session("inversion_sync")
        verdict, run = self.verdict(session), self.sarif(session, cwd=SOURCES)
        first = run["results"][0]
        self.assertEqual(run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"], verdict["check"])
        self.assertEqual(first["message"]["text"], verdict["summary"])
        self.assertEqual(first["level"], {"confirmed": "error", "suspected": "warning", "possible": "note"}[verdict["confidence"]])
        # It is shown where a culprit stands.
        (place,) = first["locations"]
        lines = {edge["site"].split(" ")[0] for edge in verdict["cycle"] if edge["rank"] in verdict["culprit_ranks"]}
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        self.assertEqual(place["physicalLocation"]["artifactLocation"]["uriBaseId"], "%SRCROOT%")
        self.assertTrue(os.path.exists(os.path.join(SOURCES, uri)), uri)
        self.assertIn(f"{os.path.basename(uri)}:{place['physicalLocation']['region']['startLine']}", lines)
        self.assertEqual(len(first["locations"]) + len(first["relatedLocations"]), len(verdict["cycle"]))

    def test_a_missing_rank(self):
        session = self.session("missing_rank", 3)
        verdict, result = self.verdict(session), self.sarif(session)["results"][0]
        self.assertEqual((result["ruleId"], result["level"]), (verdict["check"], "warning"))
        self.assertEqual(verdict["culprit_ranks"], [2])
        self.assertTrue(result["locations"][0]["message"]["text"].startswith("rank 2: "), result["locations"])

    def test_what_is_no_problem_has_no_result(self):
        self.assertEqual(self.sarif(self.session("inversion_sync", twin=True))["results"], [])

    def test_predictions(self):
        path = os.path.join(self.work, "found.sarif")
        # A full machine may fix the order of one of them, tests/e2e/explore.py says how.
        sessions = (self.session("near_miss", ranks) for ranks in (2, 3, 4))
        free = next((session for session in sessions if gordian("predict", session, ok=False).returncode == 1), None)
        self.assertIsNotNone(free)
        for verb in ("predict", "explore"):
            for session, count in ((free, 1), (self.session("near_miss", twin=True), 0)):
                with self.subTest(verb, session=session):
                    done = gordian(verb, session, "--sarif", path, ok=False)
                    self.assertEqual(done.returncode, count, done.stderr)
                    with open(path, encoding="utf-8") as f:
                        self.assertEqual(len(self.run_of(f.read())["results"]), count)

    def test_the_schema_finds_faults(self):
        session = self.session("inversion_sync")
        log = json.loads(gordian("export", session, "-f", "sarif").stdout)
        log["runs"][0]["results"][0]["level"] = "fatal"
        try:
            code, said = packages.run(BUILD, "sarif_logs.cjs", json.dumps([log]))
        except packages.Missing as missing:
            self.skipTest(str(missing))
        self.assertEqual(code, 1, said)
        self.assertIn("/runs/0/results/0/level", said)


if __name__ == "__main__":
    main()
