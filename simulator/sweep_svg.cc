#include "simulator/sweep_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "simulator/sampling/interval.h"
#include "simulator/text.h"

namespace gordian::simulator {
namespace {

constexpr double kLeft = 80;
constexpr double kTop = 30;
constexpr double kWidth = 560;
constexpr double kHeight = 360;
constexpr double kLegend = 220;
constexpr std::array kColors = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

// Maps values to a range of the picture.
class Axis {
 public:
  Axis(double low, double high, double from, double to)
      : log_(low > 0), low_(Scale(low)), high_(Scale(high)), from_(from), to_(to) {
    if (high_ <= low_) {
      high_ = low_ + 1;
    }
  }
  double At(double value) const {
    return from_ + (to_ - from_) * (Scale(value) - low_) / (high_ - low_);
  }
  // Powers of ten, or a few round steps.
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    if (log_) {
      for (double e = std::ceil(low_ - 1e-9); e <= high_ + 1e-9; ++e) {
        ticks.push_back(std::pow(10, e));
      }
      if (ticks.size() < 2) {
        ticks = {std::pow(10, low_), std::pow(10, high_)};
      }
      return ticks;
    }
    for (int i = 0; i <= 4; ++i) {
      ticks.push_back(low_ + (high_ - low_) * i / 4);
    }
    return ticks;
  }

 private:
  double Scale(double value) const { return log_ ? std::log10(value) : value; }
  bool log_;
  double low_;
  double high_;
  double from_;
  double to_;
};

std::string Line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + Digits(x1, 6) + "\" y1=\"" + Digits(y1, 6) + "\" x2=\"" + Digits(x2, 6) +
         "\" y2=\"" + Digits(y2, 6) + "\" " + style + "/>\n";
}

std::string Label(double x, double y, const char* anchor, const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return "<text x=\"" + Digits(x, 6) + "\" y=\"" + Digits(y, 6) + "\" text-anchor=\"" + anchor +
         "\">" + safe + "</text>\n";
}

struct Spot {
  double x;
  double ratio;
  Interval interval;
};

}  // namespace

std::string SweepToSvg(const Sweep& sweep, const SweepOptions& options, const SweepCounts& counts) {
  // The numeric key with the most values.
  size_t axis = 0;
  size_t most = 0;
  for (size_t k = 0; k < sweep.keys.size(); ++k) {
    std::set<std::string> values;
    bool numeric = true;
    for (const SweepPoint& point : sweep.points) {
      values.insert(point.values[k].dump());
      numeric &= point.values[k].is_number();
    }
    if (numeric && values.size() > most) {
      most = values.size();
      axis = k;
    }
  }
  std::map<std::string, std::vector<Spot>> lines;  // by name, whose first letter is the detector's
  double low_x = INFINITY;
  double high_x = -INFINITY;
  double low_y = 1;
  double high_y = 0;
  for (size_t c = 0; c < sweep.points.size(); ++c) {
    const std::vector<nlohmann::json>& values = sweep.points[c].values;
    if (!values[axis].is_number()) {
      continue;
    }
    std::string others;
    for (size_t k = 0; k < values.size(); ++k) {
      if (k != axis) {
        others +=
            " " + sweep.keys[k] + "=" +
            (values[k].is_number_float() ? Digits(values[k].get<double>()) : values[k].dump());
      }
    }
    const int64_t rounds = counts.points[c].blocks * kSweepBlock;
    for (const auto& [name, asked, hits] :
         {std::tuple{"exact", options.wanted.exact, counts.points[c].exact},
          {"default", options.wanted.by_default, counts.points[c].by_default}}) {
      if (!asked || hits == 0 || rounds == 0) {
        continue;
      }
      const Spot spot{values[axis].get<double>(),
                      static_cast<double>(hits) / static_cast<double>(rounds),
                      WilsonInterval(hits, rounds)};
      lines[name + others].push_back(spot);
      low_y = std::min(low_y, spot.interval.low);
      high_y = std::max(high_y, spot.interval.high);
    }
    low_x = std::min(low_x, values[axis].get<double>());
    high_x = std::max(high_x, values[axis].get<double>());
  }
  const double total_width = kLeft + kWidth + kLegend;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + Digits(total_width, 6) +
                    "\" height=\"" + Digits(kTop + kHeight + 60, 6) +
                    "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" "
                    "height=\"100%\" fill=\"white\"/>\n";
  if (!counts.complete()) {
    svg += Label(kLeft, kTop - 10, "start", "INCOMPLETE");
  }
  if (lines.empty()) {
    return svg + Label(kLeft, kTop + 20, "start", "no deadlock found") + "</svg>\n";
  }
  const Axis x(low_x, high_x, kLeft, kLeft + kWidth);
  const Axis y(low_y, high_y, kTop + kHeight, kTop);
  for (const double tick : x.Ticks()) {
    svg += Line(x.At(tick), kTop, x.At(tick), kTop + kHeight, "stroke=\"#ddd\"");
    svg += Label(x.At(tick), kTop + kHeight + 16, "middle", Digits(tick));
  }
  for (const double tick : y.Ticks()) {
    svg += Line(kLeft, y.At(tick), kLeft + kWidth, y.At(tick), "stroke=\"#ddd\"");
    svg += Label(kLeft - 6, y.At(tick) + 4, "end", Digits(tick * 100) + " %");
  }
  svg += Label(kLeft + kWidth / 2, kTop + kHeight + 40, "middle", sweep.keys[axis]);
  svg += Label(kLeft, kTop - 10 + (counts.complete() ? 0 : -8), "start",
               counts.complete() ? "rounds that deadlock" : "");
  size_t number = 0;
  for (const auto& [name, spots] : lines) {
    const std::string color = kColors[number % kColors.size()];
    const std::string dash = name.starts_with("default") ? "\" stroke-dasharray=\"5 4" : "";
    const std::string style = "stroke=\"" + color + dash + "\" stroke-width=\"1.5\"";
    for (size_t i = 0; i < spots.size(); ++i) {
      const double at = x.At(spots[i].x);
      if (i > 0) {
        svg +=
            Line(x.At(spots[i - 1].x), y.At(spots[i - 1].ratio), at, y.At(spots[i].ratio), style);
      }
      svg += Line(at, y.At(spots[i].interval.low), at, y.At(spots[i].interval.high),
                  "stroke=\"" + color + "\"");
      svg += "<circle cx=\"" + Digits(at, 6) + "\" cy=\"" + Digits(y.At(spots[i].ratio), 6) +
             "\" r=\"2.5\" fill=\"" + color + "\"/>\n";
    }
    const double row = kTop + 12 + 16 * static_cast<double>(number);
    svg += Line(kLeft + kWidth + 10, row - 4, kLeft + kWidth + 34, row - 4, style);
    svg += Label(kLeft + kWidth + 40, row, "start", name);
    ++number;
  }
  return svg + "</svg>\n";
}

}  // namespace gordian::simulator
