// MPI_Allreduce of f32, for bench/collectives: prints the wrong values of all ranks, then the
// seconds of each repetition, measured by rank 0.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto n = static_cast<std::size_t>(argc > 1 ? std::atoll(argv[1]) : 4096) / sizeof(float);
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.2;
  const auto element = [](int of_rank, std::size_t i) {
    return static_cast<float>((i + 3 * static_cast<std::size_t>(of_rank)) % 29);
  };
  std::vector<float> buffer(n);
  const auto run = [&] {
    MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  for (std::size_t i = 0; i < n; ++i) buffer[i] = element(rank, i);
  run();
  long long wrong = 0, all_wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int other = 0; other < size; ++other) sum += element(other, i);
    wrong += buffer[i] != sum;
  }
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);

  std::fill(buffer.begin(), buffer.end(), 0.f);
  double first = MPI_Wtime();
  run();
  first = std::max(MPI_Wtime() - first, 1e-7);
  int repetitions = static_cast<int>(std::clamp(budget / first, 3.0, 20000.0));
  MPI_Bcast(&repetitions, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const double start = MPI_Wtime();
    run();
    seconds.push_back(MPI_Wtime() - start);
  }
  if (rank == 0) {
    std::printf("%lld", all_wrong);
    for (const double value : seconds) std::printf(" %.9g", value);
    std::printf("\n");
  }
  MPI_Finalize();
  return 0;
}
