// Runs the checks of all exercises, or those of the files with a name that contains the argument.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "exercise.h"

int main(int argc, char** argv) {
  auto exercises = exercise::all();
  std::sort(exercises.begin(), exercises.end(), [](const auto& a, const auto& b) {
    return std::pair(a.file, a.number) < std::pair(b.file, b.number);
  });
  int wrong = 0;
  for (const auto& [file, number, title, check] : exercises) {
    if (argc > 1 && file.find(argv[1]) == file.npos) continue;
    std::cout << std::filesystem::path(file).stem().string() << "." << number << " " << title
              << ": " << std::flush;
    try {
      check();
      std::cout << "right\n";
    } catch (const std::exception& error) {
      std::cout << "wrong\n  " << error.what() << "\n";
      ++wrong;
    }
  }
  return wrong > 0 ? 1 : 0;
}
