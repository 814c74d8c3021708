#!/usr/bin/env python3
"""The layering check itself must fail when a rule is broken."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_layering


class LayeringTest(unittest.TestCase):
    def tree(self, **files):
        root = tempfile.mkdtemp()
        self.addCleanup(lambda: __import__("shutil").rmtree(root))
        for folder in check_layering.RULES:
            os.makedirs(os.path.join(root, folder), exist_ok=True)
            with open(os.path.join(root, folder, "a.h"), "w") as f:
                f.write("#include <stdint.h>\n")
        for path, text in files.items():
            with open(os.path.join(root, path.replace("__", "/").replace("_DOT_", ".")), "w") as f:
                f.write(text)
        return root

    def test_clean_tree(self):
        self.assertEqual(check_layering.check(self.tree()), [])

    def test_shim_must_not_include_protobuf_or_strings(self):
        self.assertTrue(check_layering.check(self.tree(interpose__x_DOT_cc="#include <google/protobuf/message.h>\n")))
        self.assertTrue(check_layering.check(self.tree(interpose__x_DOT_cc="#include <string>\n")))

    def test_model_has_no_clock_no_thread_no_neighbours(self):
        for text in ("#include <chrono>\n", "#include <thread>\n", '#include "common/clock.h"\n'):
            self.assertTrue(check_layering.check(self.tree(analyzer__model__x_DOT_cc=text)), text)

    def test_collector_must_not_include_the_shim(self):
        self.assertTrue(check_layering.check(self.tree(collector__x_DOT_cc='#include "interpose/state/ring_client.h"\n')))

    def test_emulator_knows_nothing_of_the_analyzer(self):
        self.assertTrue(check_layering.check(self.tree(emulator__x_DOT_cc='#include "analyzer/model/facts/event.h"\n')))

    def test_planner_is_pure_and_plans_are_portable(self):
        for text in ("#include <fstream>\n", '#include "gordian/v1/event.pb.h"\n', '#include "analyzer/report/report.h"\n',
                     "#include <nlohmann/json.hpp>\n"):
            self.assertTrue(check_layering.check(self.tree(planner__x_DOT_cc=text)), text)
        for text in ("#include <cuda_runtime_api.h>\n", "#include <vector>\n", '#include "planner/schedule/plan.h"\n'):
            self.assertTrue(check_layering.check(self.tree(runtime__core__x_DOT_h=text)), text)

    def test_globs(self):
        self.assertTrue(check_layering.check(self.tree(cli__CMakeLists_DOT_txt="file(GLOB S *.cc)\n")))


if __name__ == "__main__":
    unittest.main()
