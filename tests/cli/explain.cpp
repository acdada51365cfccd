#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "ringlet/models/config.h"
#include "ringlet/tests/cli/program.h"

TEST_SUITE_BEGIN("host");

namespace {

struct Drawn {
  int step, from, to, piece;
  bool added;
};

/// Executes the transfers that were drawn. Whether every rank then has the values of every rank
/// once, in each piece.
bool all_sums_complete(const std::vector<Drawn>& transfers, int ranks) {
  using Held = std::map<std::pair<int, int>, std::multiset<int>>;  // by rank and piece
  Held held;
  for (int rank = 0; rank < ranks; ++rank)
    for (int piece = 0; piece < ranks; ++piece) held[{rank, piece}] = {rank};
  int step = -1;
  Held before;
  for (const Drawn& one : transfers) {
    if (one.step != step) before = held;
    step = one.step;
    std::multiset<int>& there = held[{one.to, one.piece}];
    if (!one.added) there.clear();
    there.merge(std::multiset<int>(before[{one.from, one.piece}]));
  }
  std::multiset<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.insert(rank);
  return std::ranges::all_of(held, [&](const auto& each) { return each.second == all; });
}

std::vector<Drawn> transfers_in_text(const std::string& text) {
  std::vector<Drawn> found;
  std::istringstream lines(text);
  int step = -1;
  for (std::string line; std::getline(lines, line);) {
    Drawn one{};
    std::array<char, 8> verb{};
    std::sscanf(line.c_str(), "step %d", &step);
    if (std::sscanf(line.c_str(), "  rank %d -> %d  piece %d  %6[a-z]", &one.from, &one.to,
                    &one.piece, verb.data()) != 4)
      continue;
    one.step = step;
    one.added = std::string(verb.data()) == "added";
    found.push_back(one);
  }
  return found;
}

/// From the coordinates of its lines: columns are ranks, rows are steps.
std::vector<Drawn> transfers_in_svg(const std::string& svg, int ranks) {
  std::map<double, int> columns, rows;
  std::vector<Drawn> found;
  std::istringstream lines(svg);
  for (std::string line, label; std::getline(lines, line);) {
    double x1 = 0, y1 = 0, x2 = 0;
    if (std::sscanf(line.c_str(), R"(<line class="grid" x1="%lf")", &x1) == 1)
      columns.emplace(x1, static_cast<int>(columns.size()));
    if (std::sscanf(line.c_str(), R"(<line class="line c%*[^"]" x1="%lf" y1="%lf" x2="%lf")", &x1,
                    &y1, &x2) != 3)
      continue;
    const int step = rows.emplace(y1, static_cast<int>(rows.size())).first->second;
    REQUIRE(std::getline(lines, label));
    const int piece = std::stoi(label.substr(label.find('>') + 1));
    found.push_back(
        {step, columns.at(x1) % ranks, columns.at(x2) % ranks, piece, step < ranks - 1});
  }
  return found;
}

/// The numbers of the line that begins with `strategy`.
std::vector<double> row(const std::string& table, const std::string& strategy) {
  const auto at = table.find("\n" + strategy + " ");
  REQUIRE(at != table.npos);
  std::istringstream line(table.substr(at + 1 + strategy.size(), 200));
  std::vector<double> numbers;
  for (double number; numbers.size() < 8 && line >> number;) numbers.push_back(number);
  REQUIRE_EQ(numbers.size(), 8);
  return numbers;
}

}  // namespace

TEST_CASE("the transfers that explain ring prints and draws give every rank every sum") {
  const TemporaryFolder folder;
  for (const int ranks : {2, 3, 4, 7, 16}) {
    CAPTURE(ranks);
    const std::string file = (folder / "ring.svg").string();
    const Outcome outcome = run(str("explain ring -n ", ranks, " --svg ", file));
    REQUIRE_EQ(outcome.code, 0);
    const std::vector<Drawn> printed = transfers_in_text(outcome.out);
    CHECK_EQ(std::ssize(printed), 2 * ranks * (ranks - 1));
    CHECK(all_sums_complete(printed, ranks));
    CHECK_FALSE(all_sums_complete({printed.begin(), printed.end() - 1}, ranks));
    const std::string svg = ringlet::read_file(file);
    const std::vector<Drawn> drawn = transfers_in_svg(svg, ranks);
    CHECK_EQ(drawn.size(), printed.size());
    CHECK(all_sums_complete(drawn, ranks));
    CHECK_EQ(count(svg, ">✓<"), ranks * ranks);  // each piece on each rank
    CHECK_EQ(count(outcome.out, ", complete\n"), ranks * ranks);
    if (ranks == 4) CHECK_EQ(svg, ringlet::read_file(ringlet::tests_file("../docs/ring.svg")));
  }
}

TEST_CASE("explain tree prints every sum, the rank that adds it, and what ranks send") {
  CHECK_EQ(run("explain tree --logical-ranks 8 -n 3").out,
           "8 logical ranks on 3 ranks\n"
           "sum                   added by\n"
           "0-7                   each piece's owner\n"
           "  0-3                 each piece's owner\n"
           "    0-1               rank 0\n"
           "      0               of rank 0\n"
           "      1               of rank 0\n"
           "    2-3               rank 1\n"
           "      2               of rank 1\n"
           "      3               of rank 1\n"
           "  4-7                 each piece's owner\n"
           "    4-5               each piece's owner\n"
           "      4               of rank 1\n"
           "      5               of rank 2\n"
           "    6-7               rank 2\n"
           "      6               of rank 2\n"
           "      7               of rank 2\n"
           "rank 0 has 0-1 and brings 0-1; it sends 1.333 times the buffer\n"
           "rank 1 has 2-4 and brings 2-3, 4; it sends 2 times the buffer\n"
           "rank 2 has 5-7 and brings 5, 6-7; it sends 2 times the buffer\n");
  check_refused("explain tree --logical-ranks 2 -n 3",
                "--logical-ranks 2: expected at least --ranks 3");
}

TEST_CASE("explain fsdp has the bytes of each strategy") {
  const Outcome outcome = run("explain fsdp --model mpnet-base -n 8");
  REQUIRE_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  CHECK(contains(outcome.out, "mpnet-base: 108895872 parameters in 14 units, 435.6 MB; 8 ranks"));
  constexpr double kAll = 435.583488, kMoved = kAll * 7 / 8;  // MB
  constexpr int kSent = 2, kKept = 7;                         // columns
  const auto near = [](double value) { return doctest::Approx(value).epsilon(0.01); };
  CHECK(contains(outcome.out,
                 "--redundancy 1 sends 163.7 MB more under a strategy that shards, and "
                 "keeps up to 654.9 MB more.\n"));  // 3 and 12 values in 8 shards
  struct Expected {
    const char* strategy;
    double rounds;  // of P (n - 1) / n
    double kept;    // bytes per parameter
  };
  for (const Expected& each : {Expected{"ddp", 2, 16}, Expected{"zero1", 2, 8 + 8.0 / 8},
                               Expected{"zero2", 2, 4 + 12.0 / 8}, Expected{"fsdp", 3, 16.0 / 8}}) {
    CAPTURE(each.strategy);
    const std::vector<double> figures = row(outcome.out, each.strategy);
    CHECK_EQ(figures[kSent], near(each.rounds * kMoved));
    CHECK_EQ(figures[kKept] - figures[kKept - 1], near(each.kept * kAll / 4));  // no whole units
  }
}

/// The computations of a drawn step, and between them the collectives, as letters: A all_reduce, R
/// reduce_scatter, G all_gather.
std::string drawn(const std::string& strategy) {
  const Outcome outcome = run("explain " + strategy + " -n 2");
  REQUIRE_EQ(outcome.code, 0);
  std::string all;
  std::istringstream lines(outcome.out.substr(outcome.out.find("begin\n")));
  for (std::string line; std::getline(lines, line);)
    all += contains(line, "forward")          ? "f"
           : contains(line, "backward")       ? "b"
           : contains(line, "optimizer")      ? "|"
           : contains(line, "all_reduce")     ? "A"
           : contains(line, "reduce_scatter") ? "R"
           : contains(line, "all_gather")     ? "G"
                                              : "";
  return all;
}

TEST_CASE("explain draws the collectives of a step between its computations") {
  CHECK_EQ(drawn("ddp"), "fffbAbAbAA|");
  CHECK_EQ(drawn("zero1"), "fffbRbRbR|AGGG");  // A: the norm
  CHECK_EQ(drawn("zero2"), "fffbRbRbR|AGGG");
  CHECK_EQ(drawn("fsdp"), "GGfGffGGbRGbRbR|A");  // one layer ahead
  CHECK_EQ(drawn("tensor"), "fAfAfAbAbAbA|A");
  const std::string step = run("explain fsdp --model tiny -n 2").out;
  CHECK(contains(step, "all_gather        132352\n"));  // 33088 parameters
}

TEST_CASE("explain fsdp takes a folder by its config.json alone") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "config.json",
                      ringlet::models::EncoderConfig::named("tiny").to_json());
  const Outcome named = run("explain fsdp --model tiny -n 2");
  const Outcome read = run("explain fsdp --model " + folder.path().string() + " -n 2");
  REQUIRE_EQ(named.code, 0);
  REQUIRE_EQ(read.code, 0);
  CHECK_EQ(read.out.substr(read.out.find(':')), named.out.substr(named.out.find(':')));
}

TEST_CASE("explain names what is wrong with its options") {
  check_refused("explain", "expected a command; ringlet explain --help lists them");
  check_refused("explain rign", "unknown command 'rign'; did you mean ring?");
  check_refused("explain rign -n 2 --model tiny", "unknown command 'rign'; did you mean ring?");
  check_refused("explain ring --svgg=x", "unknown option '--svgg'; did you mean --svg?");
  check_refused("explain ring -n 1", "--ranks: expected a whole number from 2 to 16, found '1'");
  check_refused("explain ring --svg /nowhere/ring.svg",
                "--svg /nowhere/ring.svg: there is no folder /nowhere");
}

TEST_CASE("explain pipeline prints and draws the computations of each rank in time") {
  CHECK_EQ(
      run(str("explain pipeline --stages 2 --micro-batches 2 --schedule 1f1b")).out,
      "1f1b of 2 stages on 2 ranks, 2 micro-batches\n"
      "F forward, I gradient of the input, W gradient of the weights, B both; a unit of time "
      "each, B two\n\n"
      "rank 0  F0 F1 .  .  B0 -  .  B1 -\n"
      "rank 1  .  F0 B0 -  F1 B1 -\n\n"
      "9 units of time, of which ranks wait 33.3 % (the bubble); 4 messages\n"
      "micro-batches that a rank keeps at most, for gradients of inputs: 2 1; of weights: 2 1\n");
  const std::string two = run(str("explain pipeline --stages 4 --chunks 2 --micro-batches 2 ",
                                  "--schedule interleaved-1f1b"))
                              .out;
  CHECK(two.find("rank 0  F0a F1a F0b F1b ") != std::string::npos);
  const TemporaryFolder folder;
  const std::string file = (folder / "pipeline.svg").string();
  REQUIRE_EQ(run(str("explain pipeline --schedule zero-bubble --svg ", file)).code, 0);
  const std::string drawing = ringlet::read_file(file);
  int bars = 0;
  for (const char* computation : {"><title>F", "><title>I", "><title>W"})
    bars += count(drawing, computation);
  CHECK_EQ(bars, 4 * 8 * 3);
  // Readable where a page is 420 pixels wide: every cell has its text.
  CHECK(contains(drawing, "width=\"480.0\""));
  CHECK_EQ(count(drawing, "class=\"on\""), bars);
  CHECK_EQ(count(drawing, ">rank 3<"), 2);  // in two blocks
  check_refused(str("explain pipeline --stages 5 --chunks 2 --schedule interleaved-1f1b"),
                "--stages 5: expected a multiple of --chunks 2");
  check_refused(str("explain pipeline --stages 4 --chunks 2"),
                "--schedule: pipeline 1f1b: expected 1 chunk of each rank, found 2");
}

TEST_SUITE_END();
