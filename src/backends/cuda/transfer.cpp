#include "backends/cuda/transfer.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/driver/stream_branch.h"
#include "core/rounding.h"
#include "runtime/device/host_device.h"
#include "runtime/device/offload_file.h"

namespace ridgepoint::cuda {
namespace {

class Transfer : public Kernel {
 public:
  Transfer(CudaContext& context, const KernelSpec& spec)
      : context_(context),
        name_(ridgepoint::name(spec.node.op)),
        to_host_(spec.node.op == Op::copy_to_host),
        file_(spec.file),
        branch_(context,
                context.side_stream(to_host_ ? CudaContext::SideStream::to_host : CudaContext::SideStream::from_host)),
        bytes_(bytes_of_copies(spec)) {}

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    branch_.run([&](CUstream stream) {
      if (file_ != nullptr) return copy_pieces(arguments, stream);
      for (std::size_t i = 0; i < bytes_.size(); ++i)
        copy(arguments.outputs[i], arguments.inputs[i], bytes_[i], stream);
    });
  }

  void wait() override { branch_.join(); }

 private:
  using Range = OffloadFile::Range;

  // A piece of the file, and what it has of the tensors.
  struct Piece {
    struct Part {
      std::size_t tensor = 0, begin_in_tensor = 0, begin_in_piece = 0, bytes = 0;
    };
    OffloadFile* file = nullptr;
    OffloadFile::Direction direction = OffloadFile::Direction::read;
    Range range;
    std::size_t index = 0;  // in the range
    std::vector<Part> parts = {};
  };

  // The file is read and written by functions that the host calls in the order of the stream, in a captured run too.
  void copy_pieces(const LaunchArguments& arguments, CUstream stream) {
    if (pieces_.empty()) find_pieces(arguments);
    for (Piece& piece : pieces_) {
      if (!to_host_) take_turn(piece, stream);
      std::byte* const memory = file_->buffer(piece.direction, piece.index);
      for (const Piece::Part& part : piece.parts) {
        void* const on_device = to_host_ ? arguments.inputs[part.tensor] : arguments.outputs[part.tensor];
        std::byte* const of_tensor = static_cast<std::byte*>(on_device) + part.begin_in_tensor;
        std::byte* const of_piece = memory + part.begin_in_piece;
        to_host_ ? copy(of_piece, of_tensor, part.bytes, stream) : copy(of_tensor, of_piece, part.bytes, stream);
      }
      if (to_host_) take_turn(piece, stream);
    }
  }

  void take_turn(Piece& piece, CUstream stream) const {
    const auto turn = [](void* data) {
      const auto& of = *static_cast<const Piece*>(data);
      of.file->turn(of.direction, of.range, of.index);
    };
    check(context_.driver().cuLaunchHostFunc(stream, turn, &piece), "call the host between copies");
  }

  // Once: the tensors have their places in the file as long as the program exists.
  void find_pieces(const LaunchArguments& arguments) {
    std::vector<std::uint64_t> begins;
    std::vector<Range> ranges;  // of tensors that follow each other
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      begins.push_back(file_->offset_of(to_host_ ? arguments.outputs[i] : arguments.inputs[i], bytes_[i]));
      if (ranges.empty() || ranges.back().end != begins[i]) ranges.push_back({begins[i], begins[i]});
      ranges.back().end = round_up(begins[i] + bytes_[i], kFileBlockBytes);
    }
    for (const Range& range : ranges) {
      for (std::size_t index = 0; index < range.pieces(); ++index) {
        const auto direction = to_host_ ? OffloadFile::Direction::write : OffloadFile::Direction::read;
        Piece& piece = pieces_.emplace_back(Piece{file_, direction, range, index});
        const Range bytes = range.piece(index);
        for (std::size_t i = 0; i < bytes_.size(); ++i) {
          const std::uint64_t begin = std::max(bytes.begin, begins[i]),
                              end = std::min(bytes.end, begins[i] + bytes_[i]);
          if (begin < end) piece.parts.push_back({i, begin - begins[i], begin - bytes.begin, end - begin});
        }
      }
    }
  }

  void copy(void* to, const void* from, std::size_t bytes, CUstream stream) const {
    if (bytes == 0) return;
    const Driver& driver = context_.driver();
    if (to_host_) {
      check(driver.cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream), "copy to the host");
    } else {
      check(driver.cuMemcpyHtoDAsync_v2(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream), "copy from the host");
    }
  }

  CudaContext& context_;
  std::string_view name_;
  bool to_host_;
  OffloadFile* file_;
  StreamBranch branch_;
  std::vector<std::size_t> bytes_;
  std::vector<Piece> pieces_;  // of the file; the functions that the host calls point to them
};

}  // namespace

std::unique_ptr<Kernel> make_transfer(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<Transfer>(context, spec);
}

}  // namespace ridgepoint::cuda
