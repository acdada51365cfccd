// Runs code under a separate environment.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

/// Calls f() with launchers' and ringlet's variables unset except these, and then restores all.
template <class F>
auto with_environment(const std::map<std::string, std::string>& variables, F&& f) {
  const auto is_launchers = [](const std::string& name) {
    for (const char* prefix :
         {"RINGLET_", "TORCHELASTIC_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "MASTER_", "MPI_LOCAL"})
      if (name.rfind(prefix, 0) == 0) return name != "RINGLET_DATA" && name != "SLURM_CONF";
    return name == "RANK" || name == "LOCAL_RANK" || name == "WORLD_SIZE" ||
           name == "LOCAL_WORLD_SIZE";
  };
  struct Restore {
    std::map<std::string, std::string> old;
    const std::map<std::string, std::string>& added;
    ~Restore() {
      for (const auto& [name, value] : added) ::unsetenv(name.c_str());
      for (const auto& [name, value] : old) ::setenv(name.c_str(), value.c_str(), 1);
    }
  } restore{{}, variables};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (is_launchers(text.substr(0, equals)))
      restore.old[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : restore.old) ::unsetenv(name.c_str());
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  return f();
}
