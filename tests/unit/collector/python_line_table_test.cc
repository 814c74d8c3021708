// Against what CPython itself says of the lines of its standard library.
#include "collector/stacks/python_line_table.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace gordian::collector {
namespace {

// For each code object below some modules: its first line, its table in hex, and the line of each
// instruction (-1: none).
constexpr char kScript[] = R"(
import sys, types
if sys.version_info < (3, 11):
    sys.exit(3)
import argparse, ast, asyncio.base_events, collections, dataclasses, difflib, email.message, functools
import http.client, inspect, json.decoder, logging, os, re, socket, subprocess, tarfile, textwrap, typing
import unittest.mock
seen = set()
def tell(code):
    if id(code) in seen:
        return
    seen.add(id(code))
    lines = [-1 if position[0] is None else position[0] for position in code.co_positions()]
    print(code.co_firstlineno, code.co_linetable.hex() or "-", *lines)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            tell(constant)
kept = []
for module in list(sys.modules.values()):
    path = getattr(module, "__file__", None)
    if path and path.endswith(".py"):
        with open(path, encoding="utf-8") as f:
            kept.append(compile(f.read(), path, "exec"))
        tell(kept[-1])
# Multi-line expressions, jumps back, and lines far apart.
source = "def f(a):\n  return [x\n    for x in a\n    if x] + g(\n1,\n" + "\n" * 5000 + "2)\n"
kept.append(compile(source, "made", "exec"))
tell(kept[-1])
)";

std::vector<uint8_t> FromHex(const std::string& text) {
  std::vector<uint8_t> out;
  for (size_t i = 0; text != "-" && i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}

class AgainstCPython : public ::testing::TestWithParam<std::string> {};

TEST_P(AgainstCPython, EveryInstructionHasTheLineThatCPythonSays) {
  char path[] = "/tmp/gordian-line-table-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  FILE* const script = fdopen(fd, "w");
  ASSERT_NE(script, nullptr);
  fputs(kScript, script);
  fclose(script);
  FILE* const out = popen((GetParam() + " " + path + " 2>/dev/null").c_str(), "r");
  ASSERT_NE(out, nullptr);
  size_t functions = 0, instructions = 0, wrong = 0;
  std::string line;
  for (int c; (c = fgetc(out)) != EOF;) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    std::istringstream words(line);
    int first = 0, expected = 0;
    std::string hex;
    words >> first >> hex;
    const std::vector<uint8_t> table = FromHex(hex);
    for (int64_t offset = 0; words >> expected; offset += 2) {
      const int got = LineOfInstruction(table, first, offset);
      if (got != expected && wrong++ == 0) {
        ADD_FAILURE() << "offset " << offset << " is line " << expected << ", not " << got << ": "
                      << line.substr(0, 200);
      }
      ++instructions;
    }
    ++functions;
    line.clear();
  }
  const int status = pclose(out);
  remove(path);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == 3)) {
    GTEST_SKIP() << GetParam() << " is not there, or older than 3.11";
  }
  ASSERT_EQ(status, 0);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(functions, 1000u);
  EXPECT_GT(instructions, 100'000u);
}

// GORDIAN_TEST_PYTHONS: further interpreters, separated by colons.
std::vector<std::string> Interpreters() {
  std::vector<std::string> out = {"python3"};
  std::istringstream more(getenv("GORDIAN_TEST_PYTHONS") != nullptr ? getenv("GORDIAN_TEST_PYTHONS")
                                                                    : "");
  for (std::string one; std::getline(more, one, ':');) {
    out.push_back(one);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(PythonLineTable, AgainstCPython, ::testing::ValuesIn(Interpreters()));

TEST(PythonLineTable, TablesThatMakeNoSenseHaveNoLine) {
  EXPECT_EQ(LineOfInstruction({}, 7, 0), -1);
  EXPECT_EQ(LineOfInstruction({}, 7, -2), 7);
  const std::vector<uint8_t> no_start = {0x00, 0x00};
  EXPECT_EQ(LineOfInstruction(no_start, 7, 0), -1);
  const std::vector<uint8_t> cut = {0x80 | 14 << 3};
  EXPECT_EQ(LineOfInstruction(cut, 7, 0), -1);
  const std::vector<uint8_t> endless = {0x80 | 13 << 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                        0xff,           0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EXPECT_EQ(LineOfInstruction(endless, 7, 0), -1);
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> bytes(random() % 40);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random());
    }
    EXPECT_GE(LineOfInstruction(bytes, 1, static_cast<int64_t>(random() % 100)), -1);
  }
}

}  // namespace
}  // namespace gordian::collector
