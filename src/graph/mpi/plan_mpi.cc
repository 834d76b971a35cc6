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
#include "graph/graph_file.h"
#include "graph/search.h"
#include "graph/verbs.h"

namespace {

using namespace orrery::graph;
using Json = nlohmann::json;

Json to_json(const SearchResult& r) {
  Json j = {{"tried", r.tried},
            {"legal", r.legal},
            {"fitting", r.fitting},
            {"kept", r.kept},
            {"best_tpot", r.best_tpot},
            {"best_ttft", r.best_ttft},
            {"given", {r.given_weights, r.given_kv}},
            {"weights", r.weights},
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
  r.given_weights = j["given"][0], r.given_kv = j["given"][1],
  r.weights = j["weights"].get<std::vector<std::string>>();
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
  CLI::App app{"Search over plans on the ranks of MPI; prints a report document (JSON)."};
  std::string model, gpu = "h200:8", engine = "vllm";
  std::vector<std::string> verbs;
  SearchQuestion q;
  q.threads = 1;
  app.add_option("model", model, "config.json, graph file or built-in name")->required();
  app.add_option("--gpu", gpu, "GPU and count")->capture_default_str();
  app.add_option("--do", verbs, "a technique, as in `orrery model`");
  app.add_option("--input", q.input, "tokens of a request");
  app.add_option("--output", q.output, "tokens of an answer");
  app.add_option("--goal", q.goal, "tokens/s, tokens/s/gpu, tpot, ttft or joules");
  app.add_option("--slo", q.limits, "a limit, for example tpot=30ms");
  app.add_option("--formats", q.formats,
                 "weight formats to try beside the given one (fp8 where that has 16 bits)");
  app.add_option("--threads", q.threads, "threads of each rank");
  app.add_option("--engine", engine, "vllm, trtllm, sglang or none");
  app.add_flag("--fine", q.fine, "six chunk sizes, batches that grow by a quarter");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int status = rank == 0 ? app.exit(error) : error.get_exit_code();
    return status == 0 ? 0 : 2;
  }
  q.engine = find_engine(engine);
  q.part = rank, q.parts = ranks;
  Graph graph = load_graph(model);
  Plan base;
  for (const std::string& verb : verbs) apply_verb(verb, graph, base);
  Cluster cluster = parse_cluster(gpu);
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
