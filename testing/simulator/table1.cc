#include "testing/simulator/table1.h"

namespace gordian::simulator {

Config Megatron(int64_t tp, int64_t dp, int64_t stages, int64_t per_tp, int64_t per_dp) {
  Config config;
  config.megatron = true;
  config.tp_group_size = tp;
  config.dp_group_size = dp;
  config.pp_group_size = stages;
  config.coll_cnt_per_tp_group = per_tp;
  config.coll_cnt_per_dp_group = per_dp;
  return config;
}

namespace {

uint32_t CountOf(size_t group) { return group % 2 == 0 ? 400 : 1200; }

}  // namespace

Config Free64(uint32_t times) {
  Config config;
  config.gpu_num = 64;
  for (uint32_t g = 0; g < 28; ++g) {
    config.groups.push_back(
        {{(4 * g + 7) % 64, (28 * g + 33) % 64, (46 * g + 18) % 64}, CountOf(g) * times});
  }
  for (uint32_t j = 0; j < 4; ++j) {
    GroupSpec group{{}, CountOf(28 + j) * times};
    for (uint32_t k = 0; k < 8; ++k) {
      group.gpus.push_back((59 * j + 41 * k) % 64);
    }
    config.groups.push_back(group);
  }
  return config;
}

Config Free128() {
  Config config;
  config.gpu_num = 128;
  for (uint32_t g = 0; g < 28; ++g) {
    config.groups.push_back(
        {{4 * g, 4 * g + 1, 4 * g + 2, 4 * g + 3, (102 * g + 27) % 128}, CountOf(g)});
  }
  for (uint32_t j = 0; j < 4; ++j) {
    GroupSpec group{{}, CountOf(28 + j)};
    for (uint32_t k = 0; k < 4; ++k) {
      group.gpus.push_back(112 + 4 * j + k);
    }
    for (uint32_t k = 0; k < 6; ++k) {
      group.gpus.push_back((12 * j + 70 * k + 41) % 128);
    }
    config.groups.push_back(group);
  }
  return config;
}

Config OneGroup() {
  Config config;
  config.gpu_num = 8;
  config.groups = {{{0, 1, 2, 3, 4, 5, 6, 7}, 161}};
  return config;
}

Config With(Config config, Model model, double p, double q) {
  config.model = model;
  config.disorder_prob = p;
  config.sync_prob = q;
  return config;
}

Config ShippedMegatron() {
  return With(Megatron(2, 2, 2, 10, 10), Model::kStreamWithSync, 0.1, 0.1);
}

Config ShippedArbitrary(int64_t resource_limit) {
  Config config;
  config.gpu_num = 8;
  config.groups = {{{0, 1, 2}, 10}, {{2, 3, 5}, 9}, {{4, 5, 6}, 8}, {{6, 7, 0, 1, 3}, 7}};
  config.resource_limit = resource_limit;
  return With(config, Model::kStreamWithSync, 0.1, 0.1);
}

std::vector<Row> Table1() {
  const Model single = Model::kSingle;
  const Model sync = Model::kStreamWithSync;
  const Config small = Megatron(4, 4, 4, 400, 1200);
  const Config large = Megatron(8, 6, 64, 400, 1200);
  const auto around = [](double ratio, double relative) {
    return Known{ratio, ratio * (1 - relative), ratio * (1 + relative)};
  };
  const Known all{100, 100, 100};
  return {
      {"A1", With(small, single, 1e-7, 0), {0.523, 0.492, 0.556}, {0.513, 0.500, 0.528}, 3.3},
      {"A2", With(small, single, 1e-6, 0), {4.952, 4.858, 5.048}, {4.981, 4.960, 5.003}, 3.3},
      {"A3", With(large, single, 1e-9, 0), {}, around(0.2455, 0.001), 0.054},
      {"A4", With(large, single, 1e-8, 0), {}, around(2.428, 0.001), 0.054},
      {"A5", With(OneGroup(), single, 1e-5, 0), {1.269, 1.253, 1.284}, {1.268, 1.253, 1.284}, 864},
      {"A6", With(Free64(), single, 1e-6, 0), all, {7.73, 7.65, 7.81}, 0},
      {"A7", With(Free128(), single, 1e-5, 0), all, {65.6, 65.3, 66.0}, 0},
      {"A8", With(Free128(), single, 1e-6, 0), all, {10.09, 9.96, 10.22}, 0},
      {"B1", With(small, sync, 2e-3, 4e-3), {0.778, 0.761, 0.795}, {0.485, 0.471, 0.499}, 0},
      {"B2", With(small, sync, 4e-3, 4e-3), {1.306, 1.284, 1.328}, {1.014, 0.995, 1.034}, 1.46},
      {"B3", With(small, sync, 4e-3, 2e-3), {0.267, 0.257, 0.278}, {0.255, 0.245, 0.265}, 0},
      {"B4",
       With(Megatron(4, 4, 4, 800, 2400), sync, 4e-3, 4e-3),
       {3.067, 3.019, 3.115},
       {1.978, 1.940, 2.017},
       0},
      {"B5", With(large, sync, 8e-4, 8e-4), {0.663, 0.624, 0.705}, {0.627, 0.620, 0.634}, 0.022},
      {"B6",
       With(Free64(), sync, 4e-6, 4e-5),
       {0.4824, 0.4781, 0.4867},
       around(1.480e-7, 0.007),
       1.48},
      {"B7",
       With(Free64(), sync, 4e-5, 4e-5),
       {0.4822, 0.4779, 0.4865},
       around(1.480e-6, 0.007),
       1.48},
      {"B8",
       With(Free64(), sync, 4e-5, 8e-5),
       {3.2139, 3.2030, 3.2249},
       around(5.920e-6, 0.007),
       1.48},
      {"B9",
       With(Free64(2), sync, 4e-5, 4e-5),
       {3.2269, 3.2159, 3.2378},
       around(2.958e-6, 0.007),
       0},
      {"B10",
       With(Free128(), sync, 4e-5, 4e-5),
       {1.1975, 1.1908, 1.2043},
       around(4.727e-6, 0.0045),
       0},
  };
}

Interval Wide(const Known& known) {
  const double more = kZ999 / kZ95;
  return {known.ratio - (known.ratio - known.low) * more,
          known.ratio + (known.high - known.ratio) * more};
}

}  // namespace gordian::simulator
