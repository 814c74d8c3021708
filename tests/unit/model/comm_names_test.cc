#include "analyzer/model/verdict/comm_names.h"

#include <gtest/gtest.h>

namespace gordian::model {
namespace {

Communicator Comm(std::string name, CommId made_as) {
  Communicator comm;
  comm.name = std::move(name);
  comm.nranks = 1;
  comm.members.resize(1);
  comm.members[0].known = true;
  comm.members[0].comm = made_as;
  return comm;
}

std::string Set(std::vector<int> ranks, int unseen = 0) {
  return MemberSet({.ranks = std::move(ranks), .unseen = unseen});
}

TEST(CommNamesTest, SetsAreShort) {
  EXPECT_EQ(Set({0, 1}), "{0,1}");
  EXPECT_EQ(Set({0, 1, 2, 3, 7}), "{0-3,7}");
  EXPECT_EQ(Set({0, 8, 16, 24}), "{0,8,...,24}");
  EXPECT_EQ(Set({0, 8, 16}), "{0,8,16}");
  EXPECT_EQ(Set({3}), "{3}");
  EXPECT_EQ(Set({0, 2, 5, 7, 11, 13, 17, 19}), "{0,2,5,7,...}");
  EXPECT_EQ(Set({0}, 3), "{0,?}");
  EXPECT_EQ(Set({}, 3), "{?}");
}

// A name must not depend on the order in which the records of different ranks came.
TEST(CommNamesTest, MembersNameWhatHasNoNameOfItsOwn) {
  const std::vector<Communicator> comms = {Comm("", 3),   Comm("dp", 2), Comm("tp", 4),
                                           Comm("tp", 5), Comm("", 1),   Comm("", 7)};
  const std::vector<MemberRanks> members = {{{0, 1}}, {{0, 2}}, {{0, 1}},
                                            {{2, 3}}, {{0, 1}}, {{2, 3}}};
  EXPECT_EQ(CommNames(comms, members),
            (std::vector<std::string>{"comm {0,1} (2nd)", "dp", "tp {0,1}", "tp {2,3}",
                                      "comm {0,1}", "comm {2,3}"}));
}

TEST(CommNamesTest, ManyOfTheSameMembersAreNumbered) {
  std::vector<Communicator> comms;
  for (CommId id = 1; id <= 22; ++id) comms.push_back(Comm("", id));
  const std::vector<std::string> names =
      CommNames(comms, std::vector<MemberRanks>(comms.size(), MemberRanks{{0, 1}}));
  EXPECT_EQ(names[0], "comm {0,1}");
  EXPECT_EQ(names[2], "comm {0,1} (3rd)");
  EXPECT_EQ(names[10], "comm {0,1} (11th)");
  EXPECT_EQ(names[20], "comm {0,1} (21st)");
  EXPECT_EQ(names[21], "comm {0,1} (22nd)");
}

}  // namespace
}  // namespace gordian::model
