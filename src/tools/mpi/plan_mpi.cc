// orrery-plan-mpi: the plan search of `orrery model plan` over the ranks of MPI, for searches too large for
// one host.
//
//   mpirun -n 16 orrery-plan-mpi deepseek-v3 --gpu h200:512 --goal tokens/s/gpu --slo tpot=50ms --fine
//
// Rank r takes every n-th division of the GPUs (search.h); fronts travel as JSON to rank 0, which merges and
// prints. The answer is the same for any number of ranks. Built when CMake finds MPI (Debian:
// libopenmpi-dev).
#define OMPI_SKIP_MPICXX 1  // the C interface is all that is used
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/search.h"
#include "tools/plan_question.h"

namespace {

using namespace orrery::graph;
using namespace orrery::tools;
using Json = nlohmann::json;

Json to_json(const SearchResult& r) {
  Json j = {{"tried", r.tried},
            {"legal", r.legal},
            {"fitting", r.fitting},
            {"kept", r.kept},
            {"best_tpot", r.best_tpot},
            {"best_ttft", r.best_ttft},
            {"given", {r.given_weights, r.given_kv, r.given_chunk}},
            {"weights", r.weights},
            {"kv", r.kv},
            {"front", Json::array()}};
  for (const Candidate& c : r.front)
    j["front"].push_back({c.plan.tp, c.plan.pp, c.plan.dp, c.plan.ep, c.plan.chunk_tokens, c.weights, c.kv,
                          c.concurrency, c.gpus, c.memory, c.answer.output_tokens_s, c.answer.tpot,
                          c.answer.ttft, c.answer.joules_per_token});
  return j;
}

SearchResult from_json(const Json& j, const Plan& base) {
  SearchResult r;
  r.tried = j["tried"], r.legal = j["legal"], r.fitting = j["fitting"], r.kept = j["kept"];
  r.best_tpot = j["best_tpot"], r.best_ttft = j["best_ttft"];
  r.given_weights = j["given"][0], r.given_kv = j["given"][1], r.given_chunk = j["given"][2];
  r.weights = j["weights"].get<std::vector<std::string>>();
  r.kv = j["kv"].get<std::vector<std::string>>();
  for (const Json& row : j["front"]) {
    Candidate c;
    c.plan = base;
    c.plan.tp = row[0], c.plan.pp = row[1], c.plan.dp = row[2], c.plan.ep = row[3],
    c.plan.chunk_tokens = row[4];
    c.weights = row[5], c.kv = row[6], c.concurrency = row[7], c.gpus = row[8], c.memory = row[9];
    c.answer.output_tokens_s = row[10], c.answer.tpot = row[11], c.answer.ttft = row[12],
    c.answer.joules_per_token = row[13];
    r.front.push_back(std::move(c));
  }
  return r;
}

// Texts of all ranks on rank 0, in rank order.
std::vector<std::string> gather(const std::string& mine, int rank, int ranks) {
  int size = static_cast<int>(mine.size());
  std::vector<int> sizes(ranks), starts(ranks);
  MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  int total = 0;
  for (int i = 0; i < ranks && rank == 0; ++i) starts[i] = total, total += sizes[i];
  std::string all(static_cast<std::size_t>(total), '\0');
  MPI_Gatherv(mine.data(), size, MPI_CHAR, all.data(), sizes.data(), starts.data(), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (int i = 0; i < ranks && rank == 0; ++i) texts.push_back(all.substr(starts[i], sizes[i]));
  return texts;
}

int run(int argc, char** argv, int rank, int ranks) {
  CLI::App app{"Search over plans on the ranks of MPI, with the options of `orrery model plan`; prints its document (JSON)."};
  Asked asked;
  asked.search.threads = 1;  // of each rank
  asked.plan_options(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int status = rank == 0 ? app.exit(error) : error.get_exit_code();
    return status == 0 ? 0 : 2;
  }
  if (!asked.common.html.empty() || !asked.common.trace.empty())
    orrery::base::fail("the document is printed: --html and --trace have nothing to write");
  if (asked.plan_training) orrery::base::fail("--train: plans of training are searched by `orrery model plan`");
  refuse_training_options(app);
  read_plan_file(app, asked.common);
  PlanQuestion question(asked, lengths_given(app));
  const auto& [graph, base, cluster] = question;
  SearchQuestion& q = asked.search;
  q.part = rank, q.parts = ranks;
  std::vector<std::string> texts = gather(to_json(search(graph, base, cluster, q)).dump(), rank, ranks);
  if (rank != 0) return 0;
  SearchResult all;
  for (const std::string& text : texts) merge(all, from_json(Json::parse(text), base), q.goal);
  std::cout << search_document(all, graph.name, cluster, q).dump(1) << "\n";
  return all.front.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1, status = 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    status = run(argc, argv, rank, ranks);
  } catch (const std::exception& error) {
    if (rank == 0) std::cerr << "orrery-plan-mpi: " << error.what() << "\n";
  }
  MPI_Finalize();
  return status;
}
