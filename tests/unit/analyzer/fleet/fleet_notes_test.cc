#include "analyzer/fleet/fleet_notes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gordian::analyzer {
namespace {

using Texts = std::vector<std::string>;

class FleetNotesTest : public ::testing::Test {
 protected:
  void Join(const std::string& name, int32_t number, uint32_t expected) {
    v1::Event event;
    v1::NodeJoined* const joined = event.mutable_node_joined();
    joined->set_node(next_++);
    joined->set_name(name);
    joined->set_node_rank(number);
    joined->set_nodes_expected(expected);
    notes_.OnEvent(event);
  }

  FleetNotes notes_;
  uint32_t next_ = 0;
};

TEST_F(FleetNotesTest, NamesTheNumbersThatHaveNotJoined) {
  Join("a", 0, 4);
  Join("b", 2, 4);
  EXPECT_EQ(notes_.Texts(),
            Texts{"2 of 4 nodes, which have not joined: number 1, 3 (joined: a, b)"});
}

TEST_F(FleetNotesTest, TwoNodesOfOneNameAreTwoByTheirNumbers) {
  Join("host", 0, 3);
  Join("host", 1, 3);
  EXPECT_EQ(notes_.Texts(), Texts{"1 of 3 nodes, which have not joined: number 2 (joined: host)"});
  Join("host", 2, 3);
  EXPECT_EQ(notes_.Texts(), Texts{});
}

TEST_F(FleetNotesTest, ANodeThatCameAgainIsOneNode) {
  Join("a", 0, 2);
  Join("a", 0, 2);
  EXPECT_EQ(notes_.Texts(), Texts{"1 of 2 nodes, which have not joined: number 1 (joined: a)"});
}

TEST_F(FleetNotesTest, NodesWithoutNumbersCountByTheirNames) {
  Join("a", -1, 3);
  Join("a", -1, 3);
  Join("b", -1, 3);
  EXPECT_EQ(notes_.Texts(), Texts{"1 of 3 nodes, which have not joined (joined: a, b)"});
}

}  // namespace
}  // namespace gordian::analyzer
