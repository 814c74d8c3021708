#!/usr/bin/env python3
"""`gordian export` as Perfetto traces and Chakra execution traces, read back with protoc.

  timelines.py BUILD [TEST]

Debian and npm have no Perfetto trace processor, so that the schema of the packets is a part of
Perfetto's own (perfetto_subset.proto), and the rules of nesting and flows are checked here.
"""

import os
import unittest

import proto_reader
from export_testing import ExportTest, gordian, main


class Slice:
    def __init__(self, begin, name, says):
        self.begin, self.end, self.name, self.says = begin, None, name, says
        self.flows, self.ends = says.pop("flows"), says.pop("ends")


class Timeline:
    """The tracks of a trace with their slices and instants, as trace_processor would make them."""

    def __init__(self, data):
        packets = proto_reader.decode("perfetto_subset.proto", "perfetto.protos.Trace", data)["packet"]
        self.texts, self.names, self.parents, self.pids, self.clock = {}, {}, {}, {}, None
        self.slices, self.instants = {}, {}
        cleared = False
        events = []
        for packet in packets:
            assert packet["trusted_packet_sequence_id"] == [1], packet
            for snapshot in packet.get("clock_snapshot", []):
                self.clock = {clock["clock_id"][0]: clock["timestamp"][0] for clock in snapshot["clocks"]}
            for data in packet.get("interned_data", []):
                cleared |= packet["sequence_flags"][0] & 1 == 1
                for field, entries in data.items():
                    for entry in entries:
                        key = (field, entry["iid"][0])
                        assert key not in self.texts, f"{key} twice"
                        self.texts[key] = (entry.get("name") or entry.get("str"))[0]
            for track in packet.get("track_descriptor", []):
                uuid = track["uuid"][0]
                assert uuid not in self.names, f"track {uuid} twice"
                self.names[uuid] = track["name"][0]
                self.parents[uuid] = track.get("parent_uuid", [None])[0]
                if "process" in track:
                    self.pids[uuid] = track["process"][0]["pid"][0]
            if "track_event" in packet:
                assert cleared and packet["sequence_flags"] == [2], "an event before the texts it names"
                events.append((packet["timestamp"][0], len(events), packet["track_event"][0]))
        # trace_processor sorts by time, and keeps the order of what is of one time.
        events.sort(key=lambda event: event[:2])
        stacks = {}
        for time, _, event in events:
            track = event["track_uuid"][0]
            assert track in self.names, f"track {track} has no descriptor"
            stack = stacks.setdefault(track, [])
            kind = event["type"][0]
            if kind == "TYPE_SLICE_END":
                stack.pop().end = time
                continue
            made = Slice(time, self.text(event, "name", "name_iid", "event_names"), self.says(event))
            if kind == "TYPE_INSTANT":
                self.instants.setdefault(track, []).append(made)
            else:
                self.slices.setdefault(track, []).append(made)
                stack.append(made)

    def text(self, message, plain, number, table):
        return message[plain][0] if plain in message else self.texts[table, message[number][0]]

    def says(self, event):
        says = {"flows": event.get("flow_ids", []), "ends": event.get("terminating_flow_ids", []),
                "category": self.text(event, "categories", "category_iids", "event_categories"),
                "correlation": event.get("correlation_id", [None])[0]}
        for note in event.get("debug_annotations", []):
            name = self.text(note, "name", "name_iid", "debug_annotation_names")
            if "string_value" in note or "string_value_iid" in note:
                says[name] = self.text(note, "string_value", "string_value_iid", "debug_annotation_string_values")
            else:
                says[name] = (note.get("uint_value") or note.get("int_value"))[0]
        return says

    def of(self, rank, track):
        """The slices of a rank's tracks whose names begin so."""
        return [one for uuid, slices in self.slices.items() for one in slices
                if self.names[uuid].startswith(track) and self.names.get(self.parents[uuid]) == f"rank {rank}"]

    def verdicts(self):
        return [one for uuid, found in self.instants.items() for one in found if self.names[uuid] == "verdict of gordian"]


class Perfetto(ExportTest):
    def timeline(self, session, *options):
        path = session + ".pftrace"
        gordian("export", session, "-f", "perfetto", "-o", path, *options)
        with open(path, "rb") as f:
            return Timeline(f.read())

    def test_what_hangs_has_no_end(self):
        session = self.session("inversion_sync")
        timeline, verdict = self.timeline(session), self.verdict(session)
        self.assertEqual({name for uuid, name in timeline.names.items() if uuid in timeline.pids}, {"rank 0", "rank 1"})
        self.assertEqual(len(set(timeline.pids.values())), 2)
        self.assertEqual(set(timeline.clock), {1, 6})
        for rank in (0, 1):
            open_calls = [one for one in timeline.of(rank, "thread") if one.end is None]
            self.assertEqual([one.name for one in open_calls], ["cudaDeviceSynchronize"])
            self.assertEqual([one.says["category"] for one in open_calls], ["unfinished"])
            operations = timeline.of(rank, "stream")
            (hung,) = [one for one in operations if one.end is None]
            self.assertEqual((hung.says["category"], hung.says["state"]), ("unfinished", "started"))
            self.assertTrue(hung.says["site"].startswith(("job.cc:", "inversions.cc:")), hung.says)
            done = [one for one in operations if one.end is not None]
            self.assertTrue(done)
            for one in done:
                self.assertLessEqual(one.end, one.says["done_by"])
                self.assertEqual(one.says["state"], "done")
        # The verdict.
        main_finding = timeline.verdicts()[0]
        self.assertEqual(main_finding.name, f"{verdict['verdict']}: {verdict['check']}")
        self.assertEqual(main_finding.says["summary"], verdict["summary"])
        self.assertEqual(main_finding.says["confidence"], verdict["confidence"])
        # Arrows go around the witness: from each wait to the next one's.
        edges = []
        for rank in (0, 1):
            (wait,) = timeline.of(rank, "waits")
            self.assertIsNone(wait.end)
            (flow,) = wait.flows
            for uuid, instants in timeline.instants.items():
                for instant in instants:
                    if instant.ends == [flow]:
                        self.assertGreater(instant.begin, wait.begin)  # else it would lead nowhere
                        edges.append((f"rank {rank}", timeline.names[timeline.parents[uuid]]))
            self.assertIn(f"waits for rank {1 - rank} in AllReduce", wait.name)
        self.assertEqual(sorted(edges), [("rank 0", "rank 1"), ("rank 1", "rank 0")])
        self.assertEqual({(edge["rank"], edge["waits_for_rank"]) for edge in verdict["cycle"]}, {(0, 1), (1, 0)})

    def test_calls_lead_to_operations(self):
        timeline = self.timeline(self.session("inversion_sync"))
        for rank in (0, 1):
            calls = {flow: one for one in timeline.of(rank, "thread") for flow in one.flows}
            operations = timeline.of(rank, "stream")
            for one in operations:
                (flow,) = one.ends
                self.assertEqual(calls[flow].name, "nccl" + one.name.split(" on ")[0])
                self.assertLessEqual(calls[flow].begin, one.begin)
        # The parts of one operation are known by one number, at both ranks; no two operations have it.
        by_number = {}
        for rank in (0, 1):
            for one in timeline.of(rank, "stream"):
                by_number.setdefault(one.says["correlation"], set()).add((one.name, one.says["sequence"]))
        self.assertTrue(all(len(same) == 1 for same in by_number.values()), by_number)
        self.assertEqual(len({next(iter(same)) for same in by_number.values()}), len(by_number))

    def test_of_a_job_that_ends_all_is_closed(self):
        session = self.session("inversion_sync", twin=True)
        timeline = self.timeline(session)
        slices = [one for found in timeline.slices.values() for one in found]
        self.assertTrue(slices)
        self.assertEqual([one.name for one in slices if one.end is None], [])
        self.assertEqual([one.name for one in timeline.verdicts()], ["finished: job-finished"])
        self.assertFalse(timeline.of(0, "waits"))

    def test_what_waits_its_turn_stands_behind(self):
        timeline = self.timeline(self.session("inversion_one_stream"))
        for rank in (0, 1):
            states = [one.says["state"] for one in timeline.of(rank, "stream") if one.end is None]
            self.assertEqual(states, ["started", "called"])

    def test_the_last_ones(self):
        session = self.session("inversion_one_stream")
        timeline = self.timeline(session, "--last", "1")
        for rank in (0, 1):  # one, and all that are unfinished
            self.assertEqual([one.says["state"] for one in timeline.of(rank, "stream")], ["done", "started", "called"])
            self.assertEqual(len([one for one in timeline.of(rank, "thread") if one.end is not None]), 1)

    def test_standard_output_is_the_same(self):
        session = self.session("inversion_sync")
        path = session + ".same"
        gordian("export", session, "-f", "perfetto", "-o", path)
        with open(path, "rb") as f:
            self.assertEqual(gordian("export", session, "-f", "perfetto", text=False).stdout, f.read())


class Chakra(ExportTest):
    def traces(self, session):
        folder = session + ".et"
        gordian("export", session, "-f", "chakra", "-o", folder)
        traces = {}
        for name in sorted(os.listdir(folder)):
            prefix, rank, suffix = name.split(".")
            self.assertEqual((prefix, suffix), ("gordian", "et"))
            with open(os.path.join(folder, name), "rb") as f:
                first, *rest = proto_reader.delimited(f.read())
            head = proto_reader.decode("chakra_subset.proto", "ChakraProtoMsg.GlobalMetadata", first)
            self.assertEqual(head["version"], ["0.0.4"])
            traces[int(rank)] = [self.node(message) for message in rest]
        return traces

    def node(self, message):
        node = proto_reader.decode("chakra_subset.proto", "ChakraProtoMsg.Node", message)
        attributes = {}
        for one in node.pop("attr"):
            (name,) = one.pop("name")
            ((kind, (value,)),) = one.items() if one else (("zero", (0,)),)
            attributes[name] = (kind, value)
        return {"attr": attributes, "deps": node.get("data_deps", []), "id": node["id"][0], "name": node["name"][0],
                "type": node["type"][0], "start": node["start_time_micros"][0]}

    def check(self, traces):
        for nodes in traces.values():
            seen = set()
            for node in nodes:
                self.assertNotIn(node["id"], seen)
                self.assertLessEqual(set(node["deps"]), seen, "a dependency on what comes later")
                self.assertEqual(len(node["deps"]), len(set(node["deps"])))
                seen.add(node["id"])

    def test_streams_are_chains(self):
        session = self.session("inversion_one_stream")
        traces = self.traces(session)
        self.check(traces)
        self.assertEqual(sorted(traces), [0, 1])
        for nodes in traces.values():
            for one, other in zip(nodes, nodes[1:]):  # all are on one stream
                self.assertEqual(other["deps"], [one["id"]])
            attributes = nodes[-1]["attr"]
            self.assertEqual(nodes[-1]["type"], "COMM_COLL_NODE")
            kinds = {name: kind for name, (kind, _) in attributes.items()}
            for name, kind in (("comm_size", "int64_val"), ("tensor_size", "uint64_val"), ("pg_name", "string_val"),
                               ("stream", "int64_val"), ("state", "string_val")):
                self.assertEqual(kinds[name], kind)
            self.assertEqual(attributes["state"][1], "called")
        # Both ranks call the two in opposite orders.
        self.assertEqual([n["attr"]["pg_name"] for n in traces[0][-2:]], [n["attr"]["pg_name"] for n in reversed(traces[1][-2:])])

    def test_events_are_dependencies(self):
        traces = self.traces(self.session("event_cycle"))
        self.check(traces)
        for nodes in traces.values():
            one, other = nodes[-2:]  # on a stream each, the second behind an event that follows the first
            self.assertNotEqual(one["attr"]["stream"], other["attr"]["stream"])
            self.assertIn(one["id"], other["deps"])

    def test_transfers(self):
        traces = self.traces(self.session("batch_asymmetric"))
        self.check(traces)
        sends = [n for n in traces[0] if n["type"] == "COMM_SEND_NODE"]
        receives = [n for n in traces[1] if n["type"] == "COMM_RECV_NODE"]
        self.assertTrue(sends and receives)
        for node in (sends[0], receives[0]):
            self.assertEqual((node["attr"]["comm_src"][1], node["attr"]["comm_dst"][1]), (0, 1))
        self.assertEqual(sends[0]["attr"]["comm_dst"][0], "int32_val")


class Reader(unittest.TestCase):
    """It refuses what is wrong."""

    def test_it_finds_faults(self):
        with self.assertRaises(proto_reader.Malformed):
            proto_reader.decode("perfetto_subset.proto", "perfetto.protos.Trace", b"\x0a\x02\x10\x05")  # packet, field 2
        with self.assertRaises(proto_reader.Malformed):
            proto_reader.decode("perfetto_subset.proto", "perfetto.protos.Trace", b"\x0a\x7f\x10")
        with self.assertRaises(proto_reader.Malformed):
            proto_reader.delimited(b"\x05abc")


if __name__ == "__main__":
    main()
