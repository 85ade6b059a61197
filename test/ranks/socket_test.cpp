// Ranks that are connected by TCP, here threads of the test: who meets, who is sent away, and messages between them.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "ranks/rendezvous.h"
#include "ranks/socket_communicator.h"
#include "support/forked_ranks.h"

namespace plimsoll::test {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;
using testing::HasSubstr;

ReadVariable variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) {
    const auto found = all.find(name);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Rendezvous, IsBehindTheMastersPortOrAsTyped) {
  const auto torchrun = variables({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(find_rendezvous("", torchrun).text(), "node1:29501");
  EXPECT_EQ(find_rendezvous("", variables({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "65535"}})).port, 65534);
  EXPECT_EQ(find_rendezvous("node2:1234", torchrun).text(), "node2:1234");
  const Rendezvous six = find_rendezvous("[fe80::1]:77", torchrun);
  EXPECT_EQ(six.host, "fe80::1");
  EXPECT_EQ(six.text(), "[fe80::1]:77");
  for (const char* typed : {"node2", ":1", "node2:", "node2:0", "node2:65536", "node2:x"}) {
    EXPECT_THROW(find_rendezvous(typed, torchrun), UsageError) << typed;
  }
  EXPECT_THROW(find_rendezvous("", variables({{"MASTER_ADDR", "a"}})), UsageError);
  EXPECT_THROW(find_rendezvous("", variables({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "p"}})), UsageError);
}

Launch launch_of(int rank, int size) {
  return {.launcher = Launcher::kTorchrun, .rank = rank, .size = size, .local_rank = rank, .local_size = size};
}
Rendezvous here(int port) { return {.host = "127.0.0.1", .port = port, .from = "the test"}; }

// Runs a rank in each thread; returns what it says, or what it throws.
std::vector<std::string> with_ranks(int count, const std::function<std::string(Communicator&)>& body,
                                    const SocketOptions& options = {.timeout = seconds(60)}) {
  const Rendezvous place = here(free_port());
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& mine = said[static_cast<std::size_t>(rank)];
      try {
        const auto ranks = connect_by_sockets(launch_of(rank, count), place, options);
        mine = body(*ranks);
      } catch (const Error& error) {
        mine = error.problem().what + " | " + error.problem().found;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(Sockets, EveryRankHearsAllOthers) {
  for (const int count : {2, 5}) {
    const auto said = with_ranks(count, [](Communicator& ranks) {
      std::string all;
      for (const std::string& text :
           all_gather_texts(ranks, std::string(static_cast<std::size_t>(ranks.rank()), 'x'))) {
        all += text + ".";
      }
      barrier(ranks);
      return all + broadcast_text(ranks, "rank " + std::to_string(ranks.rank())) +
             (ranks.host(0) == ranks.host(ranks.size() - 1) && !ranks.host(0).empty() ? "" : " hosts");
    });
    std::string expected;
    for (int r = 0; r < count; ++r) expected += std::string(static_cast<std::size_t>(r), 'x') + ".";
    for (const std::string& each : said) EXPECT_EQ(each, expected + "rank 0");
  }
}

// Messages of several tickets, large and empty and shorter than their place, arrive in order, whatever is waited for.
TEST(Sockets, MessagesArriveInOrder) {
  constexpr std::size_t kLarge = 5 << 20;
  const auto said = with_ranks(2, [](Communicator& ranks) {
    ranks.reserve(4);
    const int other = 1 - ranks.rank();
    std::vector<std::byte> large(kLarge, std::byte(ranks.rank() + 1)), arrived(kLarge);
    std::int32_t small = 7 + ranks.rank(), small_arrived = 0;
    std::array<std::byte, 100> shorter{};
    ranks.receive(1, other, arrived);
    ranks.receive(2, other, shorter);
    ranks.receive(3, other, std::as_writable_bytes(std::span(&small_arrived, 1)));
    ranks.send(1, other, large);
    ranks.send(2, other, {});
    ranks.send(3, other, std::as_bytes(std::span(&small, 1)));
    ranks.wait(3);
    ranks.wait(2);
    ranks.wait(1);
    const bool whole = std::ranges::all_of(arrived, [&](std::byte b) { return b == std::byte(other + 1); });
    return std::to_string(small_arrived) + (whole ? " whole" : " torn") + " " +
           std::to_string(ranks.traffic().sent_bytes == kLarge + sizeof small);
  });
  EXPECT_EQ(said[0], "8 whole 1");
  EXPECT_EQ(said[1], "7 whole 1");
}

TEST(Sockets, ManyMessagesAreBegunBeforeAnyIsWaitedFor) {
  const auto said = with_ranks(2, [](Communicator& ranks) {
    constexpr int kCount = 10000;  // more than there is room for at a time
    std::vector<int> sent(kCount), received(kCount);
    std::iota(sent.begin(), sent.end(), 100 * ranks.rank());
    for (int i = 0; i < kCount; ++i) {
      ranks.receive(0, 1 - ranks.rank(), std::as_writable_bytes(std::span(&received[static_cast<std::size_t>(i)], 1)));
      ranks.send(0, 1 - ranks.rank(), std::as_bytes(std::span(&sent[static_cast<std::size_t>(i)], 1)));
    }
    ranks.wait(0);
    return std::to_string(received.front()) + " " + std::to_string(received.back());
  });
  EXPECT_EQ(said[0], "100 10099");
  EXPECT_EQ(said[1], "0 9999");
}

TEST(Sockets, ARankThatFailsTellsTheOthers) {
  const auto said = with_ranks(3, [](Communicator& ranks) {
    if (ranks.rank() == 1) {
      ranks.fail({.what = "the disk is full"}, ExitCode::kData);
      return std::string();
    }
    try {
      barrier(ranks);
    } catch (const RankError& error) {
      return error.problem().what + " " + std::to_string(static_cast<int>(error.exit_code_of_rank()));
    }
    return std::string("nothing");
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(said[static_cast<std::size_t>(rank)], HasSubstr("rank 1 on "));
    EXPECT_THAT(said[static_cast<std::size_t>(rank)], HasSubstr("has failed: the disk is full 3"));
  }
}

TEST(Sockets, ARankThatSaysNothingIsNamed) {
  const auto said = with_ranks(2,
                               [](Communicator& ranks) {
                                 if (ranks.rank() == 1) {
                                   std::this_thread::sleep_for(milliseconds(1500));
                                   return std::string();
                                 }
                                 barrier(ranks);
                                 return std::string("nothing");
                               },
                               {.timeout = milliseconds(400)});
  EXPECT_THAT(said[0], HasSubstr("rank 1 on "));
  EXPECT_THAT(said[0], HasSubstr("said nothing for"));
}

// A rank that is killed leaves connections that the system closes.
TEST(Sockets, ARankThatIsKilledIsNamedAtOnce) {
  auto all = start_ranks(2, [](Communicator& ranks) {
    if (ranks.rank() == 1) ::kill(::getpid(), SIGKILL);
    barrier(ranks);
    return std::string("nothing");
  });
  const auto begin = std::chrono::steady_clock::now();
  const std::string said = all[0].wait();
  EXPECT_THAT(said, HasSubstr("rank 1 on "));
  EXPECT_THAT(said, HasSubstr("has ended"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
}

TEST(Sockets, SomebodyWhoIsMissingIsNamed) {
  const int port = free_port();
  std::thread second(
      [&] { EXPECT_THROW(meet(launch_of(1, 3), here(port), {.timeout = milliseconds(1500)}), EnvironmentError); });
  try {
    meet(launch_of(0, 3), here(port), {.timeout = milliseconds(1000)});
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.problem().what, HasSubstr("not all ranks have come"));
    EXPECT_THAT(error.problem().found, HasSubstr("rank 2"));
  }
  second.join();
}

TEST(Sockets, NobodyAtTheAddressIsSaid) {
  try {
    meet(launch_of(1, 2), here(free_port()), {.timeout = milliseconds(300)});
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.problem().what, HasSubstr("nobody answers"));
    EXPECT_THAT(error.problem().where, HasSubstr("127.0.0.1"));
  }
}

// Listens at a port, and does what `answers` says with the first connection.
class Stranger {
 public:
  explicit Stranger(const std::string& answer) : port_(free_port()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket_.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::listen(socket_.file(), 8);
    thread_ = std::thread([this, answer] {
      const Socket one(::accept(socket_.file(), nullptr, nullptr));
      const Socket two(answer.empty() ? -1 : ::accept(socket_.file(), nullptr, nullptr));
      ::send(one.file(), answer.data(), answer.size(), MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(200));
    });
  }
  ~Stranger() {
    if (!thread_.joinable()) return;
    // Ends the wait for a connection that did not come.
    ::shutdown(socket_.file(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  int port_;
  Socket socket_;
  std::thread thread_;
};

TEST(Sockets, AnAddressInUseIsSaid) {
  const Stranger stranger("");
  try {
    meet(launch_of(0, 2), here(stranger.port()), {.timeout = seconds(5)});
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.problem().what, HasSubstr("is in use"));
    EXPECT_THAT(error.problem().remedy, HasSubstr("--rendezvous"));
  }
}

TEST(Sockets, AnotherProtocolIsRefusedByARank) {
  const Stranger stranger("HTTP/1.1 400 Bad Request\r\n\r\n");
  try {
    meet(launch_of(1, 2), here(stranger.port()), {.timeout = seconds(5)});
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.problem().what, HasSubstr("something else than rank 0 listens"));
  }
}

// Whoever speaks another protocol, says nothing, or belongs to another run does not keep the ranks from meeting.
TEST(Sockets, StrangersAreSentAway) {
  const int port = free_port();
  std::vector<Meeting> met;
  std::thread first([&] { met = meet(launch_of(0, 2), here(port), {.timeout = seconds(30), .run = "mine"}); });
  const auto connected = [&] {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 1000; ++i) {
      Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return Socket();
  };
  const Socket silent = connected(), browser = connected();
  constexpr std::string_view kRequest = "GET / HTTP/1.1\r\n\r\n";
  ::send(browser.file(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
  char any = 0;
  EXPECT_LE(::recv(browser.file(), &any, 1, 0), 0) << "it is sent away";
  for (const auto& [launch, run, why] :
       {std::tuple(launch_of(1, 2), "another", "another run"), {launch_of(1, 3), "mine", "where 2 ranks meet"}}) {
    try {
      meet(launch, here(port), {.timeout = seconds(10), .run = run});
      ADD_FAILURE();
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.problem().what, HasSubstr("rank 0 has refused this rank"));
      EXPECT_THAT(error.problem().found, HasSubstr(why));
    }
  }
  const std::vector<Meeting> mine = meet(launch_of(1, 2), here(port), {.timeout = seconds(30), .run = "mine"});
  first.join();
  EXPECT_TRUE(mine[0].messages);
  EXPECT_TRUE(mine[0].signals);
  ASSERT_EQ(met.size(), 2U);
  EXPECT_TRUE(met[1].messages);
  EXPECT_EQ(met[1].host, mine[1].host);
}

}  // namespace
}  // namespace plimsoll::test
