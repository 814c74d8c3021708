// Source lines as nodes send them, honest ones and others.
#include "analyzer/stacks/source_book.h"

#include <gtest/gtest.h>

#include <string>

#include "analyzer/ingest/graph_events.h"

namespace gordian::analyzer {
namespace {

v1::Event From(uint32_t process) {
  v1::Event event;
  event.mutable_stacks_taken()->set_process(process);
  return event;
}

void Add(v1::Event* event, const std::string& file, int line, const std::string& text) {
  v1::SitePlace* const place = event->mutable_stacks_taken()->add_sites();
  place->set_site(0x1234);
  place->set_file(file);
  place->set_line(line);
  place->set_first_line(line);
  place->add_lines(text);
}

TEST(SourceBook, PrefersTheProcessesOwnNode) {
  SourceBook book;
  for (uint32_t node = 0; node < 2; ++node) {
    v1::Event event = From(node * kProcessesOfNode + 1);
    Add(&event, "/job/train.py", 88, "of node " + std::to_string(node));
    book.OnEvent(event);
    event.mutable_stacks_taken()->mutable_sites(0)->set_lines(0, "changed since");
    book.OnEvent(event);
  }
  EXPECT_EQ(book.Find(1, "/job/train.py", 88).lines.front(), "of node 0");
  EXPECT_EQ(book.Find(kProcessesOfNode + 5, "/job/train.py", 88).lines.front(), "of node 1");
  EXPECT_EQ(book.Find(7 * kProcessesOfNode, "/job/train.py", 88).lines.front(), "of node 0");
  EXPECT_TRUE(book.Find(1, "/job/train.py", 87).lines.empty());
  EXPECT_TRUE(book.Find(1, "/job/other.py", 88).lines.empty());
}

TEST(SourceBook, KnowsThatTheJobIsOnNodes) {
  SourceBook book;
  EXPECT_FALSE(book.on_nodes());
  v1::Event event;
  event.mutable_node_joined();
  book.OnEvent(event);
  EXPECT_TRUE(book.on_nodes());
}

TEST(SourceBook, IsBoundedForANodeAndInAll) {
  SourceBook book;
  size_t kept = 0;
  const auto flood = [&](uint32_t node) {
    size_t of_node = 0;
    for (int i = 1; i <= 2'000; ++i) {
      v1::Event event = From(node * kProcessesOfNode);
      const std::string file = "/" + std::to_string(node) + std::string(4'000, 'x') + ".py";
      Add(&event, file, i, "line");
      book.OnEvent(event);
      of_node += book.Find(0, file, i).lines.empty() ? 0 : 1;
    }
    kept += of_node;
    return of_node;
  };
  const size_t first = flood(0);
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, 200u) << "a node has half a MiB";
  for (uint32_t node = 1; node < 60; ++node) flood(node);
  EXPECT_LT(kept * 8'000, 17u << 20) << "all have 16 MiB";
  EXPECT_GT(kept, 10 * first) << "one node takes nothing from others";
}

// The trace gets what an honest node could have sent.
TEST(BoundPlaces, CutsWhatIsTooMuch) {
  v1::Event event = From(1);
  Add(&event, "/job/\x1b[2J.py", 3, "\x1b]0;title\x07" + std::string(1 << 20, 'x'));
  for (int i = 0; i < 10'000; ++i) Add(&event, "/job/train.py", i, "x");
  v1::SitePlace* const second = event.mutable_stacks_taken()->mutable_sites(1);
  second->set_function(std::string(1 << 20, 'f'));
  second->set_file(std::string(1 << 20, 'f'));
  v1::SitePlace* const third = event.mutable_stacks_taken()->mutable_sites(2);
  for (int i = 0; i < 1'000; ++i) third->add_lines("x");
  BoundPlaces(event.mutable_stacks_taken());
  const v1::StacksTaken& taken = event.stacks_taken();
  EXPECT_EQ(taken.sites_size(), 64);
  ASSERT_EQ(taken.sites(0).lines_size(), 1);
  EXPECT_LE(taken.sites(0).lines(0).size(), 240u);
  EXPECT_EQ(taken.sites(0).lines(0).find_first_of("\x1b\x07"), std::string::npos);
  EXPECT_LT(taken.ByteSizeLong(), 10'000u);
  SourceBook book;
  book.OnEvent(event);
  EXPECT_EQ(book.Find(1, "/job/\x1b[2J.py", 3).path.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace gordian::analyzer
