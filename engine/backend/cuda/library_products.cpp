#include "engine/backend/cuda/library_products.hpp"

#include <array>
#include <cstddef>

#include <cublas_api.h>
#include <dlfcn.h>

#include "engine/backend/cuda/fault.hpp"

namespace strata::cuda {
namespace {

constexpr const char* kLibraryName = "libcublas.so.13";
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what cuBLAS asks for on Hopper

void check_library(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceFault(std::string(what) + ": cuBLAS status " +
                      std::to_string(static_cast<int>(status)));
}

}  // namespace

struct LibraryProducts::Library {
    void* handle = nullptr;  // of dlopen
    cublasHandle_t cublas = nullptr;
    void* workspace = nullptr;
    decltype(&cublasCreate_v2) create = nullptr;
    decltype(&cublasDestroy_v2) destroy = nullptr;
    decltype(&cublasSetStream_v2) set_stream = nullptr;
    decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
    cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                           const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                           int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                           cublasGemmAlgo_t) = nullptr;

    ~Library() {
        if (cublas != nullptr) destroy(cublas);
        if (workspace != nullptr) static_cast<void>(cudaFree(workspace));
        if (handle != nullptr) dlclose(handle);
    }
    template <class Function>
    bool find(const char* name, Function& out) {
        out = reinterpret_cast<Function>(dlsym(handle, name));
        return out != nullptr;
    }
};

LibraryProducts::LibraryProducts() : library_(std::make_unique<Library>()) {}
LibraryProducts::~LibraryProducts() = default;

std::unique_ptr<LibraryProducts> LibraryProducts::open(cudaStream_t stream, std::string& why) {
    std::unique_ptr<LibraryProducts> out(new LibraryProducts());
    Library& library = *out->library_;
    library.handle = dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
    if (library.handle == nullptr) {
        why = std::string(kLibraryName) + " is not installed";
        return nullptr;
    }
    const bool whole = library.find("cublasCreate_v2", library.create) &&
                       library.find("cublasDestroy_v2", library.destroy) &&
                       library.find("cublasSetStream_v2", library.set_stream) &&
                       library.find("cublasSetWorkspace_v2", library.set_workspace) &&
                       library.find("cublasGemmEx", library.gemm);
    if (!whole || library.create(&library.cublas) != CUBLAS_STATUS_SUCCESS) {
        why = std::string(kLibraryName) + " cannot be used with this device";
        return nullptr;
    }
    check_library(library.set_stream(library.cublas, stream), "choosing a stream");
    if (cudaMalloc(&library.workspace, kWorkspaceBytes) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        why = "no device memory for the workspace of " + std::string(kLibraryName);
        return nullptr;
    }
    check_library(library.set_workspace(library.cublas, library.workspace, kWorkspaceBytes),
                  "choosing a workspace");
    return out;
}

void LibraryProducts::multiply(MatrixForm form, const void* weight, std::int64_t weight_rows,
                               const void* x, std::int64_t rows, std::int64_t cols, float scale,
                               bool accumulate, float* y, std::int64_t y_stride) {
    const cudaDataType type = form == MatrixForm::f32 ? CUDA_R_32F : CUDA_R_16BF;
    const float beta = accumulate ? 1.0F : 0.0F;
    // Row-major matrices are column-major ones transposed: y^T = weight x^T.
    check_library(library_->gemm(
                      library_->cublas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(weight_rows),
                      static_cast<int>(rows), static_cast<int>(cols), &scale, weight, type,
                      static_cast<int>(cols), x, type, static_cast<int>(cols), &beta, y, CUDA_R_32F,
                      static_cast<int>(y_stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                  "a product of many rows");
}

}  // namespace strata::cuda
