#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

// Of channels that a cluster has at once.
int64_t exchange_stride(ExchangePlan const& plan) { return int64_t(kExchangeStride) * plan.blocks; }

// A thread's channels.
int64_t exchange_packs(ExchangePlan const& plan, int64_t channels) { return ceil_div(channels, exchange_stride(plan)); }

ChannelBlocks channel_blocks(ExchangePlan const& plan, Type type, void const* x, int64_t outer, int64_t channels,
    int64_t inner)
{
    int64_t const size = size_of(type), block = kExchangeBlockBytes / size;
    ChannelBlocks g{};
    g.inner = int(inner);
    g.tiles = unsigned((block - 1 + inner - 1) / block + 1); // wherever a channel begins
    g.items = unsigned(outer * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    g.channels = int(channels);
    g.packs = int(exchange_packs(plan, channels));
    g.skew = unsigned(reinterpret_cast<uintptr_t>(x) % kExchangeBlockBytes / size);
    return g;
}

// f(the packs of a thread, the least that are compiled and do); cudaErrorInvalidValue where none do.
template <class F>
cudaError_t with_packs(int64_t packs, F const& f)
{
    switch (packs)
    {
    case 6: return f(std::integral_constant<int, 6>{});
    case 7: return f(std::integral_constant<int, 7>{});
    case 8: return f(std::integral_constant<int, 8>{});
    }
    return packs <= 5 ? f(std::integral_constant<int, 5>{}) : cudaErrorInvalidValue;
}

} // namespace

size_t exchange_bytes()
{
    size_t const words = kExchangeRing * kExchangeBlockBytes / sizeof(__half); // of two columns, a tile's two ends
    return kWordsOf16 && device().clusters ? words * sizeof(ExchangeWord) : 0;
}

// A thread's channels must begin equally far inside blocks of memory.
bool exchange_fits(ExchangePlan const& plan, Type type, int64_t channels)
{
    int const blocks = plan.blocks;
    bool const power = (blocks & (blocks - 1)) == 0;
    if (!kWordsOf16 || !device().clusters || blocks < 2 || blocks > kMostBlocksInCluster || !power)
        return false;
    int64_t const packs = exchange_packs(plan, channels);
    if (packs < 2 || exchange_stride(plan) % (kExchangeBlockBytes / size_of(type)) != 0)
        return false;
    return cudaSuccess == with_type(type, [&](auto tag) {
        return with_packs(packs, [&](auto most) {
            using E = Exchange<typename decltype(tag)::type, decltype(most)::value>;
            bool const room = E::kBytes + E::kStaticBytes <= most_shared_of_block();
            return room && E::kColumns / blocks <= E::kMostOwned ? cudaSuccess : cudaErrorInvalidValue;
        });
    });
}

// As many blocks as leave a thread enough packs.
ExchangePlan plan_exchange(Type type, int64_t channels)
{
    constexpr int64_t kEnough = 5;
    for (int blocks : {8, 4, 2})
    {
        ExchangePlan const plan{blocks};
        if (exchange_packs(plan, channels) >= kEnough && exchange_fits(plan, type, channels))
            return plan;
    }
    return ExchangePlan{0};
}

cudaError_t launch_l2norm_exchange(ExchangePlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    constexpr int64_t kMostTiles = int64_t(1) << 30, kMostElements = int64_t(1) << 31;
    int64_t const block = kExchangeBlockBytes / size_of(type), elements = outer * channels * inner;
    if (!tickets || !exchange_fits(plan, type, channels) || outer * (inner / block + 3) > kMostTiles
        || elements > kMostElements - 2 * block)
        return cudaErrorInvalidValue;
    ChannelBlocks const g = channel_blocks(plan, type, x, outer, channels, inner);
    ChannelMaps maps{};
    cudaError_t const status = tensor_maps(
        maps, type, x, elements, exchange_stride(plan) * inner, g.packs, int(block), kExchangeBlockBytes);
    if (status != cudaSuccess)
        return status;
    auto* const words = reinterpret_cast<ExchangeWord*>(tickets + kTicketWords);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return with_packs(g.packs, [&](auto most) {
            constexpr int R = decltype(most)::value;
            using E = Exchange<T, R>;
            return launch_resident<true>(l2norm_exchange_kernel<T, R>, plan.blocks, E::kThreads, E::kBytes, g.items, on,
                maps, weight, static_cast<T*>(y), g, norm, words, tickets);
        });
    });
}

} // namespace surgeon
