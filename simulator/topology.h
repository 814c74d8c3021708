// GPUs, groups and lists in the form that the engines use. A configuration consists of components,
// sets of GPUs that share no group and so never meet; equal components are kept once with their
// number.
#ifndef GORDIAN_SIMULATOR_TOPOLOGY_H_
#define GORDIAN_SIMULATOR_TOPOLOGY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/config.h"

namespace gordian::simulator {

// The shape of a GPU's list: the order of its slots. A slot is a group's index among the GPU's own
// groups, in ascending order. GPUs of equal shape share one Profile. Immutable.
struct Profile {
  uint32_t length = 0;
  uint32_t slots = 0;
  std::vector<uint32_t> slot_at;  // [position]
  std::vector<uint32_t>
      before;  // [position * slots + slot]: how many of the slot precede the position
  std::vector<uint32_t> position;  // [first[slot] + k]: position of the slot's k-th
  std::vector<uint32_t> first;     // [slot], and one more at the end

  uint32_t Before(uint32_t at, uint32_t slot) const {
    return before[static_cast<size_t>(at) * slots + slot];
  }
  uint32_t Position(uint32_t slot, uint32_t k) const { return position[first[slot] + k]; }
  uint32_t Number(uint32_t at) const { return Before(at, slot_at[at]); }  // its k
};

struct Member {
  uint32_t gpu;
  uint32_t slot;  // the group's slot at that GPU
};

// Numbers GPUs and groups from 0, in the configuration's order. Immutable once built.
struct Component {
  uint32_t gpus = 0;
  uint32_t groups = 0;
  uint64_t copies = 1;  // equal components in the configuration, including this one
  uint64_t total = 0;   // sum of the lists' lengths
  uint32_t collectives = 0;
  // True if one order of all collectives agrees with every list. If false, a deadlock needs no
  // disorder, and the shortcuts that start from a skip do not apply.
  bool common_order = true;

  std::vector<std::shared_ptr<const Profile>> profiles;  // owned
  std::vector<const Profile*> profile;                   // [gpu]
  std::vector<uint64_t> offset;        // [gpu], and one more: sum of the lengths ahead
  std::vector<uint32_t> slot_begin;    // [gpu], and one more
  std::vector<uint32_t> slot_group;    // [slot_begin[gpu] + slot]
  std::vector<uint32_t> member_begin;  // [group], and one more
  std::vector<Member> members;
  std::vector<uint32_t> count;      // [group]
  std::vector<uint32_t> first;      // [group], and one more: id of its first collective
  std::vector<uint32_t> rank;       // [collective]: position in the common order
  std::vector<uint32_t> gpu_names;  // [gpu]: as the configuration numbers it, of the first copy
  std::vector<uint32_t> group_names;

  uint32_t Group(uint32_t gpu, uint32_t slot) const { return slot_group[slot_begin[gpu] + slot]; }
  uint32_t Length(uint32_t gpu) const { return profile[gpu]->length; }
  uint32_t Collective(uint32_t gpu, uint32_t at) const {
    const Profile& p = *profile[gpu];
    return first[Group(gpu, p.slot_at[at])] + p.Number(at);
  }
  uint32_t GroupSize(uint32_t group) const { return member_begin[group + 1] - member_begin[group]; }
  const Member* MembersBegin(uint32_t group) const { return members.data() + member_begin[group]; }
  const Member* MembersEnd(uint32_t group) const {
    return members.data() + member_begin[group + 1];
  }
};

struct Problem {
  std::vector<Component> components;  // the distinct ones
  uint64_t component_count = 0;       // including copies
};

// Builds the problem of `config` (checked). `split` false: makes one component of everything, for
// the engine that draws random numbers GPU by GPU over all. Returns the error; empty if there is
// none.
std::string BuildProblem(const Config& config, bool split, Problem* problem);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_TOPOLOGY_H_
