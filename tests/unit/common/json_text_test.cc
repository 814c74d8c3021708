#include "common/json_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace gordian {
namespace {

using nlohmann::json;

std::string Nested(size_t deep, const std::string& inner) {
  std::string text;
  for (size_t i = 0; i < deep; ++i) text += i % 2 == 0 ? "[" : "{\"k\":";
  text += inner;
  for (size_t i = deep; i > 0; --i) text += (i - 1) % 2 == 0 ? "]" : "}";
  return text;
}

TEST(JsonText, RefusesWhatNestsDeeperThanItsBound) {
  EXPECT_FALSE(ParseJson<json>(Nested(kMostNesting, "1")).is_discarded());
  EXPECT_TRUE(ParseJson<json>(Nested(kMostNesting + 1, "1")).is_discarded());
  EXPECT_TRUE(ParseJson<nlohmann::ordered_json>(Nested(100'000, "1")).is_discarded());
}

TEST(JsonText, NamesTheKey) {
  const std::string deep = Nested(kMostNesting, "1");
  std::string_view key;
  const std::string text = "{\"a\": [1, {\"b\": \"c\"}], \"d\": " + deep + "}";
  EXPECT_TRUE(NestsTooDeep(text, &key));
  EXPECT_EQ(key, "d");
}

TEST(JsonText, BracketsInTextsDoNotCount) {
  const std::string brackets(1000, '[');
  for (const std::string& text : {brackets, "\\\"" + brackets, brackets + "\\\\", "{" + brackets}) {
    const auto value = ParseJson<json>("[\"" + text + "\", 1]");
    ASSERT_TRUE(value.is_array()) << text;
    EXPECT_EQ(value.at(1), 1);
  }
}

TEST(JsonText, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "[", "{\"a\":}", "1e999", "\"\\", "]]]]"}) {
    EXPECT_TRUE(ParseJson<json>(text).is_discarded()) << text;
  }
}

// A naive twin: the depth of values that nest at random, by their own count.
size_t DepthOf(const json& value) {
  size_t most = 0;
  for (const json& part : value) {
    if (part.is_structured()) most = std::max(most, DepthOf(part));
  }
  return value.is_structured() ? most + 1 : 0;
}

TEST(JsonText, CountsAsTheParserDoes) {
  int deep = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    json value = 1;
    for (size_t left = random() % (2 * kMostNesting); left > 0; --left) {
      json around = random() % 2 == 0 ? json::array({"]\"["}) : json{{"b", "{"}};
      if (around.is_array()) {
        around.push_back(std::move(value));
      } else {
        around["}\\{"] = std::move(value);
      }
      value = std::move(around);
    }
    EXPECT_EQ(NestsTooDeep(value.dump()), DepthOf(value) > kMostNesting) << value.dump();
    deep += DepthOf(value) > kMostNesting ? 1 : 0;
  }
  EXPECT_GT(deep, 50);
}

}  // namespace
}  // namespace gordian
