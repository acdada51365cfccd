// `ringlet audit` on runs of `ringlet train --audit-steps`.
#include "ringlet/train/checkpoint/audit.h"
#include "ringlet/tests/cli/training.h"

using ringlet::read_file;
using ringlet::write_file;

namespace {

Outcome audit(const std::filesystem::path& run, const std::string& more = "") {
  return ::run(str("audit ", run.string(), ' ', more));
}

/// Ended with code 1 and one line with this text.
void check_found(const Outcome& outcome, const std::string& text) {
  CHECK_EQ(outcome.code, 1);
  CHECK_EQ(count(outcome.err, "\n"), 1);
  CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
}

std::string last_digest(const std::filesystem::path& run) {
  std::string digest;
  for (const ringlet::train::AuditLine& line :
       ringlet::train::read_audit(run / ringlet::train::kAudit))
    if (line.has("state")) digest = line.digest;
  return digest;
}

}  // namespace

TEST_CASE("an audit repeats a run of several ranks; its last digest names the result") {
  const TemporaryFolder folder;
  std::vector<std::string> digests;
  for (const std::string how : {"--strategy ddp --threads-per-device 2", "--strategy zero2",
                                "--strategy fsdp --threads-per-device 1 --save-steps 3"}) {
    const auto output = folder / str("run", digests.size());
    const Outcome trained = run(short_training(output, 6, how + " --devices 2 --audit-steps 2"));
    REQUIRE_MESSAGE(trained.code == 0, trained.err);
    digests.push_back(last_digest(output));
    CHECK_EQ(digests.back(), digests.front());
  }
  const Outcome audited = audit(folder / "run2", "--steps 2 --seed 1");
  CHECK_MESSAGE(audited.code == 0, audited.err);
  CHECK(contains(audited.out, "digests took "));
  CHECK(contains(audited.out,
                 "2 checkpoints and 5 replayed steps are as recorded; digest " + digests.front()));
}

TEST_CASE("an audit names the first difference") {
  const TemporaryFolder folder;
  const auto output = folder / "run", log = output / ringlet::train::kAudit;
  const std::string data = (folder / "data").string();
  REQUIRE_EQ(run(str("make-data ", data, " --rows 300")).code, 0);
  const std::string file = data + "/nli-train.jsonl";
  REQUIRE_EQ(
      run(tiny_training(output, 6, "--data " + file + " --save-steps 4 --audit-steps 2")).code, 0);
  CHECK_EQ(audit(output, "--steps 0").code, 0);

  const auto changed = [&](const std::filesystem::path& path, const std::string& text) {
    const std::string bytes = read_file(path);
    write_file(path, text);
    const Outcome found = audit(output);
    write_file(path, bytes);
    return found;
  };
  const auto flipped = [&](const std::filesystem::path& path) {
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] ^= 1;
    return changed(path, bytes);
  };
  check_found(flipped(output / "checkpoint-4/optimizer.safetensors"),
              "optimizer.safetensors: damaged");
  check_found(flipped(output / "checkpoint-4/SHA256SUMS"), "SHA256SUMS: expected digest ");
  check_found(flipped(output / "model/model.safetensors"), "model.safetensors: expected digest ");
  check_found(flipped(log), "audit.jsonl:");
  const std::string whole = read_file(log);
  check_found(changed(log, whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1)),
              "model.safetensors: no line of audit.jsonl has its digest");
  const std::string first = "{\"step\":0,\"audit_steps\":0}";
  check_found(changed(log, first.substr(0, first.size() - 1) + ",\"digest\":\"" +
                               ringlet::sha256(first) + "\"}\n"),
              "audit.jsonl:1: expected audit_steps of at least 1, found 0");

  // Whole chains of other options.
  using Texts = std::vector<std::string>;
  const std::string timeline = (folder / "elsewhere.json").string();
  ringlet::train::AuditLog(log).add(
      {{"step", 6}, {"options", Texts{"--model=tiny", "--timeline", timeline}}});
  check_found(audit(output), "--timeline " + timeline + ": expected no such option in a record");
  CHECK_FALSE(std::filesystem::exists(timeline));
  ringlet::train::AuditLog(log).add(
      {{"step", 6}, {"options", Texts{"--data=data"}}, {"read_once", Texts{"data"}}});
  check_found(audit(output), "data was rows in memory or a pipe: a replay cannot read it");
  CHECK_EQ(audit(output, "--steps 0").code, 0);
  write_file(log, whole);

  const std::string rows = read_file(file);
  check_found(changed(file, rows.substr(rows.find('\n') + 1)), "was trained with --data");

  // A whole chain, of other weights: the replay finds them.
  const auto lines = ringlet::train::read_audit(log);
  std::string kept;
  for (const std::string text = read_file(log); count(kept, "\n") < 3;)
    kept += text.substr(kept.size(), text.find('\n', kept.size()) + 1 - kept.size());
  write_file(log, kept);
  for (std::size_t i = 3; i < lines.size(); ++i) {
    ringlet::Json line = lines[i].json;
    if (line.contains("state") && line["step"].integer() == 2) line["state"] = std::string(64, '0');
    if (!line.contains("files")) ringlet::train::AuditLog(log).add(line);
  }
  check_found(audit(output, "--steps 9"), "step 2: other weights or moments than in the replay");
}

TEST_CASE("an audit refuses a folder without digests") {
  const TemporaryFolder folder;
  check_refused(str("audit ", folder.path().string()),
                folder.path().string() +
                    ": no audit.jsonl; expected the --output of a run with --audit-steps");
  check_refused("audit", "RUN is required");
}

TEST_CASE("a run that goes on with another interval is refused; a path keeps its words") {
  const TemporaryFolder folder;
  const auto output = folder / "save_steps=1";
  REQUIRE_EQ(run(only_steps(output, 2, "--audit-steps 2 --save-steps 2")).code, 0);
  const Outcome outcome = run(only_steps(output, 2, "--audit-steps 3 --save-steps 2 --resume"));
  CHECK_EQ(outcome.code, 2);
  CHECK_MESSAGE(contains(outcome.err, str("--audit-steps 3: ", (output / "audit.jsonl").string(),
                                          " began with interval 2, or with other arguments")),
                outcome.err);
}
