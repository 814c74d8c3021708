#include "analyzer/explore/follow.h"

#include <algorithm>

namespace gordian::explore {

std::vector<Step> Follow(Explorable* state, const std::vector<Wish>& wishes) {
  std::vector<Step> path;
  while (true) {
    const std::vector<Actor> actors = state->Actors();
    const auto begun = [&](const Step& step) {
      const Actor& actor = actors[step.actor];
      return actor.at > step.call || (actor.at == step.call && actor.in_call);
    };
    size_t chosen = actors.size();
    for (size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].enabled) continue;
      const bool held =
          !actors[i].in_call && std::any_of(wishes.begin(), wishes.end(), [&](const Wish& wish) {
            return wish.later == Step{i, actors[i].at} && !begun(wish.before);
          });
      if (!held) {
        chosen = i;
        break;
      }
      if (chosen == actors.size()) chosen = i;
    }
    if (chosen == actors.size()) return path;
    path.push_back({chosen, actors[chosen].at});
    state->Move(chosen);
  }
}

}  // namespace gordian::explore
