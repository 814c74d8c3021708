#include "replayer/reduce/fold.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "replayer/reduce/minimizer_cuts.h"

namespace gordian::replayer {
namespace {

// "tp" for "tp0" and "tp_1": jobs number their groups of one kind.
std::string Kind(std::string name) {
  while (!name.empty() &&
         (std::isdigit(static_cast<unsigned char>(name.back())) != 0 || name.back() == '_'))
    name.pop_back();
  return name;
}

}  // namespace

StatusOr<Schedule> Fold(const Schedule& schedule, const std::string& name, size_t members) {
  std::set<int> kept, gone;
  std::set<std::string> names;
  size_t most = 0;
  for (const Communicator& comm : schedule.comms) {
    names.insert(comm.label.empty() ? comm.name : comm.label);
    if (comm.label != name && comm.name != name && Kind(comm.label) != name &&
        Kind(comm.name) != name)
      continue;
    most = std::max(most, comm.members.size());
    for (size_t i = 0; i < comm.members.size(); ++i) {
      if (comm.members[i] >= 0) (i < members ? kept : gone).insert(comm.members[i]);
    }
  }
  if (most == 0) {
    std::string all;
    for (const std::string& other : names) all += (all.empty() ? "" : ", ") + other;
    return Status::InvalidArgument("no communicator is called " + name + "; there are " +
                                   (all.empty() ? "none" : all));
  }
  if (members == 0 || members >= most) {
    return Status::InvalidArgument("communicators called " + name + " have " +
                                   std::to_string(most) + " members: name a number from 1 to " +
                                   std::to_string(most - 1));
  }
  for (const int rank : kept) gone.erase(rank);
  Schedule folded = WithoutRanks(schedule, gone);
  folded.origin.notes.push_back(name + " folded from " + std::to_string(most) + " members to " +
                                std::to_string(members) + ": " +
                                std::to_string(folded.ranks.size()) + " of " +
                                std::to_string(schedule.ranks.size()) + " ranks");
  return folded;
}

}  // namespace gordian::replayer
