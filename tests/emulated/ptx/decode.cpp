#include "decode.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <unordered_map>

#include "../gpu/counters.h"
#include "copy_operations.h"
#include "memory_operations.h"
#include "operands.h"
#include "operations.h"
#include "special.h"

namespace ringlet::emulated {
namespace {

class Decoder {
 public:
  Decoder(const ModuleSource& source, const std::map<std::string, Address>& variables)
      : source_(source), kernel_(std::make_unique<Kernel>()), operands_(*kernel_) {
    for (const auto& [name, address] : variables)
      operands_.symbols[name] = {Space::global, address};
  }

  std::unique_ptr<Kernel> decode(const Function& function) {
    kernel_->name = function.name;
    kernel_->architecture = source_.architecture;
    if (!function.most_threads.empty()) {
      kernel_->most_threads = 1;
      for (const std::uint32_t count : function.most_threads) kernel_->most_threads *= count;
    }
    for (const auto& [number, name] : source_.files) {
      kernel_->files.resize(std::max<std::size_t>(kernel_->files.size(), number + 1));
      kernel_->files[number] = name;
    }
    try {
      read_function(function);
    } catch (const Undecodable& problem) {
      Instruction at;
      at.line = line_;
      throw std::runtime_error("PTX: " + std::string(problem.what()) + ", " + kernel_->name + ", " +
                               kernel_->place(at));
    }
    kernel_->counts.resize(kernel_->code.size());
    for (const std::string& name : kernel_->names) kernel_->classes.push_back(class_of(name));
    return std::move(kernel_);
  }

 private:
  void read_function(const Function& function) {
    for (const Declaration& parameter : function.parameters) operands_.declare_parameter(parameter);
    declare_shared_of_module(function);
    read_body(function, "");
    emit_exit();
    operands_.place_dynamic();
    kernel_->local_bytes = (kernel_->local_bytes + 15) / 16 * 16;
  }

  // Shared variables are declared at module scope. A kernel allocates only those that it names.
  void declare_shared_of_module(const Function& function) {
    for (const Declaration& declared : source_.variables) {
      if (declared.space != ".shared" || function.text.find(declared.name) == std::string::npos)
        continue;
      if (declared.is_extern)
        operands_.declare_dynamic(declared);
      else
        operands_.declare(declared);
    }
    operands_.place_dynamic();
  }

  void read_body(const Function& function, const std::string& end) {
    operands_.open_scope();
    auto labels = std::move(labels_);
    auto jumps = std::move(jumps_);
    labels_.clear(), jumps_.clear();
    end_labels_.push_back(end);
    for (const Statement& statement : function.body()) read(statement);
    end_labels_.pop_back();
    if (!end.empty()) labels_[end] = kernel_->code.size();
    for (const auto& [at, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw Undecodable("no label " + label);
      kernel_->code[at].target = static_cast<std::uint32_t>(found->second);
    }
    labels_ = std::move(labels), jumps_ = std::move(jumps);
    operands_.close_scope();
  }

  void read(const Statement& statement) {
    line_ = statement.line;
    switch (statement.kind) {
      case Statement::Kind::open_scope:
        operands_.open_scope();
        break;
      case Statement::Kind::close_scope:
        operands_.close_scope();
        break;
      case Statement::Kind::label:
        labels_[statement.opcode] = kernel_->code.size();
        break;
      case Statement::Kind::declaration:
        for (const Declaration& declared : statement.declared) operands_.declare(declared);
        break;
      case Statement::Kind::instruction:
        decode_instruction(statement);
        break;
    }
  }

  Instruction start(const Statement& from) {
    Instruction made;
    made.line = from.line;
    made.negated = from.negated;
    if (!from.guard.empty()) made.guard = operands_.operand(from.guard, 0);
    made.name = name_of(from.opcode);
    return made;
  }
  std::uint32_t name_of(const std::string& opcode) {
    auto& names = kernel_->names;
    const auto at = std::find(names.begin(), names.end(), opcode) - names.begin();
    if (at == std::ssize(names)) names.push_back(opcode);
    return static_cast<std::uint32_t>(at);
  }
  void emit(const Instruction& made) { kernel_->code.push_back(made); }
  void emit_exit() {
    Instruction made;
    made.kind = Instruction::Kind::exit;
    made.name = name_of("exit");
    emit(made);
  }

  void decode_instruction(const Statement& from) {
    const auto parts = split(from.opcode, '.');
    const std::string& name = parts[0];
    Instruction made = start(from);
    if (name == "call") return inline_call(from);
    if (name == "bra" || (name == "ret" && !end_labels_.back().empty())) {
      made.kind = Instruction::Kind::branch;
      jumps_.emplace_back(kernel_->code.size(),
                          name == "bra" ? from.operands.at(0) : end_labels_.back());
    } else if (name == "ret" || name == "exit") {
      made.kind = Instruction::Kind::exit;
    } else if (name == "ld" || name == "st" || name == "atom" || name == "red") {
      decode_access(made, from, parts);
    } else if (name == "ldmatrix") {
      decode_ldmatrix(made, from, parts);
    } else if (name == "cp") {
      decode_copy(made, from, parts);
    } else if (name == "bar") {
      decode_barrier(made, from);
    } else if (name == "mma") {
      decode_mma(made, from);
    } else if (from.opcode == "nanosleep.u32" || from.opcode == "membar.cta") {
      return;  // of what another thread of the block has written nothing is kept back here
    } else if (name == "mov" && decode_move(made, from)) {
      return;
    } else {
      decode_table(made, from, name);
    }
    emit(made);
  }

  const Operation& operation(const std::string& opcode) const {
    const auto found = operations().find(opcode);
    if (found == operations().end())
      throw Undecodable("an instruction that is not known: " + opcode);
    return found->second;
  }

  void decode_table(Instruction& made, const Statement& from, const std::string& name) {
    const Operation& known = operation(from.opcode);
    made.run = known.run, made.kind = known.kind, made.variant = known.variant;
    const auto targets = split(from.operands.at(0), '|');  // %p1|%p2 of setp, %r1|%p1 of shfl
    made.out[0] = operands_.output(targets[0], known.result_bytes);
    if (targets.size() > 1) made.out[1] = operands_.output(targets[1], 0);
    std::size_t next = 1;
    for (std::size_t i = 0; i < known.operand_bytes.size(); ++i)
      made.in[i] = input(made, from, next++, known.operand_bytes[i], name);
    if (known.kind == Instruction::Kind::converge)
      made.members = operands_.operand(from.operands.at(next++), 4);
    if (next != from.operands.size()) throw Undecodable("operands of " + from.opcode);
  }
  Operand input(Instruction& made, const Statement& from, std::size_t which, std::size_t bytes,
                const std::string& name) {
    std::string text = from.operands.at(which);
    if (bytes == 0 && text[0] == '!') {
      made.flag = true;
      text.erase(0, 1);
    }
    const Register* const wide = name == "cvt" ? operands_.find_register(text) : nullptr;
    if (wide && wide->bytes == 8 && bytes < 8) return low_half(made, wide->at);
    return operands_.operand(text, bytes);
  }
  // cvt accepts a register that is wider than its type and reads the low bits.
  Operand low_half(const Instruction& of, Operand wide) {
    const Operation& convert = operation("cvt.u32.u64");
    Instruction made = of;
    made.run = convert.run;
    made.out[0] = operands_.new_register(4);
    made.in[0] = wide;
    emit(made);
    return made.out[0];
  }

  void decode_barrier(Instruction& made, const Statement& from) {
    const bool of_warp = from.opcode == "bar.warp.sync";
    const Operation& known = operation(from.opcode);
    made.run = known.run, made.kind = known.kind, made.variant = known.variant;
    if (of_warp) {
      made.members = operands_.operand(from.operands.at(0), 4);
    } else if (known.variant != 0) {
      made.out[0] = operands_.operand(from.operands.at(0), 0);
      made.in[0] = input(made, from, from.operands.size() - 1, 0, "bar");
    } else if (from.operands != std::vector<std::string>{"0"}) {
      throw Undecodable("a barrier other than number 0 of all threads");
    }
  }

  static std::vector<std::string> listed(const std::string& text) {
    if (text[0] != '{') return {text};
    return split_operands(text.substr(1, text.size() - 2));
  }

  void decode_mma(Instruction& made, const Statement& from) {
    const Operation& known = operation(from.opcode);
    made.run = known.run, made.kind = known.kind;
    const auto results = listed(from.operands.at(0));
    for (std::size_t i = 0; i < results.size(); ++i) made.out[i] = operands_.output(results[i], 4);
    std::size_t next = 0;
    for (std::size_t group = 1; group < from.operands.size(); ++group)
      for (const std::string& text : listed(from.operands[group]))
        made.in.at(next++) = operands_.operand(text, 4);
  }

  // ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5]
  void decode_ldmatrix(Instruction& made, const Statement& from,
                       const std::vector<std::string>& parts) {
    const bool transposed = std::count(parts.begin(), parts.end(), "trans") > 0;
    const auto results = listed(from.operands.at(0));
    const std::string expected = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(results.size()) +
                                 (transposed ? ".trans" : "");
    if (from.opcode != expected + ".shared.b16" && from.opcode != expected + ".shared::cta.b16")
      throw Undecodable("an instruction that is not known: " + from.opcode);
    made.kind = Instruction::Kind::converge;
    made.run = transposed ? &run_ldmatrix<true> : &run_ldmatrix<false>;
    made.variant = static_cast<std::uint8_t>(results.size());
    made.access.space = Space::shared;
    made.access.bytes = 8, made.access.elements = 2;
    made.access.of_warp = true;
    for (std::size_t i = 0; i < results.size(); ++i) made.out[i] = operands_.output(results[i], 4);
    operands_.set_address(made, from.operands.at(1));
  }

  // cp.async.cg.shared.global [to], [from], 16{, bytes or predicate}; .commit_group; .wait_group n
  void decode_copy(Instruction& made, const Statement& from,
                   const std::vector<std::string>& parts) {
    const auto has = [&](const char* part) {
      return std::count(parts.begin(), parts.end(), part) > 0;
    };
    if (from.opcode == "cp.async.commit_group") {
      made.run = &run_commit_copies;
    } else if (from.opcode == "cp.async.wait_all" || from.opcode == "cp.async.wait_group") {
      made.run = &run_wait_for_copies;
      made.flag = from.operands.empty();  // wait_all
      if (!made.flag) made.in[0] = operands_.operand(from.operands[0], 4);
    } else if (parts.at(1) == "async" && (has("ca") || has("cg")) && has("global")) {
      decode_copied(made, from, has("cg"));
    } else {
      throw Undecodable("an instruction that is not known: " + from.opcode);
    }
  }
  void decode_copied(Instruction& made, const Statement& from, bool past_l1) {
    const std::uint64_t bytes = std::stoul(from.operands.at(2));
    if (bytes != 16 && (past_l1 || (bytes != 4 && bytes != 8)))
      throw Undecodable(from.opcode + " of " + from.operands[2] + " bytes");
    Instruction source;
    operands_.set_address(source, from.operands[1]);
    if (!source.access.wide_address) throw Undecodable("a source of " + from.opcode);
    made.run = &run_copy;
    made.access.space = Space::shared;
    made.access.bytes = bytes == 4 ? 4 : 8, made.access.elements = bytes == 16 ? 2 : 1;
    operands_.set_address(made, from.operands[0]);
    made.in[1] = source.in[0], made.source_offset = source.offset;
    if (from.operands.size() < 4) return;
    const Register* const limit = operands_.find_register(from.operands[3]);
    made.flag = limit && limit->bytes == 0;  // a predicate: nothing is read
    made.in[2] = operands_.operand(from.operands[3], made.flag ? 0 : 4);
  }

  void decode_access(Instruction& made, const Statement& from,
                     const std::vector<std::string>& parts) {
    const auto has = [&](const char* modifier) {
      return std::find(parts.begin() + 1, parts.end(), modifier) != parts.end();
    };
    const std::string& type = parts.back();
    Access& access = made.access;
    access.space = has("shared")  ? Space::shared
                   : has("param") ? Space::parameter
                   : has("local") ? Space::local
                                  : Space::global;
    access.bytes = static_cast<std::uint8_t>(bytes_of(type));
    access.elements = has("v4") ? 4 : has("v2") ? 2 : 1;
    access.sign_extends = type[0] == 's';
    access.is_constant = has("nc");
    const bool is_atomic = parts[0] == "atom" || parts[0] == "red";
    access.acquires = has("acquire") || has("acq_rel");
    access.releases = has("release") || has("acq_rel");
    const bool strong = is_atomic || has("relaxed") || access.acquires || access.releases;
    if (has("volatile") || has("sys"))
      access.scope = Scope::system;
    else if (strong)
      access.scope = has("cta") ? Scope::block : Scope::gpu;
    kernel_->acquires = kernel_->acquires || access.acquires;
    const bool loads = parts[0] == "ld";
    const bool has_result = loads || parts[0] == "atom";
    operands_.set_address(made, from.operands.at(has_result ? 1 : 0));
    if (loads) {
      made.run = load_of(made.access);
      set_registers(made, listed(from.operands[0]));
    } else if (is_atomic) {
      decode_atomic(made, from, parts, has_result);
    } else {
      made.run = store_of(made.access);
      set_values(made, listed(from.operands.at(1)));
    }
  }
  void set_registers(Instruction& made, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "_") continue;
      const Register& found = operands_.named_register(names[i]);
      if (found.bytes < made.access.bytes)
        throw Undecodable("a load into " + names[i] + ", which is narrower");
      made.out[i] = found.at, made.out_bytes[i] = found.bytes == 8 ? 8 : 4;
    }
  }
  void set_values(Instruction& made, const std::vector<std::string>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Register* const found = operands_.find_register(values[i]);
      const std::size_t bytes = found ? found->bytes : made.access.bytes;
      if (bytes < made.access.bytes)
        throw Undecodable("a store of " + values[i] + ", which is narrower");
      made.in[i + 1] = operands_.operand(values[i], bytes);
      made.in_bytes[i + 1] = bytes == 8 ? 8 : 4;
    }
  }
  void decode_atomic(Instruction& made, const Statement& from,
                     const std::vector<std::string>& parts, bool has_result) {
    made.run = atomic(parts[parts.size() - 2], parts.back());
    if (!made.run) throw Undecodable("an instruction that is not known: " + from.opcode);
    if (has_result) made.out[0] = operands_.output(from.operands[0], made.access.bytes);
    made.in[1] = operands_.operand(from.operands.back(), made.access.bytes);
  }
  // Emits moves that the operation table lacks; false if this is none of them.
  bool decode_move(Instruction& made, const Statement& from) {
    const std::string &to = from.operands.at(0), &source = from.operands.at(1);
    if (const SpecialRegister special = special_register(source); special.run) {
      made.run = special.run;
      made.out[0] = operands_.operand(to, special.bytes);
      emit(made);
      return true;
    }
    if (source[0] == '%' && !operands_.find_register(source))
      throw Undecodable("no register " + source);
    if (to[0] != '{' && source[0] != '{') return false;
    const std::size_t bytes = bytes_of(split(from.opcode, '.').back());
    if (to[0] == '{')
      unpack(made, listed(to), operands_.operand(source, bytes), bytes);
    else
      pack(made, operands_.output(to, bytes), listed(source), bytes);
    return true;
  }
  // mov.b64 {lo, hi}, d and mov.b32 {lo, hi}, r
  void unpack(Instruction made, const std::vector<std::string>& to, Operand from,
              std::size_t bytes) {
    if (to.size() != 2) throw Undecodable("a move into " + std::to_string(to.size()) + " parts");
    const bool wide = bytes == 8;
    const Operand high = operands_.new_register(static_cast<std::uint8_t>(bytes));
    Instruction shift = made;
    shift.run = operation(wide ? "shr.b64" : "shr.b32").run;
    shift.out[0] = high;
    shift.in[0] = from, shift.in[1] = operands_.constant(wide ? 32 : 16, 4);
    if (to[1] != "_") emit(shift);
    made.run = operation(wide ? "cvt.u32.u64" : "cvt.u16.u32").run;
    for (std::size_t i = 0; i < 2; ++i) {
      if (to[i] == "_") continue;
      made.out[0] = operands_.operand(to[i], bytes / 2);
      made.in[0] = i == 0 ? from : high;
      emit(made);
    }
  }
  // mov.b64 d, {lo, hi}
  void pack(Instruction made, Operand to, const std::vector<std::string>& from, std::size_t bytes) {
    if (from.size() != 2) throw Undecodable("a move of " + std::to_string(from.size()) + " parts");
    const bool wide = bytes == 8;
    const auto width = static_cast<std::uint8_t>(bytes);
    Operand parts[2];
    for (std::size_t i = 0; i < 2; ++i) {
      Instruction widen = made;
      widen.run = operation(wide ? "cvt.u64.u32" : "cvt.u32.u16").run;
      widen.out[0] = parts[i] = operands_.new_register(width);
      widen.in[0] = operands_.operand(from[i], bytes / 2);
      emit(widen);
    }
    Instruction shift = made;
    shift.run = operation(wide ? "shl.b64" : "shl.b32").run;
    shift.out[0] = shift.in[0] = parts[1];
    shift.in[1] = operands_.constant(wide ? 32 : 16, 4);
    emit(shift);
    made.run = operation(wide ? "or.b64" : "or.b32").run;
    made.out[0] = to;
    made.in[0] = parts[0], made.in[1] = parts[1];
    emit(made);
  }

  // call (result), function, (arguments): inlines the body with the caller's parameters.
  void inline_call(const Statement& from) {
    std::vector<std::string> results, arguments;
    std::string name;
    for (const std::string& operand : from.operands) {
      if (operand[0] != '(')
        name = operand;
      else
        (name.empty() ? results : arguments) =
            split_operands(operand.substr(1, operand.size() - 2));
    }
    const auto found = source_.functions.find(name);
    if (found == source_.functions.end())
      throw Undecodable("a call of " + name + ", which has no body");
    if (!from.guard.empty()) throw Undecodable("a call under a predicate");
    const auto before = operands_.symbols;
    const auto bind = [&](const std::vector<Declaration>& to, const std::vector<std::string>& of) {
      for (std::size_t i = 0; i < to.size(); ++i)
        operands_.symbols[to[i].name] = before.at(of.at(i));
    };
    bind(found->second.results, results);
    bind(found->second.parameters, arguments);
    read_body(found->second, "$end of " + name + std::to_string(calls_++));
    operands_.symbols = before;
  }

  const ModuleSource& source_;
  std::unique_ptr<Kernel> kernel_;
  Operands operands_;
  std::map<std::string, std::size_t> labels_;
  std::vector<std::pair<std::size_t, std::string>> jumps_;
  std::vector<std::string> end_labels_;
  SourceLine line_{};
  int calls_ = 0;
};

}  // namespace

const Operations& operations() {
  static const Operations table = [] {
    Operations made;
    add_integer_operations(made);
    add_carry_operations(made);
    add_bit_operations(made);
    add_float_operations(made);
    add_compare_operations(made);
    add_convert_operations(made);
    add_warp_operations(made);
    return made;
  }();
  return table;
}

Module::Module(const std::string& text) : source_(parse_module(text)) {
  Region& memory = Memory::instance().of(kHost);
  for (const Declaration& declared : source_.variables) {
    if (declared.space != ".global" && declared.space != ".const") continue;
    const std::size_t bytes = bytes_of(declared.type), total = bytes * declared.count;
    const Address at = memory.allocate(total);
    std::byte* const data = memory.view(at);
    std::memset(data, 0, total);
    for (std::size_t i = 0; i < declared.values.size(); ++i)
      std::memcpy(data + i * bytes, &declared.values[i], bytes);
    variables_[declared.name] = at;
  }
}

Module::~Module() = default;

Kernel& Module::kernel(const std::string& name) {
  auto& held = kernels_[name];
  if (held) return *held;
  const auto found = source_.functions.find(name);
  if (found == source_.functions.end()) throw std::runtime_error("no kernel " + name);
  held = Decoder(source_, variables_).decode(found->second);
  return *held;
}

std::vector<std::string> Module::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& [name, function] : source_.functions)
    if (function.is_entry) names.push_back(name);
  return names;
}

}  // namespace ringlet::emulated
