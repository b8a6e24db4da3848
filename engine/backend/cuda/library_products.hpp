// Products of many rows by cuBLAS, which is looked up when the program runs: without it the device
// still works, more slowly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <cuda_runtime.h>

namespace strata::cuda {

enum class MatrixForm : std::uint8_t { f32, bf16 };

class LibraryProducts {
  public:
    // Null when there is no usable library; `why` says what is missing.
    static std::unique_ptr<LibraryProducts> open(cudaStream_t stream, std::string& why);
    ~LibraryProducts();
    LibraryProducts(const LibraryProducts&) = delete;
    LibraryProducts& operator=(const LibraryProducts&) = delete;

    // y[t][0 .. weight_rows) = scale * x[t] . weight[r], or added to what y holds; y's rows are
    // `y_stride` floats apart. x: [rows][cols], weight: [weight_rows][cols], both of `form`;
    // sums are f32. Throws DeviceFault.
    void multiply(MatrixForm form, const void* weight, std::int64_t weight_rows, const void* x,
                  std::int64_t rows, std::int64_t cols, float scale, bool accumulate, float* y,
                  std::int64_t y_stride);

  private:
    struct Library;
    LibraryProducts();
    std::unique_ptr<Library> library_;
};

}  // namespace strata::cuda
