#include "testing/simulator/naive_judge.h"

#include <functional>
#include <map>
#include <set>

namespace gordian::simulator {
namespace {

struct Collectives {
  explicit Collectives(const std::vector<GroupSpec>& groups) {
    for (const GroupSpec& group : groups) {
      for (uint32_t k = 0; k < group.count; ++k) {
        members.emplace_back(group.gpus.begin(), group.gpus.end());
      }
    }
  }
  std::vector<std::set<int>> members;
};

}  // namespace

Sequences NaiveLists(const std::vector<GroupSpec>& groups, int gpus) {
  Sequences lists(static_cast<size_t>(gpus));
  std::vector<int> first;
  int next = 0;
  uint32_t most = 0;
  for (const GroupSpec& group : groups) {
    first.push_back(next);
    next += static_cast<int>(group.count);
    most = group.count > most ? group.count : most;
  }
  for (uint32_t k = 0; k < most; ++k) {
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const uint32_t gpu : groups[g].gpus) {
        if (k < groups[g].count) {
          lists[gpu].push_back(first[g] + static_cast<int>(k));
        }
      }
    }
  }
  return lists;
}

bool NaiveDeadlock(const std::vector<GroupSpec>& groups, const Sequences& sequences, int capacity) {
  const Collectives collectives(groups);
  std::map<int, std::set<int>> started;  // by collective
  std::vector<size_t> at(sequences.size(), 0);
  const auto complete = [&](int c) { return started[c].size() == collectives.members[c].size(); };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t u = 0; u < sequences.size(); ++u) {
      if (at[u] == sequences[u].size()) {
        continue;
      }
      int open = 0;
      for (size_t i = 0; i < at[u]; ++i) {
        open += sequences[u][i] != kWait && !complete(sequences[u][i]) ? 1 : 0;
      }
      const int next = sequences[u][at[u]];
      if (next == kWait ? open > 0 : capacity > 0 && open >= capacity) {
        continue;
      }
      if (next != kWait) {
        started[next].insert(static_cast<int>(u));
      }
      ++at[u];
      moved = true;
    }
  }
  for (size_t u = 0; u < sequences.size(); ++u) {
    if (at[u] < sequences[u].size()) {
      return true;
    }
  }
  return false;
}

bool NaiveTurns(const std::vector<GroupSpec>& groups, const Sequences& sequences, bool ring) {
  const Collectives collectives(groups);
  const size_t gpus = sequences.size();
  std::map<int, std::set<int>> started;
  std::vector<size_t> at(gpus, 0);
  std::vector<bool> hung(gpus, false);
  std::vector<std::set<int>> s(gpus);
  std::vector<std::set<int>> u_of(gpus);
  for (size_t u = 0; u < gpus; ++u) {
    for (const int c : sequences[u]) {
      if (c != kWait) {
        u_of[u].insert(c);
      }
    }
  }
  const auto meet = [](const std::set<int>& a, const std::set<int>& b) {
    for (const int c : a) {
      if (b.contains(c)) {
        return true;
      }
    }
    return false;
  };
  const auto found = [&](size_t n) {
    if (!ring) {
      bool holds = false;
      bool lacks = false;
      for (size_t h = 0; h < gpus; ++h) {
        if (h != n && hung[h]) {
          holds |= meet(s[n], u_of[h]);
          lacks |= meet(u_of[n], s[h]);
        }
      }
      return holds && lacks;
    }
    std::set<size_t> seen;
    const std::function<bool(size_t)> leads_back = [&](size_t g) {
      for (size_t h = 0; h < gpus; ++h) {
        if (h == g || !hung[h] || !meet(s[g], u_of[h])) {
          continue;
        }
        if (h == n || (seen.insert(h).second && leads_back(h))) {
          return true;
        }
      }
      return false;
    };
    return leads_back(n);
  };
  bool going = true;
  while (going) {
    going = false;
    for (size_t u = 0; u < gpus; ++u) {
      // Behind its last collective a GPU does not wait again.
      if (u_of[u].empty()) {
        continue;
      }
      going = true;
      if (hung[u]) {
        continue;
      }
      const int next = sequences[u][at[u]++];
      if (next == kWait) {
        if (!s[u].empty()) {
          hung[u] = true;
          if (found(u)) {
            return true;
          }
        }
        continue;
      }
      u_of[u].erase(next);
      s[u].insert(next);
      started[next].insert(static_cast<int>(u));
      if (started[next].size() == collectives.members[static_cast<size_t>(next)].size()) {
        for (const int member : collectives.members[static_cast<size_t>(next)]) {
          s[member].erase(next);
          hung[member] = hung[member] && !s[member].empty();
        }
      }
    }
  }
  return false;
}

}  // namespace gordian::simulator
