#include "analyzer/model/verdict/comm_names.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace gordian::model {
namespace {

constexpr size_t kMostPieces = 6;   // of a list that is printed whole
constexpr size_t kFirstPieces = 4;  // of one that is cut

std::string Ordinal(size_t number) {
  const bool teen = number % 100 / 10 == 1;
  const size_t last = teen ? 0 : number % 10;
  return std::to_string(number) + (last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

// Of the communicator's lowest known member: the order in which that process made it.
CommId OrderMade(const Communicator& comm) {
  for (const CommMember& member : comm.members) {
    if (member.known) return member.comm;
  }
  return 0;
}

// The step of a list of at least four equally spaced ranks; else 0.
int Stride(const std::vector<int>& ranks) {
  if (ranks.size() < 4) return 0;
  const int step = ranks[1] - ranks[0];
  for (size_t i = 2; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != step) return 0;
  }
  return step;
}

}  // namespace

std::string MemberSet(const MemberRanks& members) {
  const std::vector<int>& ranks = members.ranks;
  std::vector<std::string> pieces;
  const auto text = [&](size_t at) { return std::to_string(ranks[at]); };
  if (Stride(ranks) > 1) {
    pieces = {text(0), text(1), "...", text(ranks.size() - 1)};
  } else {
    for (size_t from = 0; from < ranks.size();) {
      size_t to = from;
      while (to + 1 < ranks.size() && ranks[to + 1] == ranks[to] + 1) ++to;
      if (to < from + 2) to = from;  // a pair is shorter as two numbers
      pieces.push_back(to == from ? text(from) : text(from) + "-" + text(to));
      from = to + 1;
    }
    if (pieces.size() > kMostPieces) {
      pieces.resize(kFirstPieces);
      pieces.push_back("...");
    }
  }
  if (members.unseen > 0) pieces.push_back("?");
  std::string list;
  for (const std::string& piece : pieces) list += (list.empty() ? "" : ",") + piece;
  return "{" + list + "}";
}

int MakerOf(const Communicator& comm) {
  for (size_t member = 0; member < comm.members.size(); ++member) {
    if (comm.members[member].known && comm.members[member].made_at != 0)
      return static_cast<int>(member);
  }
  return -1;
}

std::vector<std::string> CommNames(const std::vector<Communicator>& comms,
                                   const std::vector<MemberRanks>& members) {
  std::map<std::string, size_t> given;
  for (const Communicator& comm : comms) {
    if (!comm.name.empty()) ++given[comm.name];
  }
  std::vector<std::string> names;
  std::map<std::string, std::vector<size_t>> alike;
  for (size_t i = 0; i < comms.size(); ++i) {
    const std::string& name = comms[i].name;
    const std::string kind = comms[i].host ? "group " : "comm ";
    names.push_back(name.empty()       ? kind + MemberSet(members[i])
                    : given[name] == 1 ? name
                                       : name + " " + MemberSet(members[i]));
    alike[names.back()].push_back(i);
  }
  for (auto& [name, indices] : alike) {
    std::sort(indices.begin(), indices.end(), [&](size_t a, size_t b) {
      return std::tuple(OrderMade(comms[a]), a) < std::tuple(OrderMade(comms[b]), b);
    });
    for (size_t i = 1; i < indices.size(); ++i) names[indices[i]] += " (" + Ordinal(i + 1) + ")";
  }
  return names;
}

}  // namespace gordian::model
