// Writes gzip files and ZIP archives.
#pragma once

#include <doctest/doctest.h>
#include <minizip/zip.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

inline void write_gzip(const std::filesystem::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
  REQUIRE(gzclose(file) == Z_OK);
}

/// `files`: names with their texts; a folder's name ends with "/".
inline void write_zip(const std::filesystem::path& path,
                      const std::vector<std::pair<std::string, std::string>>& files) {
  zipFile archive = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  REQUIRE(archive != nullptr);
  for (const auto& [name, text] : files) {
    REQUIRE(zipOpenNewFileInZip64(archive, name.c_str(), nullptr, nullptr, 0, nullptr, 0, nullptr,
                                  Z_DEFLATED, Z_DEFAULT_COMPRESSION, 0) == ZIP_OK);
    REQUIRE(zipWriteInFileInZip(archive, text.data(), static_cast<unsigned>(text.size())) ==
            ZIP_OK);
    REQUIRE(zipCloseFileInZip(archive) == ZIP_OK);
  }
  REQUIRE(zipClose(archive, nullptr) == ZIP_OK);
}
