#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

ChannelBlocks channel_blocks(ExchangePlan const& plan, Type type, void const* x, int64_t outer, int64_t channels,
    int64_t inner)
{
    int64_t const size = size_of(type), block = kExchangeBlockBytes / size;
    ChannelBlocks g{};
    g.inner = inner;
    g.tiles = unsigned((block - 1 + inner - 1) / block + 1); // wherever a channel begins
    g.items = unsigned(outer * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    g.channels = int(channels);
    g.packs = int(channels / (kExchangeStride * plan.blocks));
    g.skew = unsigned(reinterpret_cast<uintptr_t>(x) % kExchangeBlockBytes / size);
    return g;
}

#if CUDART_VERSION >= 12010
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

// x as [outer][a thread's channels][the elements from one of those to the next].
cudaError_t tensor_map(CUtensorMap& map, ExchangePlan const& plan, Type type, void const* x, int64_t outer,
    int64_t channels, int64_t inner)
{
    static void* const encode = find_encoder();
    if (!encode)
        return cudaErrorNotSupported;
    uint64_t const size = size_of(type), stride = uint64_t(kExchangeStride) * plan.blocks;
    uint64_t const extents[] = {stride * inner, channels / stride, uint64_t(outer)};
    uint64_t const strides[] = {stride * inner * size, channels * inner * size};
    uint32_t const box[] = {uint32_t(kExchangeBlockBytes / size), uint32_t(extents[1]), 1}, ones[] = {1, 1, 1};
    auto const data = size == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32 : CU_TENSOR_MAP_DATA_TYPE_UINT16;
    CUresult const result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(&map, data, 3,
        const_cast<void*>(x), extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorNotSupported;
}
#else
cudaError_t tensor_map(CUtensorMap&, ExchangePlan const&, Type, void const*, int64_t, int64_t, int64_t)
{
    return cudaErrorNotSupported;
}
#endif

} // namespace

// Of a block's shared memory, with the kernel's barriers and weights.
constexpr int64_t kMostExchangeBytes
    = std::max(Exchange<__half, 6>::kBytes, Exchange<__half, kMostExchangePacks>::kBytes) + (2 << 10);

size_t exchange_bytes()
{
    size_t const bytes = size_t(kExchangeRing) * Exchange<__half, kMostExchangePacks>::kColumns * sizeof(uint64_t);
    return kStAsync && device().clusters ? bytes : 0;
}

bool exchange_fits(ExchangePlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const block = kExchangeBlockBytes / size_of(type), stride = int64_t(kExchangeStride) * plan.blocks;
    return kStAsync && device().clusters && plan.blocks >= 2 && plan.blocks <= kMostBlocksInCluster
        && Exchange<__half, kMostExchangePacks>::kColumns % plan.blocks == 0 && stride % block == 0
        && channels % stride == 0 && channels / stride <= kMostExchangePacks
        && stride * inner < (int64_t(1) << 31) - 2 * block
        && kMostExchangeBytes <= most_shared_of_block();
}

// As many blocks as leave a thread enough packs.
ExchangePlan plan_exchange(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kEnough = 5;
    for (int blocks : {8, 4, 2})
        if (channels >= kEnough * kExchangeStride * blocks && exchange_fits(ExchangePlan{blocks}, type, channels, inner))
            return ExchangePlan{blocks};
    return ExchangePlan{0};
}

cudaError_t launch_l2norm_exchange(ExchangePlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    constexpr int64_t kMostTiles = int64_t(1) << 30;
    if (!tickets || !exchange_fits(plan, type, channels, inner)
        || outer * (inner * size_of(type) / kExchangeBlockBytes + 3) > kMostTiles)
        return cudaErrorInvalidValue;
    CUtensorMap map{};
    cudaError_t const status = tensor_map(map, plan, type, x, outer, channels, inner);
    if (status != cudaSuccess)
        return status;
    ChannelBlocks const g = channel_blocks(plan, type, x, outer, channels, inner);
    auto* const words = reinterpret_cast<uint64_t*>(tickets + kTicketWords);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const go = [&](auto packs) {
            using E = Exchange<T, decltype(packs)::value>;
            return launch_resident<true>(l2norm_exchange_kernel<T, decltype(packs)::value>, plan.blocks, E::kThreads,
                E::kBytes, g.items, on, map, weight, static_cast<T*>(y), g, norm, words);
        };
        if (g.packs <= 6)
            return go(std::integral_constant<int, 6>{});
        return go(std::integral_constant<int, kMostExchangePacks>{});
    });
}

} // namespace surgeon
