#include "train/rank_states.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace plimsoll {

RankStates::RankStates(const Session& session, const std::vector<std::string>& own)
    : session_(session), ranks_(*session.ranks()), piece_(kPieceBytes) {
  nlohmann::json mine = nlohmann::json::array();
  for (const std::string& name : own) {
    const TensorType type = session.state_type(name);
    mine.push_back({name, static_cast<int>(type.dtype), type.shape.elements()});
  }
  const std::vector<std::string> all = all_gather_texts(ranks_, mine.dump());
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (const nlohmann::json& each : nlohmann::json::parse(all[r])) {
      State& state = states_[each.at(0).get<std::string>()];
      state.elements.resize(all.size(), 0);
      state.dtype = static_cast<DType>(each.at(1).get<int>());
      state.elements[r] = each.at(2).get<std::int64_t>();
    }
  }
}

std::vector<std::string> RankStates::names() const {
  std::vector<std::string> names;
  names.reserve(states_.size());
  for (const auto& [name, state] : states_) names.push_back(name);
  return names;
}

void RankStates::read(const std::string& name, const std::function<void(std::span<const std::byte>)>& visit) const {
  const State& state = states_.at(name);
  const int me = ranks_.rank();
  for (int owner = 0; owner < ranks_.size(); ++owner) {
    auto left = static_cast<std::size_t>(state.elements[static_cast<std::size_t>(owner)]) * dtype_bytes(state.dtype);
    if (left == 0) continue;
    if (owner == me && me == 0) {
      session_.read_state(name, visit);
    } else if (owner == me) {
      std::size_t filled = 0;  // of the piece
      const auto send = [&] {
        ranks_.send(Communicator::kHostTicket, 0, std::span(piece_).first(filled));
        ranks_.wait(Communicator::kHostTicket);
        filled = 0;
      };
      session_.read_state(name, [&](std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
          const std::size_t count = std::min(bytes.size(), piece_.size() - filled);
          std::ranges::copy(bytes.first(count), piece_.begin() + static_cast<std::ptrdiff_t>(filled));
          filled += count;
          bytes = bytes.subspan(count);
          if (filled == piece_.size()) send();
        }
      });
      if (filled > 0) send();
    } else if (me == 0) {
      while (left > 0) {
        const std::span<std::byte> place = std::span(piece_).first(std::min(left, piece_.size()));
        ranks_.receive(Communicator::kHostTicket, owner, place);
        ranks_.wait(Communicator::kHostTicket);
        visit(place);
        left -= place.size();
      }
    }
  }
}

StateAccess RankStates::access() const {
  const auto before = [this](const std::string& name) {
    const std::vector<std::int64_t>& elements = states_.at(name).elements;
    return std::accumulate(elements.begin(), elements.begin() + ranks_.rank(), std::int64_t{0});
  };
  return {.type =
              [this](const std::string& name) {
                const State& state = states_.at(name);
                return TensorType{state.dtype,
                                  {std::accumulate(state.elements.begin(), state.elements.end(), std::int64_t{0})}};
              },
          .read = [this](const std::string& name, const auto& visit) { read(name, visit); },
          .fill =
              [this](const std::string& name, const auto& visit) {
                if (states_.at(name).elements[static_cast<std::size_t>(ranks_.rank())] > 0) {
                  session_.fill_state(name, visit);
                }
              },
          .first = [before](const std::string& name) { return static_cast<std::uint64_t>(before(name)); }};
}

}  // namespace plimsoll
