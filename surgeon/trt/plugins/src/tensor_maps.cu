#include "launch.h"

namespace surgeon
{

#if CUDART_VERSION >= 12010
namespace
{

// The driver's function that makes tensor maps; nullptr where it has none.
void* find_encoder()
{
    void* encode = nullptr;
    constexpr char const* kName = "cuTensorMapEncodeTiled";
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    cudaError_t const status = cudaGetDriverEntryPointByVersion(kName, &encode, 12000, cudaEnableDefault, &found);
#else
    cudaError_t const status = cudaGetDriverEntryPoint(kName, &encode, cudaEnableDefault, &found);
#endif
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? encode : nullptr;
}

cudaError_t tensor_map(CUtensorMap& map, Type type, void const* x, int64_t elements, int64_t step, int packs,
    int columns, int64_t into_l2)
{
    static void* const encode = find_encoder();
    if (!encode)
        return cudaErrorNotSupported;
    uint64_t const size = size_of(type), extents[] = {uint64_t(elements - (packs - 1) * step), uint64_t(packs)},
                   strides[] = {step * size};
    uint32_t const box[] = {uint32_t(columns), uint32_t(packs)}, ones[] = {1, 1};
    auto const data = size == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32 : CU_TENSOR_MAP_DATA_TYPE_UINT16;
    auto const promotion
        = into_l2 == kLineBytes ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    CUresult const result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(&map, data, 2,
        const_cast<void*>(x), extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}

} // namespace

cudaError_t tensor_maps(ChannelMaps& maps, Type type, void const* x, int64_t elements, int64_t step, int packs,
    int columns, int64_t into_l2)
{
    cudaError_t const status = tensor_map(maps.full, type, x, elements, step, packs, columns, into_l2);
    return status != cudaSuccess || packs == 1
        ? status
        : tensor_map(maps.less, type, x, elements, step, packs - 1, columns, into_l2);
}
#else
cudaError_t tensor_maps(ChannelMaps&, Type, void const*, int64_t, int64_t, int, int, int64_t)
{
    return cudaErrorNotSupported;
}
#endif

} // namespace surgeon
